# SPDX-License-Identifier: Apache-2.0
"""Fibers of the Tern runtime, for gdb: `source tern_gdb.py`, then `help tern`.

Reads memory only: it calls nothing in the program and changes none of its registers, so it works on core dumps too. A
suspended fiber's stack is shown by an unwinder that says the selected thread was called from there. What it mirrors:
stack_pool::mapping::fiber_at (tern/task/stack/stack_pool.cpp), switch_stack (tern/task/fiber/context_switch.hpp), describe
(tern/task/report/dump.cpp).
"""

import ctypes
import mmap
import platform
import re
import struct
import time

import gdb
import gdb.unwinder

COLOURS, ALIGNMENT = 16, 64  # of stack_pool.cpp; of tern::detail::fiber
DONE = 2  # tern::detail::fiber::done
# What switch_stack leaves at switch_point::sp: where each register lies, and what the stack pointer is once it has gone on.
SAVED = {"x86-64": ({"rip": 0, "rbx": 8, "rbp": 16}, "rsp", 3 * 8 + 128, "rip"),
         "aarch64": ({"pc": 0, "x19": 8, "x29": 16, "x30": 24}, "sp", 32, "pc")}
NO_SYMBOLS = ("the program's tern_task library has no debug information, so fibers cannot be read: build with debug symbols: "
              "cmake --preset debug (or -DCMAKE_BUILD_TYPE=RelWithDebInfo)")


def elements(vector):
    begin, end = vector["_M_impl"]["_M_start"], vector["_M_impl"]["_M_finish"]
    return [(begin + i).dereference() for i in range(int(end - begin))]


def owned(value):
    """The pointer in a std::unique_ptr, which has no other data."""
    target = value.type.strip_typedefs().template_argument(0).pointer()
    return value.address.cast(target.pointer()).dereference()


def number_in(value):
    """The number or address in a std::atomic, or in tern::detail::relaxed, which have no other data; or the value itself."""
    while value.type.strip_typedefs().code == gdb.TYPE_CODE_STRUCT:
        value = value[next(f for f in value.type.strip_typedefs().fields() if hasattr(f, "bitpos"))]
    return int(value)


def text_of(string):
    """Of a std::string."""
    length = int(string["_M_string_length"])
    return string["_M_dataplus"]["_M_p"].string(errors="replace", length=length) if length else ""


def read(address, size):
    try:
        return bytes(gdb.selected_inferior().read_memory(address, size))
    except gdb.error as e:
        raise gdb.GdbError(f"cannot read the program's memory at {address:#x}: {e}. (Does the core dump hold private anonymous "
                           "memory? See /proc/PID/coredump_filter.)") from None


def word(address):
    return int.from_bytes(read(address, 8), "little")


def symbol_at(address):
    """The name of what lies at the address, and how far into it; (None, 0) if nobody knows."""
    text = gdb.execute(f"info symbol {address:#x}", to_string=True)
    if text.startswith("No symbol"):
        return None, 0
    match = re.match(r"(.*?)(?: \+ (\d+))?(?: in section \S+.*)?$", text.strip())
    return match.group(1), int(match.group(2) or 0)


class Layout:
    """Where the members of a class lie, those of its bases included."""

    def __init__(self, kind):
        self.size = kind.sizeof
        self.at = {}
        self._add(kind.strip_typedefs(), 0)

    def _add(self, kind, offset):
        for field in kind.fields():
            if not hasattr(field, "bitpos"):
                continue  # static
            if field.is_base_class:
                self._add(field.type.strip_typedefs(), offset + field.bitpos // 8)
            elif field.name:
                self.at[field.name] = offset + field.bitpos // 8


class Clock:
    """How many seconds ago a moment of tern::detail::ticks() was. On real executors that is the processor's counter: read
    here if the program lives on this machine; of a core dump, the last moment that the program noted."""

    def __init__(self, core, workers, fibers):
        self.about = False
        executor = core["executor"]
        if int(executor):
            self.now, self.per_second = int(executor["now_"]), 1e9  # virtual
            return
        self.now, self.per_second = None, _speed()
        connection = getattr(gdb.selected_inferior(), "connection", None)
        if self.per_second is None:
            return
        if connection is not None and connection.type == "native":
            self.now = _counter()
        else:
            self.about = True
            noted = [number_in(w["last_tick"]) for w in workers] + [f.waits_since for f in fibers if f.waits]
            self.now = max(noted, default=None)

    def ago(self, moment):
        if self.now is None:
            return "?"
        return f"{'about ' if self.about else ''}{max(0.0, (self.now - moment) / self.per_second):.3f} s"


_code = []  # the page, which must not go, and the function


def _counter():
    """Of this machine; None if it cannot be read."""
    if not _code:
        _code.append(None)
        if platform.machine() == "x86_64":
            try:
                page = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
                page.write(b"\x0f\x31\x48\xc1\xe2\x20\x48\x09\xd0\xc3")  # rdtsc; shl $32,%rdx; or %rdx,%rax; ret
                address = ctypes.addressof(ctypes.c_char.from_buffer(page))
                _code[:] = [ctypes.CFUNCTYPE(ctypes.c_uint64)(address), page]
            except (OSError, ValueError):
                pass  # pages that can be written and executed may be forbidden
    return _code[0]() if _code[0] else None


def _speed(found=[]):  # noqa: B006: measured once
    if not found:
        first, began = _counter(), time.monotonic_ns()
        time.sleep(0.02)
        last, ended = _counter(), time.monotonic_ns()
        found.append(None if first is None else (last - first) * 1e9 / (ended - began))
    return found[0]


class Fiber:
    """A copy of a tern::detail::fiber that is in use."""

    def __init__(self, process, scheduler, address, raw):
        at = process.fiber.at
        self.process, self.scheduler, self.address = process, scheduler, address

        def number(name, form="Q"):
            return struct.unpack_from("<" + form, raw, at[name])[0]

        self.id, self.joiner = number("id"), number("joiner")
        self.body, self.group = number("body"), number("group")
        self.low, self.size = number("low"), number("size")
        self.sp = number("at")  # switch_point::sp comes first
        self.runner, self.pinned = number("runner", "?"), number("worker", "h")
        self.queued = number("queued")
        self.waits, self.waits_for = number("waits", "B"), number("waits_for")
        self.waits_on, self.waits_since = number("waits_on"), number("waits_since", "q")
        self.made = process.place(number("made"))
        name = raw[at["name"]:at["name"] + 48]
        self.name = name.split(b"\0")[0].decode(errors="replace")
        self.worker = None  # that runs it
        self.thread = None  # the thread with its stack pointer on the fiber's stack

    def called(self):
        return f"{self.id} '{self.name}'" if self.name else str(self.id)

    def state(self):
        if self.joiner == DONE:
            return "ended"
        if self.worker is not None or self.thread:
            return "runs"
        if self.runner and not self.group and not self.queued:
            return "idle"
        if not self.waits or self.queued:
            return "ready" if self.begun() else "new"
        return "waits"

    def begun(self):
        if self.process.boost:
            return True
        return not self.process.is_entry(word(self.sp))

    def reason(self):
        """What it waits for, as dump_fibers says it."""
        state = self.state()
        if state == "idle":
            return "a tasklet"
        if state == "ready" and self.waits:
            return f"(woken from {self.process.kinds[self.waits]})"
        if state != "waits":
            return ""
        kind = self.process.kinds.get(self.waits, "something")
        if kind == "join":
            return f"fiber {self.process.name_at(self.waits_for)} to end"
        text = "sleep" if kind == "sleep" else kind + (f" {self.waits_for:#x}" if self.waits_for else "")
        owner = word(self.waits_on) if self.waits_on else 0
        if owner & 1:
            text += " that a thread has"
        elif owner:
            text += f" that fiber {self.process.name_at(owner)} has"
        return text

    def since(self):
        return self.scheduler.clock.ago(self.waits_since) if self.state() == "waits" else ""

    def where(self):
        """Its worker, and the gdb thread."""
        if self.state() == "runs":
            worker = "" if self.worker is None else str(self.worker)
            return f"{worker} (thread {self.thread.num})" if self.thread else f"{worker} (being entered or left)"
        queue = self.scheduler.queues.get(self.queued)
        if queue is not None:
            return f"queue of {queue}"
        return f"only {self.pinned}" if self.pinned >= 0 else ""


class Scheduler:
    def __init__(self, process, number, core):
        self.number, self.core = number, core
        self.name = text_of(core["cfg"]["name"])
        workers = [owned(w).dereference() for w in elements(core["workers"])]
        self.workers = len(workers)
        self.queues = {int(w["queue"].address): int(w["index"]) for w in workers}
        self.fibers, self.lost = [], 0
        size, id_at, me_at, home_at = process.fiber.size, *(process.fiber.at[f] for f in ("id", "me", "home"))
        for m in elements(core["fibers"]["stacks"].referenced_value()["mappings_"]):
            base, slot = int(m["base"]), int(m["slot"])
            for i in range(int(m["carved"])):
                address = (base + (i + 1) * slot - size - i % COLOURS * 64) & ~(ALIGNMENT - 1)
                raw = read(address, size)
                me = struct.unpack_from("<Q", raw, me_at)[0]
                if me == 0 and not any(raw):
                    self.lost += 1  # gdb reads zeros where a core dump has nothing
                    continue
                if me != address:
                    raise gdb.GdbError(f"there is no fiber at {address:#x}: this tern_gdb.py is of another version than the "
                                       "program's libtern_task")
                home = struct.unpack_from("<Q", raw, home_at)[0]  # simulated schedulers share their stacks
                if home == int(core.address) and struct.unpack_from("<Q", raw, id_at)[0] != 0:
                    self.fibers.append(Fiber(process, self, address, raw))
        self.fibers.sort(key=lambda f: f.id)
        running = {number_in(w["running"]): int(w["index"]) for w in workers if number_in(w["running"])}
        for f in self.fibers:
            f.worker = running.get(f.address)
        self.clock = Clock(core, workers, self.fibers)


class Process:
    """All that is known of the selected process's fibers, as it stands now."""

    def __init__(self):
        if gdb.selected_thread() is None:
            raise gdb.GdbError("there is no process: run the program, attach to it, or load its core dump first")
        if gdb.lookup_global_symbol("tern_schedulers") is None and not _known("tern_schedulers"):
            raise gdb.GdbError("there is no tern_schedulers in this program: it does not use Tern's fibers, has not loaded "
                               "libtern_task yet, or was stripped")
        language = gdb.parameter("language")
        gdb.execute("set language c++", to_string=True)  # the selected frame's may be another, with other names
        try:
            cores = gdb.parse_and_eval("tern_schedulers")
            self.fiber = Layout(gdb.lookup_type("tern::detail::fiber"))
            kind = gdb.lookup_type("tern::detail::wait_kind")
            point = Layout(gdb.lookup_type("tern::detail::switch_point"))
            self._place = gdb.lookup_type("std::source_location::__impl").pointer()
            cores[0].dereference().type.fields()
        except (gdb.error, TypeError):
            raise gdb.GdbError(NO_SYMBOLS) from None
        finally:
            gdb.execute(f"set language {language}", to_string=True)
        self.boost = "words" not in point.at
        self.kinds = {int(f.enumval): f.name.rsplit("::", 1)[-1] for f in kind.fields()}
        for number, name in self.kinds.items():
            self.kinds[number] = {"condition": "condition_variable", "other": "something"}.get(name, name)
        self._places, self._names, self._entries = {}, {}, {}
        self.schedulers = [Scheduler(self, i, cores[i].dereference()) for i in range(256) if int(cores[i])]
        for f in self.all():
            self._names[f.address] = f.called()
        self._find_threads()

    def all(self):
        return [f for s in self.schedulers for f in s.fibers]

    def name_at(self, address):
        return self._names.get(address, "that has ended")

    def is_entry(self, address):
        """Is that where a new fiber begins?"""
        if address not in self._entries:
            name, offset = symbol_at(address)
            self._entries[address] = name is not None and offset == 0 and "entry" in name
        return self._entries[address]

    def place(self, implementation):
        """FILE:LINE of a std::source_location."""
        if not implementation:
            return ""
        if implementation not in self._places:
            value = gdb.Value(implementation).cast(self._place)
            self._places[implementation] = f"{value['_M_file_name'].string(errors='replace')}:{int(value['_M_line'])}"
        return self._places[implementation]

    def _find_threads(self):
        alive = sorted((f for f in self.all() if f.joiner != DONE), key=lambda f: f.low)
        with kept_selection():
            for thread in gdb.selected_inferior().threads():
                if not thread.is_valid() or thread.is_running():
                    continue
                thread.switch()
                sp = int(gdb.newest_frame().read_register(machine()[1])) & (1 << 64) - 1
                for f in alive:
                    if f.low <= sp < f.low + f.size:
                        f.thread = thread
        # A worker that goes from one fiber to the next may have named the next already.
        for f in self.all():
            if f.thread and f.worker is None:
                f.worker = next((g.worker for g in self.all() if g.worker is not None and not g.thread
                                 and g.scheduler is f.scheduler), None)

    def find(self, what):
        """ID, SCHEDULER:ID or NAME."""
        scheduler, _, number = what.rpartition(":")
        found = [f for f in self.all() if number.isdigit() and f.id == int(number)
                 and (not scheduler or str(f.scheduler.number) == scheduler)]
        found = found or [f for f in self.all() if f.name == what]
        if not found:
            raise gdb.GdbError(f"there is no fiber {what}: see `tern fibers`")
        if len(found) > 1:
            raise gdb.GdbError(f"there are {len(found)} fibers {what}: say which: "
                               + ", ".join(f"{f.scheduler.number}:{f.id}" for f in found[:8]))
        return found[0]


def _known(symbol):
    try:
        gdb.parse_and_eval(f"(long)&{symbol}")
        return True
    except gdb.error:
        return False


def machine():
    name = gdb.selected_inferior().architecture().name()
    for known, how in SAVED.items():
        if known in name:
            return how
    raise gdb.GdbError(f"stacks of fibers can be shown on x86-64 and aarch64 only, not on {name}")


class kept_selection:
    """Looks at the threads as they are; then selects what was selected."""

    def __enter__(self):
        VIEW.off()
        self.thread = gdb.selected_thread()

    def __exit__(self, *_):
        if self.thread and self.thread.is_valid():
            self.thread.switch()


class View(gdb.unwinder.Unwinder):
    """Says that the innermost frame of one thread was called from where a fiber is suspended."""

    def __init__(self):
        super().__init__("tern-fiber")
        self.fiber = None
        self.place = None  # the thread's (stack pointer, program counter)

    def on(self, fiber):
        registers, sp, above, pc = machine()
        frame = gdb.newest_frame()
        self.place = int(frame.read_register(sp)), int(frame.read_register(pc))
        self.names = sp, pc
        self.values = {name: word(fiber.sp + offset) for name, offset in registers.items()}
        self.values[sp] = fiber.sp + above
        self.resume = self.values[pc]
        self.fiber = fiber
        gdb.invalidate_cached_frames()

    def off(self):
        if self.fiber is not None:
            self.fiber = None
            gdb.invalidate_cached_frames()

    def __call__(self, pending):
        if self.fiber is None:
            return None
        sp, pc = (pending.read_register(name) for name in self.names)
        if (int(sp), int(pc)) != self.place:
            return None
        # Below the fiber's own frames: gdb refuses to go to an inner one.
        info = pending.create_unwind_info(FrameId(gdb.Value(self.fiber.sp), pc))
        for name, value in self.values.items():
            info.add_saved_register(name, gdb.Value(value).cast(pending.read_register(name).type))
        return info

    def frames(self):
        """The fiber's frames, the innermost first."""
        frame = gdb.newest_frame()
        while frame is not None and frame.pc() != self.resume:
            frame = frame.older()
        found = []
        while frame is not None:
            found.append(frame)
            frame = frame.older()
        return found


class FrameId:
    def __init__(self, sp, pc):
        self.sp, self.pc = sp, pc


VIEW = View()
gdb.unwinder.register_unwinder(None, VIEW, replace=True)


def _went_on(_):
    VIEW.off()


for _event in (gdb.events.cont, gdb.events.exited):
    _event.connect(_went_on)


def headline(f):
    text = f"fiber {f.called()}: {f.state()}"
    if f.state() == "runs":
        text += " on worker " + f.where()
    elif f.reason():
        text += (" for " if f.state() in ("waits", "idle") else " ") + f.reason()
    if f.since():
        text += f", since {f.since()}"
    return text + (f", made at {f.made}" if f.made else "")


def enter(f):
    """Selects the stack of a fiber. \\return its frames' first number, or None and why there are none."""
    state = f.state()
    if state == "ended":
        return None, "it has ended and was not joined: there is no stack"
    if f.thread:
        f.thread.switch()
        return 0, ""
    if state == "runs":
        return None, "its worker is between two stacks; see `thread apply all bt`"
    if f.process.boost:
        return None, "this build switches stacks with Boost.Context (TERN_BOOST_CONTEXT), whose frames are not known here"
    if state == "new":
        return None, f"it has not begun; it will run {symbol_at(f.body)[0] or hex(f.body)}"
    VIEW.on(f)
    frames = VIEW.frames()
    if not frames:
        VIEW.off()
        return None, "gdb finds no frames on its stack"
    return frames[0].level() if hasattr(frames[0], "level") else _level(frames[0]), ""


def _level(frame):
    level = 0
    while frame.newer() is not None:
        frame, level = frame.newer(), level + 1
    return level


def _of_user(frame):
    """Neither Tern's nor the standard library's: by name, and by file where only lines are known, so that names have no
    namespaces."""
    if not frame.name() or re.match(r"(tern|std)::|__|operator", frame.name()):
        return False
    symtab = frame.find_sal().symtab
    return symtab is None or not re.search(r"(^|/)tern/(base|trace|task|net|hetero|mobile|balance)/", symtab.filename)


def backtrace(f, options=""):
    first, why = enter(f)
    if first is None:
        return f"  ({why})\n"
    text = gdb.execute("backtrace " + options, to_string=True)
    if first == 0:
        return text
    lines = text.splitlines(keepends=True)
    at = next((i for i, line in enumerate(lines) if (m := re.match(r"#(\d+)", line)) and int(m.group(1)) >= first), len(lines))
    return "".join(lines[at:])


class Tern(gdb.Command):
    """Fibers of the Tern runtime: live processes (run or attached to) and core dumps. Needs debug symbols of libtern_task."""

    def __init__(self):
        super().__init__("tern", gdb.COMMAND_STACK, prefix=True)


class Fibers(gdb.Command):
    """List fibers: number, name, state, what each waits for and since when, its worker, and where it was made.
`tern fibers WORD` shows those lines only in which WORD occurs.

States: runs; waits; ready (can run); new (has not begun); idle (runs tasklets, and has none); ended (and was not joined).
Bodies that wait for their first stack are not in it. Of a core dump, times count to the last moment at which the program
looked at its clock, and assume that it ran on this machine."""

    def __init__(self):
        super().__init__("tern fibers", gdb.COMMAND_STACK, gdb.COMPLETE_NONE)

    def invoke(self, argument, from_tty):
        shown = VIEW.fiber
        process = Process()
        if not process.schedulers:
            gdb.write("no scheduler exists\n")
        for s in process.schedulers:
            rows = [("id", "name", "state", "waits for", "since", "worker", "made at")]
            rows += [(str(f.id), f.name, f.state(), f.reason(), f.since(), f.where(), f.made) for f in s.fibers]
            rows = rows[:1] + [r for r in rows[1:] if argument.strip() in " ".join(r)]
            gdb.write(f"scheduler {s.number} '{s.name}': {s.workers} workers, {len(s.fibers)} fibers"
                      + (f", {len(rows) - 1} with {argument.strip()!r}" if argument.strip() else "") + "\n")
            if s.lost:
                gdb.write(f"  The memory of {s.lost} more, used or not, is not in this core dump: gdb's gcore leaves out what lies "
                          "near guard regions (see stack_guard), the kernel does not\n")
            widths = [max(len(r[i]) for r in rows) for i in range(len(rows[0]))]
            for r in rows if len(rows) > 1 else []:
                gdb.write("  " + "  ".join(c.ljust(w) for c, w in zip(r, widths)).rstrip() + "\n")
        if shown is not None:
            gdb.write("(the thread's own stack is shown again)\n")


class FiberView(gdb.Command):
    """Go to a fiber, so that up, down, frame, info locals and print look at it: `tern fiber ID`.
ID is its number, SCHEDULER:NUMBER or its name. Shows its backtrace and selects the frame that waits. `tern fiber off`
returns to the thread.

A running fiber: selects its thread. A suspended one: the backtrace of the selected thread is replaced by the fiber's,
behind frame 0, which remains the thread's; only as long as the program stands. Registers that are not saved are not
known. Say `tern fiber off` before step, next or finish, which would be about the thread. Live processes and core dumps;
not builds with TERN_BOOST_CONTEXT."""

    def __init__(self):
        super().__init__("tern fiber", gdb.COMMAND_STACK, gdb.COMPLETE_NONE)

    def invoke(self, argument, from_tty):
        what = argument.strip()
        if what == "off":
            VIEW.off()
            return
        if not what:
            gdb.write(f"{headline(VIEW.fiber)}\n" if VIEW.fiber else "a thread's own stack is shown; `help tern fiber`\n")
            return
        f = Process().find(what)
        gdb.write(headline(f) + "\n" + backtrace(f))
        if VIEW.fiber is not None:
            frames = VIEW.frames()
            next(filter(_of_user, frames), frames[0]).select()
            gdb.execute("frame")


class Backtrace(gdb.Command):
    """Show backtraces of fibers: `tern bt ID` (or SCHEDULER:ID, or a name) of one, `tern bt all` of all.
What follows is given to gdb's backtrace: `tern bt 7 full`. Selects nothing: see `tern fiber`. Live processes and core
dumps; not builds with TERN_BOOST_CONTEXT."""

    def __init__(self):
        super().__init__("tern bt", gdb.COMMAND_STACK, gdb.COMPLETE_NONE)

    def invoke(self, argument, from_tty):
        what, _, options = argument.strip().partition(" ")
        if not what:
            raise gdb.GdbError("which? `tern bt ID` or `tern bt all`")
        process = Process()
        for f in process.all() if what == "all" else [process.find(what)]:
            with kept_selection():
                text = backtrace(f, options)
                VIEW.off()
            gdb.write(f"{headline(f)}\n{text}\n")


for _command in (Tern, Fibers, FiberView, Backtrace):
    _command()
