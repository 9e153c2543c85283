// SPDX-License-Identifier: Apache-2.0
/// \file
/// `tern info`: what Tern finds on this machine and what it would decide.
#include "tools/tern/commands.hpp"
#include "tools/tern/info/checkpoints.hpp"
#include "tools/tern/launch/launcher.hpp"
#include "tools/tern/launch/process.hpp"

#include <cerrno>
#include <cstdio>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include <dlfcn.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <tern/base/options.hpp>
#include <tern/base/topology.hpp>
#include <tern/hetero/devices.hpp>
#include <tern/net/transport_kind.hpp>

namespace tern::tool {
namespace {

using json = nlohmann::ordered_json;

std::string compiler() {
#if defined(__clang__)
  return "clang " + std::to_string(__clang_major__) + "." + std::to_string(__clang_minor__) + "." +
         std::to_string(__clang_patchlevel__);
#else
  return "g++ " + std::to_string(__GNUC__) + "." + std::to_string(__GNUC_MINOR__) + "." +
         std::to_string(__GNUC_PATCHLEVEL__);
#endif
}

/// Whether the kernel guards stacks without splitting their mappings (Linux 6.13).
bool guard_regions() {
  constexpr int guard_install = 102; // MADV_GUARD_INSTALL; Debian 12's headers don't have it
  const auto size = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  void* page = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return false;
  const bool works = madvise(page, size, guard_install) == 0;
  munmap(page, size);
  return works;
}

bool futex() {
  unsigned word = 0;
  return syscall(SYS_futex, &word, FUTEX_WAKE, 1, nullptr, nullptr, 0) >= 0;
}

/// Asks the MPI library for its version, in a process of its own: two MPIs in one process would
/// collide.
json describe(const mpi_installation& mpi) {
  json one{{"name", "mpi"}, {"library", mpi.name}, {"usable", mpi.launcher && mpi.plugin}};
  if (mpi.launcher) one["launcher"] = mpi.launcher->string();
  if (!mpi.plugin) {
    one["why_not"] =
        "no plug-in libtern_mpi_" + mpi.name + ".so: lib" + mpi.name + "-dev was missing when Tern was built";
    return one;
  }
  one["plugin"] = mpi.plugin->string();
  if (!mpi.launcher) one["why_not"] = "no launcher in PATH";
  const auto version = in_child(
      [&] {
        void* library = dlopen(mpi.plugin->c_str(), RTLD_NOW | RTLD_GLOBAL);
        if (!library) return "!" + std::string(dlerror());
        using query = int (*)(char*, int*);
        const auto ask = reinterpret_cast<query>(dlsym(library, "MPI_Get_library_version"));
        char text[8192] = "";
        int length = 0;
        if (!ask || ask(text, &length) != 0) return std::string("!it does not tell its version");
        return std::string(text).substr(0, std::string(text).find_first_of(",\n"));
      },
      10);
  if (!version || version->starts_with("!")) {
    one["usable"] = false;
    one["why_not"] = version ? version->substr(1) : "it crashed when it was opened";
  } else {
    std::string text = *version;
    for (char& c : text)
      if (c == '\t') c = ' ';
    one["version"] = text;
  }
  return one;
}

/// What kernels could run on, with the options that the environment gives. In a process of its own:
/// drivers start threads, and may crash.
json describe_devices() {
  json all = json::array();
  int none = 0;
  const options opts = options::parse(none, nullptr);
  const auto found = in_child(
      [&opts] {
        json list = json::array();
        std::vector<hetero::device_note> notes;
        hetero::device_kinds there = 0;
        for (const hetero::device_info& d : hetero::devices(opts, &notes, true)) {
          there |= hetero::kinds_of(d.kind);
          json one{{"name", d.id}, {"usable", true}};
          if (d.kind != hetero::device_kind::host)
            one.update({{"model", d.name},
                        {"driver", d.driver},
                        {"compute_units", d.compute_units},
                        {"memory_bytes", d.memory_bytes},
                        {"shares_host_memory", d.shares_host_memory}});
          else if (const std::string limit = hetero::describe_host_limit(opts); !limit.empty())
            one["note"] = limit;
          if (!d.energy.empty()) one["energy"] = d.energy;
          list.push_back(one);
        }
        for (const auto kind : {hetero::device_kind::opencl, hetero::device_kind::cuda}) {
          std::string why;
          for (const hetero::device_note& note : notes)
            if (note.kind == kind) why += (why.empty() ? "" : "; ") + note.text;
          const bool usable = there & hetero::kinds_of(kind);
          if (!usable || !why.empty())
            list.push_back({{"name", hetero::name_of(kind)}, {"usable", usable}, {usable ? "note" : "why_not", why}});
        }
        return list.dump();
      },
      30);
  if (found && json::accept(*found))
    all = json::parse(*found);
  else if (found)
    all.push_back({{"name", "devices"}, {"usable", false}, {"why_not", *found}}); // an option's value, say
  else
    for (const char* kind : {"opencl", "cuda"})
      all.push_back({{"name", kind}, {"usable", false}, {"why_not", "a device's driver crashed or did not answer"}});
  return all;
}

json collect() {
  const machine here = describe_machine();
  utsname kernel{};
  uname(&kernel);
  json all;
  all["tern"] = {{"version", TERN_VERSION}, {"compiler", compiler()}};
  json m{{"cpu", here.cpu_model},
         {"packages", here.packages},
         {"numa_nodes", here.numa_nodes},
         {"cores", here.cores},
         {"cpus", here.pus},
         {"memory_bytes", here.memory_bytes},
         {"allowed_cpus", here.allowed_cpus}};
  m["cgroup_quota"] = here.cgroup_quota ? json(*here.cgroup_quota) : json(nullptr);
  all["machine"] = m;
  const int workers = usable_cpus();
  all["binding"] = {{"workers", workers},
                    {"core", plan_binding(binding::core, workers, 0, 1)},
                    {"numa", plan_binding(binding::numa, workers, 0, 1)}};
  all["transports"] = json::array();
  for (const auto* kind : net::transport_kinds())
    if (!kind->simulates() && kind->name() != "mpi")
      all["transports"].push_back({{"name", kind->name()}, {"usable", true}});
  for (const auto& mpi : find_mpis()) all["transports"].push_back(describe(mpi));
  all["devices"] = describe_devices();
  long maps = 0;
  std::ifstream("/proc/sys/vm/max_map_count") >> maps;
  all["kernel"] = {{"name", std::string(kernel.sysname) + " " + kernel.release},
                   {"guard_regions", guard_regions()},
                   {"futex", futex()},
                   {"max_map_count", maps}};
  return all;
}

std::string list(const json& numbers) {
  std::string text; // 0-3,8
  for (std::size_t i = 0; i < numbers.size();) {
    std::size_t last = i;
    while (last + 1 < numbers.size() && numbers[last + 1] == numbers[last].get<int>() + 1) ++last;
    text += (text.empty() ? "" : ",") + std::to_string(numbers[i].get<int>());
    if (last > i) text += "-" + std::to_string(numbers[last].get<int>());
    i = last + 1;
  }
  return text.empty() ? "any" : text;
}

void print(const json& all) {
  const auto line = [](const char* name, const std::string& text) { std::printf("%-12s %s\n", name, text.c_str()); };
  const auto text = [](const json& value) { return value.get<std::string>(); };
  const auto& m = all["machine"];
  line("tern", text(all["tern"]["version"]) + ", built by " + text(all["tern"]["compiler"]));
  line("machine", text(m["cpu"]));
  line("", m["packages"].dump() + " socket(s), " + m["numa_nodes"].dump() + " NUMA node(s), " + m["cores"].dump() +
               " cores, " + m["cpus"].dump() + " CPUs");
  char memory[64];
  std::snprintf(memory, sizeof memory, "%.1f GiB memory", m["memory_bytes"].get<double>() / (1 << 30));
  line("", memory);
  line("", "may use CPUs " + list(m["allowed_cpus"]) +
               (m["cgroup_quota"].is_null() ? ", no quota" : ", quota " + m["cgroup_quota"].dump() + " CPUs"));
  std::string plan;
  for (const auto& worker : all["binding"]["core"]) plan += (plan.empty() ? "" : " | ") + list(worker);
  line("binding", "one rank: " + all["binding"]["workers"].dump() + " worker(s), bound to cores: " + plan);
  const char* title = "transports";
  for (const auto& t : all["transports"]) {
    std::string what = t.contains("library") ? "mpi (" + text(t["library"]) + ")" : text(t["name"]);
    what += t["usable"].get<bool>() ? ": yes" : ": no, " + text(t["why_not"]);
    if (t.contains("version")) what += ", " + text(t["version"]);
    if (t.contains("plugin")) what += ", " + text(t["plugin"]);
    if (t.contains("launcher")) what += ", " + text(t["launcher"]);
    line(title, what);
    title = "";
  }
  title = "devices";
  for (const auto& d : all["devices"]) {
    std::string what = text(d["name"]);
    if (!d["usable"].get<bool>())
      what += ": no, " + text(d["why_not"]);
    else if (d.contains("note"))
      what += ": " + text(d["note"]);
    else if (d.contains("model"))
      what += ": " + text(d["model"]) + ", " + text(d["driver"]) +
              (d["shares_host_memory"].get<bool>() ? ", in the host's memory" : "");
    if (d.contains("energy")) what += "; energy: " + text(d["energy"]);
    line(title, what);
    title = "";
  }
  const auto& k = all["kernel"];
  line("kernel", text(k["name"]));
  line("", std::string("guard regions (MADV_GUARD_INSTALL): ") +
               (k["guard_regions"].get<bool>()
                    ? "yes"
                    : "no; stacks are guarded by mprotect, and beyond a quarter of vm.max_map_count by canaries"));
  line("", std::string("futex: ") + (k["futex"].get<bool>() ? "yes" : "no") + ", at most " + k["max_map_count"].dump() +
               " mappings");
}

} // namespace

void add_info(CLI::App& app, int& code) {
  auto* sub = app.add_subcommand(
      "info", "What Tern finds on this machine: CPUs, binding, transports, devices, versions; or what "
              "is in a folder of checkpoints");
  auto folder = std::make_shared<std::string>();
  sub->add_option("folder", *folder, "that tern::checkpoint has written");
  auto as_json = std::make_shared<bool>(false);
  sub->add_flag("--json", *as_json, "As one JSON object");
  sub->callback([as_json, folder, &code] {
    if (!folder->empty()) {
      code = describe_checkpoints(*folder, *as_json);
      return;
    }
    const json all = collect();
    if (*as_json)
      std::printf("%s\n", all.dump(2).c_str());
    else
      print(all);
    code = 0;
  });
}

} // namespace tern::tool
