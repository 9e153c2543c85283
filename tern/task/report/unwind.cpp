// SPDX-License-Identifier: Apache-2.0
/// \file
/// libdw finds the callers and the names (docs/decisions/0012): it takes registers and memory
/// from callbacks, so a fiber that no thread runs is to it a thread like any other.
#include <tern/task/report/unwind.hpp>

#include <cstdio>
#include <cstdlib>
#include <cxxabi.h>
#include <string_view>
#include <unordered_map>
#include <utility>

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <elfutils/libdwfl.h>
#include <fcntl.h>
#include <sys/uio.h>
#include <ucontext.h>
#include <unistd.h>

#include <tern/task/fiber/fiber_state.hpp>

namespace tern::detail {
namespace {

#if defined(__x86_64__)
constexpr unsigned dwarf_sp = 7;
#elif defined(__aarch64__)
constexpr unsigned dwarf_sp = 31;
#else
constexpr unsigned dwarf_sp = 0;
#endif

// Names with templates in them may fill pages.
constexpr std::size_t longest_name = 160;

std::string demangled(const char* name) {
  int status = 0;
  char* plain = abi::__cxa_demangle(name, nullptr, nullptr, &status);
  std::string text = plain && status == 0 ? plain : name;
  std::free(plain);
  constexpr std::pair<std::string_view, std::string_view> shorter[] = {
      {"(anonymous namespace)::", ""},
      {"[abi:cxx11]", ""},
      {"std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >", "std::string"},
      {"std::basic_string_view<char, std::char_traits<char> >", "std::string_view"}};
  for (const auto& [what, by] : shorter)
    for (auto at = text.find(what); at != std::string::npos; at = text.find(what)) text.replace(at, what.size(), by);
  if (text.size() > longest_name) text = text.substr(0, longest_name) + "...";
  return text;
}

// What this layer does to start and to suspend a fiber. Functions that clang has inlined may have
// no namespace.
bool is_ours(std::string_view line) {
  if (line.find("tern/task/detail/") != std::string_view::npos ||
      line.find("tern/task/fiber/fiber.cpp:") != std::string_view::npos)
    return true;
  line = line.substr(0, line.find_first_of("<("));
  return line.find("tern::detail::") != std::string_view::npos ||
         line.find("tern::unique_function") != std::string_view::npos;
}

std::string file_of(const char* path) {
  const std::string_view all = path;
  const auto slash = all.rfind('/');
  return std::string(slash == std::string_view::npos ? all : all.substr(slash + 1));
}

} // namespace

bool read_memory(void* to, const void* from, std::size_t n) noexcept {
  const iovec here{to, n}, there{const_cast<void*>(from), n};
  if (process_vm_readv(getpid(), &here, 1, &there, 1, 0) == static_cast<ssize_t>(n)) return true;
  // Containers may forbid that call.
  const int fd = open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  // address: of what is to be read
  const auto at = static_cast<off_t>(reinterpret_cast<std::uintptr_t>(from));
  const ssize_t read = pread(fd, to, n, at);
  close(fd);
  return read == static_cast<ssize_t>(n);
}

stopped_at where_suspended([[maybe_unused]] const fiber& f) noexcept {
  stopped_at s;
#ifndef TERN_BOOST_CONTEXT
  // What swap_stack leaves there, and how much of the stack it takes up.
#if defined(__x86_64__)
  struct {
    std::uint64_t pc, rbx, rbp;
  } saved;
  constexpr std::size_t above = 3 * 8 + 128;
#else
  struct {
    std::uint64_t pc, x19, x29, x30;
  } saved;
  constexpr std::size_t above = 32;
#endif
  const void* sp = nullptr;
  if (!read_memory(static_cast<void*>(&sp), static_cast<const void*>(&f.at.sp), sizeof sp) ||
      !read_memory(&saved, sp, sizeof saved))
    return s;
  s.pc = saved.pc;
  s.set(dwarf_sp, reinterpret_cast<std::uintptr_t>(sp) + above); // address: where the stack goes on
#if defined(__x86_64__)
  s.set(3, saved.rbx);
  s.set(6, saved.rbp);
#else
  s.set(19, saved.x19);
  s.set(29, saved.x29);
  s.set(30, saved.x30);
#endif
#endif
  return s;
}

stopped_at where_stopped(const void* context) noexcept {
  stopped_at s;
#if defined(__x86_64__)
  const auto& r = static_cast<const ucontext_t*>(context)->uc_mcontext.gregs;
  constexpr int order[] = {REG_RAX, REG_RDX, REG_RCX, REG_RBX, REG_RSI, REG_RDI, REG_RBP, REG_RSP,
                           REG_R8,  REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15};
  for (unsigned i = 0; i < 16; ++i) s.set(i, static_cast<std::uint64_t>(r[order[i]]));
  s.pc = static_cast<std::uintptr_t>(r[REG_RIP]);
#elif defined(__aarch64__)
  const auto& m = static_cast<const ucontext_t*>(context)->uc_mcontext;
  for (unsigned i = 0; i < 31; ++i) s.set(i, m.regs[i]);
  s.set(dwarf_sp, m.sp);
  s.pc = m.pc;
#else
  static_cast<void>(context);
#endif
  return s;
}

struct stack_reader::inside {
  Dwfl* dwfl = nullptr;
  bool attached = false;
  const stopped_at* from = nullptr;
  std::vector<std::uintptr_t>* found = nullptr;
  std::size_t most = 0;
  std::unordered_map<std::uintptr_t, std::vector<std::string>> frames; // address: of code; only looked up

  inside() {
    // Not dwfl_standard_find_debuginfo: that may ask servers.
    static const Dwfl_Callbacks where{dwfl_linux_proc_find_elf, dwfl_build_id_find_debuginfo, nullptr, nullptr};
    dwfl = dwfl_begin(&where);
    if (!dwfl) return;
    dwfl_report_begin(dwfl);
    const bool mapped = dwfl_linux_proc_report(dwfl, getpid()) == 0;
    dwfl_report_end(dwfl, nullptr, nullptr);
    static const Dwfl_Thread_Callbacks as_thread{next_thread, get_thread, memory, registers, nullptr, nullptr};
    attached = mapped && dwfl_attach_state(dwfl, nullptr, getpid(), &as_thread, this);
  }
  ~inside() {
    if (dwfl) dwfl_end(dwfl);
  }
  inside(const inside&) = delete;
  inside& operator=(const inside&) = delete;

  static pid_t next_thread(Dwfl*, void*, void**) { return 0; }
  static bool get_thread(Dwfl*, pid_t, void* self, void** thread) {
    *thread = self;
    return true;
  }
  static bool memory(Dwfl*, Dwarf_Addr at, Dwarf_Word* to, void*) {
    std::uint64_t word = 0;
    // address: of what is to be read
    if (!read_memory(&word, reinterpret_cast<const void*>(static_cast<std::uintptr_t>(at)), sizeof word)) return false;
    *to = word;
    return true;
  }
  static bool registers(Dwfl_Thread* thread, void* self) {
    const stopped_at& s = *static_cast<inside*>(self)->from;
    for (unsigned i = 0; i < stopped_at::most; ++i)
      if (s.known >> i & 1) {
        const Dwarf_Word x = s.value[i];
        if (!dwfl_thread_state_registers(thread, static_cast<int>(i), 1, &x)) return false;
      }
#if defined(__x86_64__)
    const Dwarf_Word pc = s.pc; // the return address' column holds it
    return dwfl_thread_state_registers(thread, 16, 1, &pc);
#else
    dwfl_thread_state_register_pc(thread, s.pc);
    return true;
#endif
  }
  static int frame(Dwfl_Frame* f, void* self) {
    auto& in = *static_cast<inside*>(self);
    Dwarf_Addr pc = 0;
    bool stopped_here = false;
    if (!dwfl_frame_pc(f, &pc, &stopped_here) || pc == 0) return DWARF_CB_ABORT;
    in.found->push_back(static_cast<std::uintptr_t>(pc - (stopped_here ? 0 : 1)));
    return in.found->size() < in.most ? DWARF_CB_OK : DWARF_CB_ABORT;
  }

  /// "mesh.cpp:12"; empty if there is none.
  static std::string place(const char* file, int line) {
    return file && line > 0 ? std::string(file) + ":" + std::to_string(line) : std::string();
  }
  /// Where the function that was inlined is called.
  static std::string call_place(Dwarf_Die* unit, Dwarf_Die* inlined) {
    Dwarf_Attribute a;
    Dwarf_Word file = 0, line = 0;
    Dwarf_Files* files = nullptr;
    std::size_t count = 0;
    if (dwarf_formudata(dwarf_attr(inlined, DW_AT_call_line, &a), &line) != 0 ||
        dwarf_formudata(dwarf_attr(inlined, DW_AT_call_file, &a), &file) != 0 ||
        dwarf_getsrcfiles(unit, &files, &count) != 0)
      return {};
    return place(dwarf_filesrc(files, file, nullptr, nullptr), static_cast<int>(line));
  }
  static std::string inlined_name(Dwarf_Die* inlined) {
    Dwarf_Attribute a;
    const char* const linked = dwarf_formstring(dwarf_attr_integrate(inlined, DW_AT_linkage_name, &a));
    if (linked) return demangled(linked);
    const char* const name = dwarf_diename(inlined);
    return name ? name : "a function without a name";
  }
  struct call {
    std::string function, from; // where it is called; empty: not known
  };
  /// The unit of debug information that tells of `pc`; null: none does. clang writes no table of
  /// addresses (.debug_aranges), so the units themselves are asked.
  static Dwarf_Die* unit_at(Dwfl_Module* module, Dwarf_Addr pc, Dwarf_Addr* bias) {
    if (Dwarf_Die* const found = dwfl_module_addrdie(module, pc, bias)) return found;
    for (Dwarf_Die* unit = nullptr; (unit = dwfl_module_nextcu(module, unit, bias));)
      if (dwarf_haspc(unit, pc - *bias) > 0) return unit;
    return nullptr;
  }
  /// Appends what was inlined at `pc` below `around`, the innermost last. Not dwarf_getscopes: it
  /// looks for a function's definition too, and finds none where clang puts it.
  /// \return whether code of a function below `around` is there.
  static bool add_inlined(Dwarf_Die* around, Dwarf_Addr pc, std::vector<Dwarf_Die>& all) {
    Dwarf_Die die;
    if (dwarf_child(around, &die) != 0) return false;
    do {
      const int tag = dwarf_tag(&die);
      if (tag == DW_TAG_namespace || tag == DW_TAG_structure_type || tag == DW_TAG_class_type) {
        if (add_inlined(&die, pc, all)) return true;
      } else if ((tag == DW_TAG_subprogram || tag == DW_TAG_inlined_subroutine || tag == DW_TAG_lexical_block) &&
                 dwarf_haspc(&die, pc) > 0) {
        if (tag == DW_TAG_inlined_subroutine) all.push_back(die);
        add_inlined(&die, pc, all);
        return true;
      }
    } while (dwarf_siblingof(&die, &die) == 0);
    return false;
  }
  /// The functions that were inlined at `pc`, the innermost first, if debug information tells.
  static std::vector<call> inlined_at(Dwarf_Die* unit, Dwarf_Addr pc) {
    std::vector<Dwarf_Die> found;
    if (unit) add_inlined(unit, pc, found);
    std::vector<call> all;
    for (auto die = found.rbegin(); die != found.rend(); ++die)
      all.push_back({inlined_name(&*die), call_place(unit, &*die)});
    return all;
  }

  /// A line for each function that is there, the innermost first.
  std::vector<std::string> describe(std::uintptr_t pc) const {
    char hex[32];
    std::snprintf(hex, sizeof hex, "%p", reinterpret_cast<void*>(pc));
    Dwfl_Module* module = dwfl ? dwfl_addrmodule(dwfl, pc) : nullptr;
    if (!module) return {hex};
    const char* library = dwfl_module_info(module, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr);
    const char* symbol = dwfl_module_addrname(module, pc);
    int line = 0;
    Dwarf_Addr bias = 0;
    Dwarf_Die* const unit = unit_at(module, pc, &bias);
    Dwarf_Line* const source = unit ? dwarf_getsrc_die(unit, pc - bias) : nullptr;
    const bool told = source && dwarf_lineno(source, &line) == 0;
    std::string at = place(told ? dwarf_linesrc(source, nullptr, nullptr) : nullptr, line);
    const auto text = [&](const std::string& function) {
      return function + (!at.empty() ? " at " + at : library ? " in " + file_of(library) : std::string());
    };
    std::vector<std::string> all;
    for (call& c : inlined_at(unit, pc - bias)) {
      all.push_back(text(c.function) + ", inlined");
      at = std::move(c.from);
    }
    all.push_back(text(symbol ? demangled(symbol) : hex));
    return all;
  }
};

stack_reader::stack_reader() : in_(std::make_unique<inside>()) {}
stack_reader::~stack_reader() = default;

std::vector<std::uintptr_t> stack_reader::walk(const stopped_at& from, std::size_t most) {
  std::vector<std::uintptr_t> found;
  if (from.pc == 0 && from.known == 0) return found;
  stopped_at start = from;
  if (in_->dwfl && !dwfl_addrmodule(in_->dwfl, start.pc) && (start.known >> dwarf_sp & 1)) {
    // A call of something that is no function: its caller is where it would have returned to.
    found.push_back(start.pc);
#if defined(__x86_64__)
    std::uint64_t back = 0;
    if (!read_memory(&back, reinterpret_cast<const void*>(start.value[dwarf_sp]), sizeof back)) return found;
    start.pc = back - 1;
    start.value[dwarf_sp] += sizeof back;
#else
    start.pc = start.value[30] - 1;
#endif
    if (!dwfl_addrmodule(in_->dwfl, start.pc)) return found;
  }
  if (!in_->attached) {
    found.push_back(start.pc);
    return found;
  }
  in_->from = &start;
  in_->found = &found;
  in_->most = most;
  // NOLINTNEXTLINE(clang-analyzer-core.NonNullParamChecker): it is there if one is attached
  dwfl_getthread_frames(in_->dwfl, getpid(), inside::frame,
                        in_.get()); // ends with an error where nothing more is known
  if (found.empty()) found.push_back(start.pc);
  return found;
}

const std::vector<std::string>& stack_reader::frames(std::uintptr_t pc) {
  const auto [place, fresh] = in_->frames.try_emplace(pc);
  if (fresh) place->second = in_->describe(pc);
  return place->second;
}

std::string stack_reader::text(const std::vector<std::uintptr_t>& stack, bool inner, const std::string& indent) {
  std::vector<std::string> lines;
  for (const auto pc : stack)
    for (const std::string& line : frames(pc)) lines.push_back(line);
  std::size_t first = 0, last = lines.size();
  while (inner && first < last && is_ours(lines[first])) ++first;
  while (last > first && is_ours(lines[last - 1])) --last;
  if (first == last) first = 0, last = lines.size();
  std::string all;
  std::vector<std::string> shown;
  for (std::size_t i = first; i < last;) { // recursion goes thousands of frames deep
    std::size_t end = i + 1;
    while (end < last && lines[end] == lines[i]) ++end;
    shown.push_back(indent + "#" + std::to_string(i - first) + " " + lines[i] +
                    (end - i > 1 ? ", " + std::to_string(end - i) + " times\n" : "\n"));
    i = end;
  }
  constexpr std::size_t each_end = 32;
  for (std::size_t i = 0; i < shown.size(); ++i) {
    if (shown.size() > 2 * each_end && i == each_end) {
      all += indent + "...\n";
      i = shown.size() - each_end;
    }
    all += shown[i];
  }
  return all;
}

} // namespace tern::detail
