// SPDX-License-Identifier: Apache-2.0
// Kernels on the host with every access checked: compiled, run, and told of.
#include <tern/hetero/kernel/checked.hpp>

#include <array>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <memory>
#include <mutex>
#include <vector>

#include <dlfcn.h>

#include <tern/base/error.hpp>
#include <tern/hetero/data/object_state.hpp>
#include <tern/hetero/devices.hpp>
#include <tern/hetero/kernel/compiler_log.hpp>
#include <tern/hetero/kernel/compiler_process.hpp>
#include <tern/task/parallel_for.hpp>
#include <tern/trace/trace.hpp>

namespace tern::hetero {

const option<bool> hetero_checked{
    "hetero-checked", false,
    "whether kernels run on the host with every access checked: one beyond an object, a view or memory of the group is "
    "an error of the task that says where. Without hetero-devices, kernels run on the host only"};
const option<std::string> hetero_checked_compiler{
    "hetero-checked-compiler", "",
    "the C++ compiler that compiles kernels for hetero-checked; empty: the first of $CXX, c++, g++, clang++-19 and "
    "clang++ that is there"};

namespace detail {
namespace {

namespace fs = std::filesystem;

std::string called(const source_block& block) {
  return "the kernels '" + std::string(block.name) + "' (" + block.file + ")";
}

checked_view view_of(const use& u) {
  const object_state& o = *u.object;
  const box& b = u.part;
  const auto pitch = static_cast<long>(o.host_layout.pitch / o.element),
             slice = static_cast<long>(o.host_layout.slice / o.element);
  const long columns = b.extent(2), rows = b.extent(1), slices = b.extent(0);
  checked_view v{(slices - 1) * slice + (rows - 1) * pitch + columns, 0, 0, columns, rows, 0, 0};
  if (v.count == columns * rows * slices) return v;
  v.pitch = pitch;
  // One slice: no element is in another.
  v.slice = slices == 1 ? std::numeric_limits<long>::max() / 2 : slice;
  v.per_pitch = 1.0 / static_cast<double>(v.pitch);
  v.per_slice = slices == 1 ? 0.0 : 1.0 / static_cast<double>(v.slice);
  return v;
}

std::string triple(int x, int y, int z) {
  return "(" + std::to_string(x) + ", " + std::to_string(y) + ", " + std::to_string(z) + ")";
}

/// ", which is (3, 12)": an element of a view of two or three dimensions.
std::string place_in(const use& u, long index) {
  const object_state& o = *u.object;
  const auto pitch = static_cast<long>(o.host_layout.pitch / o.element),
             slice = static_cast<long>(o.host_layout.slice / o.element);
  const bool three = o.all.extent(0) > 1, two = three || o.all.extent(1) > 1;
  if (!two || index < 0) return {};
  const long k = three ? index / slice : 0, rest = index - k * slice;
  return ", which is (" + (three ? std::to_string(k) + ", " : "") + std::to_string(rest / pitch) + ", " +
         std::to_string(rest % pitch) + "),";
}

} // namespace

/// A block, compiled. It stays open until the program ends.
struct checked_kernels::library {
  void* handle;
  std::unordered_map<const kernel_code*, void (*)(checked_call*)> entries; // address: looked up
};

checked_kernels::checked_kernels(const options& opts)
    : cache_(opts), contract_(opts[hetero_fma]), wanted_(opts[hetero_checked_compiler]) {}
checked_kernels::~checked_kernels() = default;

// Under the lock.
void checked_kernels::find_compiler() {
  if (!compiler_.empty()) return;
  std::vector<std::string> names{wanted_};
  if (wanted_.empty()) {
    const char* const cxx = std::getenv("CXX");
    names = {cxx ? cxx : "", "c++", "g++", "clang++-19", "clang++"};
  }
  std::string tried;
  for (const std::string& name : names) {
    if (name.empty()) continue;
    version_ = version_of_program(name);
    if (!version_.empty()) {
      compiler_ = name;
      return;
    }
    tried += (tried.empty() ? "" : ", ") + name;
  }
  throw error(errc::not_found,
              "hetero-checked compiles kernels when the program runs, but no C++ compiler runs here: " + tried,
              "install g++, or name a compiler in --tern-hetero-checked-compiler");
}

// Under the lock.
std::unique_ptr<checked_kernels::library> checked_kernels::compile(const source_block& block, checked_form form) {
  find_compiler();
  const trace::region bar(trace::on() ? "compile " + std::string(block.name) : std::string());
  const std::string source = checked_source(block, form);
#if defined(__x86_64__)
  const std::string machine = "-march=native";
#else
  const std::string machine = "-mcpu=native";
#endif
  std::vector<std::string> words{compiler_, "-std=c++20",          form == checked_form::report ? "-O1" : "-O3",
                                 machine,   "-fno-math-errno",     "-fPIC",
                                 "-shared", "-fvisibility=hidden", "-w"};
  if (!contract_) words.emplace_back("-ffp-contract=off");
  std::string key = version_ + "\n";
  for (const std::string& word : words) key += word + "\n";
  // What -march=native means is the machine's.
  key += contents_of("/proc/cpuinfo").substr(0, 4096) + source;

  const work_folder folder;
  const fs::path made = folder.path / "kernels.so", text = folder.path / "kernels.cpp", said = folder.path / "said";
  if (const auto known = cache_.find(key)) {
    std::ofstream(made, std::ios::binary)
        .write(reinterpret_cast<const char*>(known->data()), static_cast<std::streamsize>(known->size()));
  } else {
    std::ofstream(text, std::ios::binary) << source;
    for (const fs::path& word : {fs::path("-o"), made, text}) words.push_back(word.string());
    if (run_program(words, said) != 0)
      throw error(errc::invalid_data,
                  called(block) + " do not compile with checks for the host (" + version_ + "):\n" +
                      shown_log(contents_of(said)),
                  "the lines named are that file's; docs/concepts/kernels.md says what a kernel may contain");
    const std::string bytes = contents_of(made);
    cache_.store(key, std::as_bytes(std::span(bytes)));
  }
  void* const handle = ::dlopen(made.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    const char* const why = ::dlerror();
    cache_.remove(key);
    throw error(errc::io, called(block) + ", compiled with checks, cannot be loaded: " + (why ? why : "unknown"),
                "TMPDIR is to be a folder from which programs may be run");
  }
  return std::unique_ptr<library>(new library{handle, {}});
}

checked_kernels::entry checked_kernels::get(const kernel_code& code, checked_form form, const char** parameters) {
  const source_block& block = code.source();
  const std::lock_guard hold(lock_);
  auto& made = libraries_[static_cast<std::size_t>(form)][&block];
  if (!made) made = compile(block, form);
  if (parameters)
    *parameters =
        static_cast<const char*>(::dlsym(made->handle, ("tern_parameters_" + std::string(code.name)).c_str()));
  entry& e = made->entries[&code];
  if (!e) e = reinterpret_cast<entry>(::dlsym(made->handle, ("tern_kernel_" + std::string(code.name)).c_str()));
  if (!e)
    throw error(errc::not_found, "there is no kernel '" + std::string(code.name) + "' in " + called(block) +
                                     " when it is compiled with checks");
  return e;
}

void checked_kernels::run(task_record& t, std::span<const source_of> sources, const kernel_code& code,
                          const grid& shape, std::size_t dynamic, const void* const* values) {
  std::vector<checked_view> views(sources.size());
  checked_form form = checked_form::whole;
  for (std::size_t i = 0; i < sources.size(); ++i) {
    if (sources[i].what != source_of::object) continue;
    views[i] = view_of(t.use_at(sources[i].which));
    if (views[i].pitch != 0) form = checked_form::parts;
  }
  const entry body = get(code, form, nullptr);
  constexpr std::int64_t none = std::numeric_limits<std::int64_t>::max();
  std::atomic<std::int64_t> bad{none};
  const auto piece = [&](entry f, std::int64_t first, std::int64_t last, checked_failure* told) {
    constexpr std::size_t line = 64;
    std::vector<char> room(dynamic + line), spare(checked_spare_bytes + line);
    void *p = room.data(), *q = spare.data();
    std::size_t size = room.size(), spare_size = spare.size();
    checked_call call{};
    for (std::size_t d = 0; d < 3; ++d) call.groups[d] = shape.groups[d], call.items[d] = shape.items[d];
    call.first = first;
    call.last = last;
    call.dynamic = static_cast<char*>(std::align(line, dynamic, p, size));
    call.dynamic_bytes = static_cast<long>(dynamic);
    call.values = values;
    call.views = views.data();
    call.spare = static_cast<char*>(std::align(line, checked_spare_bytes, q, spare_size));
    call.bad_group = -1;
    f(&call);
    if (told) *told = call.failure;
    if (call.bad_group < 0) return;
    // The first one is told of. relaxed: it is read when all have ended.
    std::int64_t known = bad.load(std::memory_order_relaxed);
    while (call.bad_group < known && !bad.compare_exchange_weak(known, call.bad_group, std::memory_order_relaxed)) {
    }
  };
  parallel_for(std::int64_t{0}, shape.count(),
               [&](const range<std::int64_t>& groups) { piece(body, groups.first(), groups.last(), nullptr); });
  const std::int64_t group = bad.load(std::memory_order_relaxed);
  if (group == none) return;
  const char* names = nullptr;
  const entry slowly = get(code, checked_form::report, &names);
  checked_failure f{};
  piece(slowly, group, group + 1, &f);
  report(t, sources, code, shape, group, f, names ? names : "");
}

void checked_kernels::report(task_record& t, std::span<const source_of> sources, const kernel_code& code,
                             const grid& shape, std::int64_t number, const checked_failure& f, std::string_view names) {
  const std::int64_t row = number / shape.groups[0];
  const std::string group =
      "group " + triple(static_cast<int>(number % shape.groups[0]), static_cast<int>(row % shape.groups[1]),
                        static_cast<int>(row / shape.groups[1]));
  const std::string kernel = "kernel '" + std::string(code.name) + "' (" + code.source().file;
  if (!f.told)
    throw error(errc::invalid_argument,
                kernel + "): an access of " + group +
                    " was beyond what it may use; when the group ran again to see which, none was",
                "its indices depend on what it writes: look at those");
  constexpr const char* verbs[] = {"reads", "writes", "uses", "changes"};
  std::string text = kernel + ":" + std::to_string(f.line) +
                     "): " + (f.in_item ? "item " + triple(f.x, f.y, f.z) + " in " : std::string()) + group + " " +
                     verbs[f.access] + " ";
  const std::string index = "[" + std::to_string(f.index) + "]";
  if (f.parameter >= 0 && sources[static_cast<std::size_t>(f.parameter)].what == source_of::object) {
    const use& u = t.use_at(sources[static_cast<std::size_t>(f.parameter)].which);
    text += parameter_name(names, static_cast<std::size_t>(f.parameter)) + index + place_in(u, f.index) + " beyond " +
            u.object->text(u.part);
  } else {
    text += f.memory + index + " beyond the group's memory '" + f.memory + "' of " + std::to_string(f.count);
  }
  throw error(errc::invalid_argument, text,
              "keep items beyond the end out by TERN_REGION_IN, and give the task a view that has all it uses, as "
              "halo() does");
}

} // namespace detail
} // namespace tern::hetero
