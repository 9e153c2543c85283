// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What this machine has, how much of it this process may use, and where its threads should run.
/// CPU numbers are the operating system's. An empty CPU list always means "not bound".

#include <tern/base/language/compiler.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tern {

/// A core that this process may use.
struct cpu_core {
  int numa = 0;         ///< the operating system's number of the NUMA node it belongs to
  std::vector<int> pus; ///< its hardware threads that this process may use, ascending, at least one
};

/// What `describe_machine` found. Counts are of the whole machine as far as the container shows it,
/// at least 1.
struct machine {
  int packages = 1;
  int numa_nodes = 1;
  int cores = 1;
  int pus = 1;                        ///< hardware threads
  std::uint64_t memory_bytes = 0;     ///< 0 if unknown
  std::string cpu_model;              ///< empty if unknown
  std::vector<int> allowed_cpus;      ///< this process' affinity mask, ascending
  std::optional<double> cgroup_quota; ///< CPUs' worth of time that containers grant; none: no limit
  std::vector<cpu_core>
      allowed_cores; ///< the cores of `allowed_cpus`, in the machine's order (neighbours share caches)
};

/// Asks hwloc and the kernel; takes milliseconds. Any thread. \throws error(system) if hwloc cannot
/// start.
machine describe_machine();

/// The CPUs that the calling thread may run on, ascending. Never empty.
std::vector<int> allowed_cpus();

/// CPU limit in CPUs (0.5: half of one) set by control groups, versions 1 and 2 and hybrids of
/// both: the smallest on the way from the process' group up to the root, since each level binds.
/// None if nothing limits. \param root where control groups are mounted, normally `/sys/fs/cgroup`
/// \param proc_self_cgroup the content of `/proc/self/cgroup`; paths that a container does not show
/// are passed over.
std::optional<double> read_cgroup_quota(const std::string& root, const std::string& proc_self_cgroup);
/// The same for this process.
std::optional<double> cgroup_quota();

/// Bytes of memory that control groups leave to this process' group, as for `read_cgroup_quota`.
/// None if nothing limits.
std::optional<std::uint64_t> read_cgroup_memory(const std::string& root, const std::string& proc_self_cgroup);
/// The same for this process.
std::optional<std::uint64_t> cgroup_memory();

/// How many busy threads make sense: the smaller of allowed CPUs and quota (rounded down, or the
/// throttling of one CPU would stop all), at least 1.
int usable_cpus(std::size_t allowed, std::optional<double> quota) noexcept;
/// The same for the calling thread's affinity and this process' quota as they stand now. Any
/// thread.
int usable_cpus();

/// Where workers may run: anywhere, on one core each, or on the cores of one NUMA node.
enum class binding { none, core, numa };
/// "none", "core" or "numa".
std::string_view name_of(binding kind) noexcept;
/// The inverse of `name_of`. \throws error(invalid_argument) listing the names.
binding binding_from(std::string_view name);

/// The CPUs to which each worker of one rank is to be bound. The ranks on a host divide its allowed
/// cores into blocks of neighbours (more ranks than cores: they share); a rank's workers take the
/// cores of its block in turn, and share them if there are more workers than cores. `numa`: a
/// worker gets all allowed CPUs of its core's NUMA node, and workers spread evenly over their
/// block. \param host_rank this rank among the `host_size` ranks on this host \return one list a
/// worker; all empty for `binding::none`. \throws error(invalid_argument) for negative counts or a
/// rank outside 0..host_size-1, error(system) as `describe_machine`.
std::vector<std::vector<int>> plan_binding(binding kind, int workers, int host_rank, int host_size);
/// The same on given cores; does not ask the machine.
std::vector<std::vector<int>> plan_binding(binding kind, int workers, int host_rank, int host_size,
                                           const std::vector<cpu_core>& cores);

/// Binds the calling thread. An empty list changes nothing.
/// \throws error(invalid_argument) for a negative number, error(system) naming the CPUs and the
/// kernel's reason.
void bind_this_thread(const std::vector<int>& cpus);

/// The name that debuggers and `top -H` show; what is beyond 15 bytes is cut, since the kernel
/// keeps no more. Never throws.
void name_this_thread(const std::string& name) noexcept;

} // namespace tern
