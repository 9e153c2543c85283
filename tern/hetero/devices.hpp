// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What kernels run on: the host, OpenCL and CUDA devices, and simulated ones for tests. The option
/// `hetero-devices` says which of them are used. Where it names none, they are looked for when the
/// first task comes that could run on one, or the program asks for them: a program whose tasks all
/// are functions of the host opens no driver.

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include <tern/base/options.hpp>

namespace tern::hetero {

/// Kinds of devices. A task runs on kinds that it has a variant for; a kernel of the dialect is one
/// for all of them. Kinds outside of this tree have further values (device/device_kind.hpp).
enum class device_kind : std::uint8_t {
  host,     ///< the workers of the scheduler
  opencl,   ///< found through the OpenCL ICD loader
  cuda,     ///< found through NVIDIA's driver
  simulated ///< computes on the host, with a time and memory of its own: `hetero-simulated`
};
const char* name_of(device_kind kind) noexcept; ///< "host", "opencl", …

/// A set of kinds.
using device_kinds = std::uint8_t;
constexpr device_kinds kinds_of(device_kind kind) noexcept {
  return static_cast<device_kinds>(1u << static_cast<unsigned>(kind));
}
constexpr device_kinds any_device = 0xff;
constexpr unsigned device_kinds_most = 8; ///< bits

/// What is known of a device.
struct device_info {
  device_kind kind = device_kind::host;
  std::string id;                      ///< by which options and errors name it: "host", "opencl0", "simulated1"
  std::string name;                    ///< as its maker calls it
  std::string driver;                  ///< and the version of what drives it: compiled kernels are kept by both
  std::int64_t memory_bytes = 0;       ///< 0: the host's
  std::int64_t local_memory_bytes = 0; ///< of a group
  int compute_units = 1;
  int max_group_items = 1024;
  std::array<int, 3> max_group{1024, 1024, 1024}; ///< in x, y, z
  bool shares_host_memory = false;                ///< its kernels work in the host's memory: nothing is copied for them
  bool doubles = true;
  /// What tells how much power it takes, or why nothing does: "NVML: 71 W now, at most 700 W". Set
  /// by `devices` where it opens them; empty: nothing is looked for.
  std::string energy = {};
};

/// Which devices a program uses: `all`, or a list of ids and kinds: "host,opencl0",
/// "host,simulated". The host is always there for transfers and access; not in the list, no kernels
/// run on it, but functions do.
extern const option<std::string> hetero_devices;
/// Bytes that objects may take on each device that has its own memory, as a size ("2G"); "": what
/// it has, less a tenth.
extern const option<std::string> hetero_memory;
/// Bytes of the host's memory that objects may take, as a size ("8G"); "": no limit, or with
/// `hetero_disk` three quarters of the machine's memory. Lent memory does not count.
extern const option<std::string> hetero_host_memory;
/// Where objects go that the host's memory has no room for: "DIR" or "DIR:SIZE"; "": with
/// `hetero_host_memory` $TMPDIR or /var/tmp.
extern const option<std::string> hetero_disk;
/// Between how many ranks or programs the memory of each device is divided, where `hetero_memory`
/// says nothing; 0: between as many ranks as the MPI launcher has started on this machine.
extern const option<int> hetero_share;
/// Whether ranks of one machine divide devices of a kind (CUDA, simulated) rather than share each:
/// "": they share; "auto": by the number that the MPI launcher has given the rank on this machine;
/// "R/N": this is rank R of N. Where there are fewer devices than ranks, they share.
extern const option<std::string> hetero_own;
/// Queues for kernels of each device, beside one for copies in either direction.
extern const option<int> hetero_queues;
extern const option<int> hetero_ahead; ///< `--tern-hetero-ahead`
/// Whether a thread of its own drives each device, rather than a fiber of the workers. Not in
/// simulations.
extern const option<bool> hetero_threads;
/// Bytes of the host's memory that are page-locked where CUDA devices are used, so that copies are
/// quick, as a size ("2G"); "": a quarter of the machine's. What objects need beyond it is ordinary
/// memory.
extern const option<std::string> hetero_pinned;
/// Simulated devices, "2" or "2:bandwidth=4G,latency=10us,memory=1G,launch=5us,speed=2"
/// (device/simulated/simulated_device.hpp).
extern const option<std::string> hetero_simulated;
/// Whether devices' compilers may make one operation, with one rounding, of a * b + c in kernels of
/// the dialect. If not, sums, differences and products are the same on all devices; on the host if
/// it is compiled with -ffp-contract=off.
extern const option<bool> hetero_fma;
/// Where kernels that were compiled for devices are kept from run to run; "": $XDG_CACHE_HOME/tern
/// or ~/.cache/tern; "off": nowhere.
extern const option<std::string> hetero_cache;
/// Where times of kernels and copies are kept from run to run, and how: a folder; "":
/// $XDG_CACHE_HOME/tern/models or ~/.cache/tern/models; "read" or "read:FOLDER": they are used and
/// gathered, but not stored; "off": there are none.
extern const option<std::string> hetero_models;

/// What the host's CPUs take, for the policy `energy`: "BUSY" or "BUSY,IDLE", watts when all
/// workers compute and when none does; "": it is measured, where `hetero_powercap` has counters.
extern const option<std::string> hetero_host_power;
/// The folder of the kernel's counters of energy: "/sys/class/powercap".
extern const option<std::string> hetero_powercap;

/// Whether kernels of the dialect run on the host with every access checked
/// (docs/concepts/kernels.md). Kernels then run on the host only, unless `hetero_devices` says
/// otherwise; those on other devices are not checked.
extern const option<bool> hetero_checked;
/// The C++ compiler for that; "": the first of $CXX, c++, g++, clang++-19 and clang++ that is
/// there.
extern const option<std::string> hetero_checked_compiler;

/// What is to be known of devices that were looked for in vain, or that are not as one might
/// expect.
struct device_note {
  device_kind kind;
  std::string text;
};

/// What the options say of the host's memory for objects, and how much there is for them on disk:
/// "objects take up to 8.0 GiB of memory, then go to \"/var/tmp\", which has 71.2 GiB free"; "": no
/// limit.
std::string describe_host_limit(const options& opts);

/// All devices of this machine that the options allow, the host first. Opens the libraries that
/// drive them, which may take a second. \throws error(invalid_option) for a device that is not
/// there, naming those that are. \param notes gets what is to be known besides. \param open begins
/// to use each, as its first task would (a CUDA device's context takes 0.3 s), and leaves out those
/// that fail, with a note: other programs may have all their memory. Thread-safe.
std::vector<device_info> devices(const options& opts, std::vector<device_note>* notes = nullptr, bool open = false);

} // namespace tern::hetero
