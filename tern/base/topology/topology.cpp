// SPDX-License-Identifier: Apache-2.0
#include <tern/base/topology.hpp>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <fstream>
#include <map>
#include <memory>
#include <sstream>
#include <system_error>

#include <hwloc.h>
#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include <tern/base/error.hpp>

namespace tern {
namespace {

struct cpu_set_deleter {
  void operator()(cpu_set_t* set) const noexcept { CPU_FREE(set); }
};
using cpu_set_ptr = std::unique_ptr<cpu_set_t, cpu_set_deleter>;

std::string reason(int code) { return std::generic_category().message(code); }

struct topology_deleter {
  void operator()(hwloc_topology_t topology) const noexcept { hwloc_topology_destroy(topology); }
};
using topology_ptr = std::unique_ptr<hwloc_topology, topology_deleter>;

topology_ptr load_topology() {
  hwloc_topology_t topology = nullptr;
  if (hwloc_topology_init(&topology) != 0)
    throw error(errc::system, "hwloc cannot start: " + reason(errno), "check that memory is left");
  topology_ptr owner(topology);
  if (hwloc_topology_load(topology) != 0)
    throw error(errc::system, "hwloc cannot read this machine's topology: " + reason(errno),
                "is /sys mounted? `lstopo` tells more");
  return owner;
}

int count_of(hwloc_topology_t topology, hwloc_obj_type_t type) {
  return std::max(1, hwloc_get_nbobjs_by_type(topology, type));
}

/// The machine's cores in its own order, each with those of its hardware threads that are in
/// `allowed`.
std::vector<cpu_core> cores_of(hwloc_topology_t topology, const std::vector<int>& allowed) {
  std::vector<cpu_core> cores;
  std::map<hwloc_obj_t, std::size_t> index; // address: only looked up; `cores` is in the machine's order
  const int pus = hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_PU);
  for (int i = 0; i < pus; ++i) {
    const hwloc_obj_t pu = hwloc_get_obj_by_type(topology, HWLOC_OBJ_PU, static_cast<unsigned>(i));
    const int cpu = static_cast<int>(pu->os_index);
    if (!std::binary_search(allowed.begin(), allowed.end(), cpu)) continue;
    hwloc_obj_t core = hwloc_get_ancestor_obj_by_type(topology, HWLOC_OBJ_CORE, pu);
    if (!core) core = pu; // machines that show no cores (some emulators): each hardware thread is one
    const auto [at, fresh] = index.try_emplace(core, cores.size());
    if (fresh) {
      const hwloc_obj_t node =
          hwloc_get_next_obj_covering_cpuset_by_type(topology, pu->cpuset, HWLOC_OBJ_NUMANODE, nullptr);
      cores.push_back({node ? static_cast<int>(node->os_index) : 0, {}});
    }
    cores[at->second].pus.push_back(cpu);
  }
  for (auto& core : cores) std::sort(core.pus.begin(), core.pus.end());
  return cores;
}

std::optional<std::string> content_of(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  if (!file || !(text << file.rdbuf())) return std::nullopt;
  return text.str();
}

std::optional<double> number(std::string_view text) {
  double value = 0;
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.remove_suffix(1);
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failure != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<double> ratio(std::optional<double> quota, std::optional<double> period) {
  if (!quota || !period || *quota <= 0 || *period <= 0) return std::nullopt; // "max" and -1 mean no limit
  return *quota / *period;
}

/// One level's limit of memory, bytes: a number, or "max". Version 1 says "no limit" by a number
/// near the largest.
std::optional<double> memory_in(const std::string& file) {
  const auto text = content_of(file);
  const auto bytes = text ? number(*text) : std::nullopt;
  constexpr double unlimited = 0x1p60;
  return bytes && *bytes > 0 && *bytes < unlimited ? bytes : std::nullopt;
}
std::optional<double> memory_v1(const std::string& folder) { return memory_in(folder + "/memory.limit_in_bytes"); }
std::optional<double> memory_v2(const std::string& folder) { return memory_in(folder + "/memory.max"); }

/// One level's limit in version 2: `cpu.max` reads "50000 100000" or "max 100000".
std::optional<double> quota_v2(const std::string& folder) {
  const auto text = content_of(folder + "/cpu.max");
  if (!text) return std::nullopt;
  const auto space = text->find(' ');
  if (space == std::string::npos) return std::nullopt;
  return ratio(number(std::string_view(*text).substr(0, space)), number(std::string_view(*text).substr(space + 1)));
}

std::optional<double> quota_v1(const std::string& folder) {
  const auto quota = content_of(folder + "/cpu.cfs_quota_us"), period = content_of(folder + "/cpu.cfs_period_us");
  if (!quota || !period) return std::nullopt;
  return ratio(number(*quota), number(*period));
}

template <class Read>
void lower_along(std::optional<double>& least, const std::string& mount, std::string path, Read read) {
  // A path that climbs out of what the container shows says nothing about folders below the mount.
  if (path.find("/..") != std::string::npos) path.clear();
  while (!path.empty() && path.back() == '/') path.pop_back();
  while (true) {
    if (const auto limit = read(mount + path)) least = least ? std::min(*least, *limit) : *limit;
    if (path.empty()) return;
    path.erase(path.rfind('/') == std::string::npos ? 0 : path.rfind('/'));
  }
}

/// The smallest limit of a controller on the way from this process' group up to the root.
std::optional<double> least_limit(const std::string& root, const std::string& proc_self_cgroup,
                                  const std::string& controller, std::optional<double> (*v1)(const std::string&),
                                  std::optional<double> (*v2)(const std::string&)) {
  std::optional<double> least;
  std::istringstream lines(proc_self_cgroup);
  for (std::string line; std::getline(lines, line);) { // hierarchy:controllers:path
    const auto first = line.find(':'), second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1), path = line.substr(second + 1);
    if (controllers.empty()) {
      lower_along(least, root, path, v2);
      lower_along(least, root + "/unified", path, v2); // where hybrids mount it
    } else if (("," + controllers + ",").find("," + controller + ",") != std::string::npos) {
      lower_along(least, root + "/" + controllers, path, v1);
      if (controllers != controller) lower_along(least, root + "/" + controller, path, v1);
    }
  }
  return least;
}

} // namespace

machine describe_machine() {
  const topology_ptr owner = load_topology();
  const hwloc_topology_t topology = owner.get();
  machine m;
  m.packages = count_of(topology, HWLOC_OBJ_PACKAGE);
  m.numa_nodes = count_of(topology, HWLOC_OBJ_NUMANODE);
  m.pus = count_of(topology, HWLOC_OBJ_PU);
  const int cores = hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_CORE);
  m.cores = cores > 0 ? cores : m.pus;
  const hwloc_obj_t root = hwloc_get_root_obj(topology);
  // Not hwloc's sum over NUMA nodes: memory plugged into a running virtual machine may be missing
  // there.
  m.memory_bytes =
      static_cast<std::uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  hwloc_obj_t package = hwloc_get_obj_by_type(topology, HWLOC_OBJ_PACKAGE, 0);
  for (const hwloc_obj_t object : {package, root}) {
    const char* model = object ? hwloc_obj_get_info_by_name(object, "CPUModel") : nullptr;
    if (m.cpu_model.empty() && model) m.cpu_model = model;
  }
  m.allowed_cpus = allowed_cpus();
  m.cgroup_quota = cgroup_quota();
  m.allowed_cores = cores_of(topology, m.allowed_cpus);
  return m;
}

std::vector<int> allowed_cpus() {
  // The kernel's mask may be wider than cpu_set_t; its size is found by trying.
  for (int cpus = CPU_SETSIZE; cpus <= (1 << 20); cpus *= 2) {
    const cpu_set_ptr set(CPU_ALLOC(static_cast<std::size_t>(cpus)));
    const std::size_t bytes = CPU_ALLOC_SIZE(static_cast<std::size_t>(cpus));
    if (!set) break;
    if (::sched_getaffinity(0, bytes, set.get()) != 0) {
      if (errno == EINVAL) continue;
      break;
    }
    std::vector<int> allowed;
    for (int cpu = 0; cpu < cpus; ++cpu)
      if (CPU_ISSET_S(static_cast<std::size_t>(cpu), bytes, set.get())) allowed.push_back(cpu);
    if (!allowed.empty()) return allowed;
    break;
  }
  return {0}; // some sandboxes refuse the call; one CPU there must be
}

std::optional<double> read_cgroup_quota(const std::string& root, const std::string& proc_self_cgroup) {
  return least_limit(root, proc_self_cgroup, "cpu", quota_v1, quota_v2);
}

std::optional<std::uint64_t> read_cgroup_memory(const std::string& root, const std::string& proc_self_cgroup) {
  const auto least = least_limit(root, proc_self_cgroup, "memory", memory_v1, memory_v2);
  return least ? std::optional(static_cast<std::uint64_t>(*least)) : std::nullopt;
}

std::optional<std::uint64_t> cgroup_memory() {
  return read_cgroup_memory("/sys/fs/cgroup", content_of("/proc/self/cgroup").value_or(""));
}

std::optional<double> cgroup_quota() {
  return read_cgroup_quota("/sys/fs/cgroup", content_of("/proc/self/cgroup").value_or(""));
}

int usable_cpus(std::size_t allowed, std::optional<double> quota) noexcept {
  const double limit = std::min(static_cast<double>(allowed), quota.value_or(1e9));
  return std::max(1, static_cast<int>(std::min(limit, 1e9)));
}

int usable_cpus() { return usable_cpus(allowed_cpus().size(), cgroup_quota()); }

void bind_this_thread(const std::vector<int>& cpus) {
  if (cpus.empty()) return;
  std::string list;
  for (const int cpu : cpus) {
    if (!list.empty()) list += ',';
    list += std::to_string(cpu);
  }
  const auto [least, most] = std::minmax_element(cpus.begin(), cpus.end());
  if (*least < 0 || *most >= (1 << 20))
    throw error(errc::invalid_argument, "cannot bind a thread to CPUs " + list + ": no CPU has such a number",
                "pass the operating system's CPU numbers");
  const auto width = static_cast<std::size_t>(std::max(*most + 1, CPU_SETSIZE));
  const cpu_set_ptr set(CPU_ALLOC(width));
  if (!set) throw error(errc::out_of_memory, "cannot allocate a CPU set of " + std::to_string(width) + " CPUs");
  const std::size_t bytes = CPU_ALLOC_SIZE(width);
  CPU_ZERO_S(bytes, set.get());
  for (const int cpu : cpus) CPU_SET_S(static_cast<std::size_t>(cpu), bytes, set.get());
  if (const int failure = ::pthread_setaffinity_np(::pthread_self(), bytes, set.get()))
    throw error(errc::system, "cannot bind a thread to CPUs " + list + ": " + reason(failure),
                "this process may not use them all; run with --tern-bind=none, or widen its CPU set");
}

void name_this_thread(const std::string& name) noexcept {
  char text[16] = {};
  name.copy(text, sizeof text - 1);
  ::pthread_setname_np(::pthread_self(), text);
}

} // namespace tern
