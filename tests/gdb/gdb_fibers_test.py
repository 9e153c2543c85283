#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""gdb_fibers_test.py SCRIPT PROGRAM [symbols]: what tern_gdb.py shows of a program whose fibers wait, while it lives, in a
simulation, and from its core dump. Without `symbols` the library may have none, and then that is what it must say."""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

SKIPPED = 77
STATES = {  # name: state and what it waits for, in the table
    "main": r"runs\s", "asker": r"waits  future 0x\w+ ", "knocker": r"waits  mutex 0x\w+ that fiber \d+ 'main' has ",
    "sleeper": r"waits  sleep ", "joined": r"waits  sleep ", "joiner": r"waits  fiber \d+ 'joined' to end ", "unborn": r"new\s",
}
WAITERS = {  # name: the user's function in its backtrace, and where it is
    "asker": "wait_for_the_answer", "knocker": "wait_at_the_door", "sleeper": "sleep_long", "joined": "sleep_long",
}
MARK = "==== "


def gdb(commands, *program):
    """Runs the commands. \\return what each printed, and everything."""
    arguments = ["gdb", "-nx", "-batch", "-iex", "set debuginfod enabled off", "-ex", "set width 0", "-ex", "set pagination off"]
    for command in commands:
        arguments += ["-ex", f"echo {MARK}{command}\\n", "-ex", command]
    environment = dict(os.environ, LC_ALL="C", ASAN_OPTIONS="detect_leaks=0:detect_stack_use_after_return=0")
    done = subprocess.run([*arguments, "--args", *program], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          stdin=subprocess.DEVNULL, errors="replace", env=environment, timeout=100, check=False)
    parts = {}
    for part in done.stdout.split(MARK)[1:]:
        command, _, text = part.partition("\n")
        parts[command] = text
    return parts, done.stdout


def expect(right, what, text):
    if not right:
        sys.exit(f"{what}; gdb printed:\n{text}")


def check(what, script, *program, start, extra=()):
    backtraces = [f"tern bt {name}" for name in WAITERS]
    commands = [f"source {script}", *start, "tern fibers", *backtraces, "tern bt all", "tern fiber knocker", "info locals",
                "tern fiber off", "bt", *extra]
    parts, everything = gdb(commands, *program)
    expect("Traceback" not in everything and "Python Exception" not in everything, f"{what}: the script failed", everything)
    table = parts.get("tern fibers", "")
    for name, state in STATES.items():
        expect(re.search(rf"^ +\d+ +{name} +{state}.*:\d+$", table, re.M), f"{what}: the table has no right line for {name}",
               everything)
    for text in [parts.get(f"tern bt {name}", "") for name in WAITERS] + [parts.get("tern bt all", "")]:
        expect("corrupt stack" not in text and "entry" in text, f"{what}: a backtrace does not reach the fiber's beginning", text)
    for name, function in WAITERS.items():
        text = parts[f"tern bt {name}"]
        expect(re.search(rf"^#\d+ .*\b{function} \(.*fibers\.cpp:\d+$", text, re.M), f"{what}: {function} is not in the backtrace "
               f"of {name}", everything)
        expect("all_wait" not in text, f"{what}: the thread's frames are in the backtrace of {name}", everything)
        expect(f"'{name}'" in parts["tern bt all"] and function in parts["tern bt all"], f"{what}: `bt all` lacks {name}",
               everything)
    expect("has not begun" in parts["tern bt all"], f"{what}: `bt all` does not say that a fiber has not begun", everything)
    expect("wait_at_the_door" in parts["tern fiber knocker"].splitlines()[-2] and "hold" in parts["info locals"],
           f"{what}: `tern fiber` does not select the frame that waits", everything)
    expect("all_wait" in parts["bt"] and "wait_at_the_door" not in parts["bt"], f"{what}: `off` does not lead back", everything)
    print(f"ok   {what}")
    return parts


def main():
    script, program = sys.argv[1:3]
    if not shutil.which("gdb"):
        print("skipped: there is no gdb")
        return SKIPPED
    _, text = gdb(["python print('python' + ' works')", "run"], "/bin/true")
    if "python works" not in text:
        print("skipped: this gdb has no Python")
        return SKIPPED
    if "exited normally" not in text:
        print(f"skipped: gdb may not trace here; it says:\n{text}")
        return SKIPPED

    parts, everything = gdb([f"source {script}", "tern fibers", "tern bt all"], program)
    expect("there is no process" in everything and "Traceback" not in everything, "nothing runs, which it does not say", everything)
    parts, everything = gdb([f"source {script}", "run", "tern fibers"], program)
    if sys.argv[3:] != ["symbols"] and "build with debug symbols" in parts.get("tern fibers", ""):
        expect("Traceback" not in everything, "without symbols: the script failed", everything)
        print("ok   without symbols it says so")
        return 0

    check("alive", script, program, start=["run"])
    table = check("simulated", script, program, "simulated", start=["run"])["tern fibers"]
    expect(re.search(r" sleeper .* [01]\.\d\d\d s ", table), "simulated: times are not virtual", table)
    with tempfile.TemporaryDirectory() as folder:
        core = str(pathlib.Path(folder) / "core")
        _, text = gdb(["run", f"gcore {core}"], program, "pages")
        expect(os.path.exists(core), "gcore wrote nothing", text)
        check("core dump", script, program, start=[f"core-file {core}"])
    return 0


if __name__ == "__main__":
    sys.exit(main())
