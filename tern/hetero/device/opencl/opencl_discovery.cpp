// SPDX-License-Identifier: Apache-2.0
// Which OpenCL devices there are.
#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <memory>
#include <optional>
#include <utility>

#include <tern/base/topology.hpp>
#include <tern/hetero/device/device_kind.hpp>
#include <tern/hetero/device/discovery.hpp>
#include <tern/hetero/device/opencl/opencl_device.hpp>
#include <tern/hetero/device/temporary_cache.hpp>
#include <tern/hetero/kernel/signal_guard.hpp>

namespace tern::hetero::detail {

const option<std::string> hetero_opencl_memory{
    "hetero-opencl-memory", "auto",
    "whether OpenCL devices that can work in the host's memory do, or have buffers and copies like all others, for "
    "tests and comparisons",
    one_of({"auto", "buffers"})};
const option<std::string> hetero_opencl_pocl{
    "hetero-opencl-pocl", "basic",
    "where PoCL, OpenCL for the CPU, runs kernels, unless POCL_DEVICES says "
    "so: in the worker that launches them, or in "
    "threads of its own, as many as there are CPUs without workers, one at least",
    one_of({"basic", "pthread"})};
const option<std::string> hetero_opencl_fuse{
    "hetero-opencl-fuse", "auto",
    "whether small equal tasks that are ready together are put into one launch on OpenCL devices where that proves "
    "faster; auto: but for those that run kernels in the worker that launches them, whose launches cost little",
    one_of({"auto", "on", "off"})};

namespace {

constexpr const char* pocl = "Portable Computing Language";

/// Where PoCL would keep what it compiles.
std::filesystem::path usual_folder_of_pocl() {
  const auto named = [](const char* variable) {
    const char* const text = std::getenv(variable);
    return std::filesystem::path(text ? text : "");
  };
  if (auto folder = named("POCL_CACHE_DIR"); !folder.empty()) return folder;
  if (const auto folder = named("XDG_CACHE_HOME"); !folder.empty()) return folder / "pocl" / "kcache";
  if (const auto folder = named("HOME"); !folder.empty()) return folder / ".cache" / "pocl" / "kcache";
  return {};
}

/// PoCL has no devices where it cannot write what it compiles, and does not say why. \return what
/// is to be known.
std::string give_pocl_a_folder() {
  const std::filesystem::path usual = usual_folder_of_pocl();
  std::string why = usual.empty() ? "HOME is not set" : make_folder(usual);
  if (why.empty()) return {};
  std::string not_even;
  const auto instead = temporary_cache("pocl", not_even);
  if (instead.empty())
    return "PoCL, OpenCL for the CPU, has no folder for what it compiles: " + why + ", and " + not_even +
           "; set POCL_CACHE_DIR or TMPDIR to one that can be written";
  ::setenv("POCL_CACHE_DIR", instead.c_str(), 1);
  return "PoCL, OpenCL for the CPU, keeps what it compiles in a temporary folder, so each run compiles again: " + why +
         "; set POCL_CACHE_DIR to a folder that can be written";
}

/// What drivers of OpenCL have said, and do not change. Asked for once: PoCL reads its settings
/// then.
struct opencl_drivers {
  struct platform {
    cl::platform_id id = nullptr;
    std::string name;
    bool asked = false; // for what follows
    cl::status status = cl::success;
    std::vector<cl::device_id> devices;
  };
  cl::status status = cl::success;
  std::vector<platform> platforms;
};

// Read by the driver when it is asked for devices first.
void set_up_pocl(const options& opts, int workers) {
  const std::string& wanted = opts[hetero_opencl_pocl];
  ::setenv("POCL_DEVICES", wanted.c_str(), 0);
  if (wanted == "pthread")
    ::setenv("POCL_MAX_PTHREAD_COUNT", std::to_string(std::max(1, usable_cpus() - workers)).c_str(), 0);
}

/// Of the process, under its lock.
struct opencl_of_process {
  std::optional<opencl_api> api;
  std::vector<std::string> notes; // said to each that looks for devices
  opencl_drivers drivers;
};

template <class T> T ask(const opencl_api& api, cl::device_id device, cl::uint what) {
  T value{};
  if (api.GetDeviceInfo(device, what, sizeof value, &value, nullptr) != cl::success) return T{};
  return value;
}

template <class F> std::string text_by(const F& get) {
  std::size_t size = 0;
  if (get(0, nullptr, &size) != cl::success || !size) return {};
  std::string text(size, '\0');
  if (get(size, text.data(), nullptr) != cl::success) return {};
  text.erase(std::find(text.begin(), text.end(), '\0'), text.end());
  return text;
}
std::string text_of_device(const opencl_api& api, cl::device_id device, cl::uint what) {
  return text_by(
      [&](std::size_t n, void* to, std::size_t* needs) { return api.GetDeviceInfo(device, what, n, to, needs); });
}
std::string text_of_platform(const opencl_api& api, cl::platform_id platform, cl::uint what) {
  return text_by(
      [&](std::size_t n, void* to, std::size_t* needs) { return api.GetPlatformInfo(platform, what, n, to, needs); });
}

template <class To> To at_most(std::uint64_t value, To most = std::numeric_limits<To>::max()) {
  return static_cast<To>(std::min<std::uint64_t>(value, static_cast<std::uint64_t>(most)));
}

// Why it cannot be used; nullptr: it can.
const char* unusable(const opencl_api& api, cl::device_id device) {
  if (!ask<cl::uint>(api, device, cl::device_available)) return "its driver says that it is not available";
  if (!ask<cl::uint>(api, device, cl::device_compiler_available)) return "its driver has no compiler";
  // Structs are given to kernels as they lie in the host's memory.
  if (ask<cl::uint>(api, device, cl::device_address_bits) != 64) return "its addresses do not have 64 bits";
  if (!ask<cl::uint>(api, device, cl::device_endian_little)) return "it is not little-endian";
  const std::string version = text_of_device(api, device, cl::device_version); // "OpenCL 1.2 …"
  if (version.starts_with("OpenCL 1.0") || version.starts_with("OpenCL 1.1")) return "it has no OpenCL 1.2";
  return nullptr;
}

std::unique_ptr<opencl_target> describe(const opencl_api& api, cl::platform_id platform, cl::device_id device,
                                        int number, const options& opts) {
  auto t = std::make_unique<opencl_target>();
  t->api = api;
  t->device = device;
  device_info& i = t->info;
  i.kind = device_kind::opencl;
  i.id = "opencl" + std::to_string(number);
  i.name = text_of_device(api, device, cl::device_name);
  const std::string platform_name = text_of_platform(api, platform, cl::platform_name);
  i.driver = platform_name + " " + text_of_device(api, device, cl::driver_version);
  i.compute_units = std::max(1, at_most<int>(ask<cl::uint>(api, device, cl::device_max_compute_units)));
  // The dialect's limit: its reductions have room for so many.
  i.max_group_items = std::max(1, at_most<int>(ask<std::size_t>(api, device, cl::device_max_work_group_size), 1024));
  const auto sizes = ask<std::array<std::size_t, 16>>(api, device, cl::device_max_work_item_sizes); // at least 3
  for (std::size_t d = 0; d < 3; ++d) i.max_group[d] = std::max(1, at_most<int>(sizes[d]));
  i.local_memory_bytes = at_most<std::int64_t>(ask<std::uint64_t>(api, device, cl::device_local_mem_size));
  i.doubles = ask<cl::bits>(api, device, cl::device_double_fp_config) != 0;

  const bool is_pocl = platform_name == pocl;
  const bool is_cpu = ask<cl::bits>(api, device, cl::device_type) & cl::device_type_cpu;
  const auto shared = ask<cl::bits>(api, device, cl::device_svm_capabilities);
  // PoCL's CPU devices run kernels in this process, and hand on whatever address they are given;
  // versions before 4 do not report it.
  i.shares_host_memory =
      opts[hetero_opencl_memory] == "auto" && api.SetKernelArgSVMPointer &&
      ((shared & cl::svm_fine_grain_system) || (is_pocl && is_cpu && (shared & cl::svm_fine_grain_buffer)));
  if (!i.shares_host_memory)
    i.memory_bytes = at_most<std::int64_t>(ask<std::uint64_t>(api, device, cl::device_global_mem_size));
  t->largest_allocation = at_most<std::size_t>(ask<std::uint64_t>(api, device, cl::device_max_mem_alloc_size));
  t->alignment = std::max<std::size_t>(1, ask<cl::uint>(api, device, cl::device_mem_base_addr_align) / 8);
  t->takes_spirv =
      api.CreateProgramWithIL && text_of_device(api, device, cl::device_il_version).find("SPIR-V") != std::string::npos;
  // PoCL's cache works, and asked for a binary it compiles each kernel once more, for groups of any
  // size.
  t->keeps_programs = is_pocl;
  // A thread of the driver's that computes wants the CPU that we ask from.
  t->runs_at_once = is_cpu && (i.name.starts_with("basic") || i.name.starts_with("cpu-minimal"));
  if (is_cpu && !t->runs_at_once) t->patience_ns = 20000;
  t->parameter_bytes = ask<std::size_t>(api, device, cl::device_max_parameter_size);
  t->fuses = opts[hetero_opencl_fuse] == "on" || (opts[hetero_opencl_fuse] == "auto" && !t->runs_at_once);
  t->key = "OpenCL, Tern " TERN_VERSION "\n" + text_of_platform(api, platform, cl::platform_version) + "\n" + i.driver +
           "\n" + i.name + "\n" + text_of_device(api, device, cl::device_version) + "\n";
  return t;
}

} // namespace

namespace {

opencl_drivers ask_for_platforms(const opencl_api& api) {
  opencl_drivers found;
  cl::uint count = 0;
  found.status = api.GetPlatformIDs(0, nullptr, &count);
  std::vector<cl::platform_id> ids(found.status == cl::success ? count : 0);
  if (!ids.empty()) found.status = api.GetPlatformIDs(count, ids.data(), nullptr);
  if (found.status != cl::success) return found;
  for (const cl::platform_id id : ids)
    found.platforms.push_back({id, text_of_platform(api, id, cl::platform_name), false, cl::success, {}});
  return found;
}

bool has_pocl(const opencl_drivers& drivers) {
  return std::any_of(drivers.platforms.begin(), drivers.platforms.end(),
                     [](const opencl_drivers::platform& p) { return p.name == pocl; });
}

void ask_for_devices(const opencl_api& api, opencl_drivers::platform& p) {
  if (std::exchange(p.asked, true)) return;
  cl::uint count = 0;
  p.status = api.GetDeviceIDs(p.id, cl::device_type_all, 0, nullptr, &count);
  p.devices.resize(p.status == cl::success ? count : 0);
  if (!p.devices.empty()) p.status = api.GetDeviceIDs(p.id, cl::device_type_all, count, p.devices.data(), nullptr);
  if (p.status != cl::success) p.devices.clear();
}

std::vector<std::unique_ptr<device>> make_devices(const opencl_api& api, opencl_drivers& drivers, const options& opts,
                                                  bool skip_nvidia, std::vector<std::string>& notes) {
  std::vector<std::unique_ptr<device>> all;
  cl::status s = drivers.status;
  if (s == cl::platform_not_found || (s == cl::success && drivers.platforms.empty())) {
    notes.push_back("no OpenCL devices: the loader knows no driver (/etc/OpenCL/vendors); install one, such as "
                    "pocl-opencl-icd for the CPU");
    return all;
  }
  if (s != cl::success) {
    notes.push_back("no OpenCL devices: the loader cannot list its drivers: " + cl::text_of(s));
    return all;
  }
  for (opencl_drivers::platform& platform : drivers.platforms) {
    if (skip_nvidia && platform.name.starts_with("NVIDIA")) {
      notes.push_back("the OpenCL devices of " + platform.name +
                      " are not used, as CUDA has them; hetero-devices names opencl to use them");
      continue;
    }
    ask_for_devices(api, platform);
    if (platform.devices.empty()) {
      const char* const set = platform.name == pocl ? std::getenv("POCL_DEVICES") : nullptr;
      notes.push_back("OpenCL of " + platform.name + " has no devices" +
                      (platform.status == cl::success || platform.status == cl::device_not_found
                           ? ""
                           : ": " + cl::text_of(platform.status)) +
                      (set ? " (POCL_DEVICES is " + std::string(set) + ")" : ""));
      continue;
    }
    for (const cl::device_id device : platform.devices) {
      auto target = describe(api, platform.id, device, static_cast<int>(all.size()), opts);
      if (const char* const why = unusable(api, device)) {
        notes.push_back("the OpenCL device " + target->info.name + " is not used: " + why);
        continue;
      }
      const std::string name = target->info.name;
      target->context = api.CreateContext(nullptr, 1, &device, nullptr, nullptr, &s);
      if (s != cl::success) {
        target->context = nullptr;
        notes.push_back("the OpenCL device " + name + " is not used: it cannot be opened: " + cl::text_of(s));
        continue;
      }
      try {
        all.push_back(std::make_unique<opencl_device>(std::move(target), opts));
      } catch (const error& e) {
        notes.push_back("the OpenCL device " + name + " is not used: " + e.message());
      }
    }
  }
  return all;
}

} // namespace

std::vector<std::unique_ptr<device>> open_opencl(const options& opts, int workers, bool skip_nvidia,
                                                 std::vector<std::string>& notes) {
  const auto hold = lock_discovery();
  const signal_guard keep;
  static opencl_of_process* process = nullptr; // never destroyed: runtimes use what it knows
  if (!process) {
    auto first = std::make_unique<opencl_of_process>();
    set_up_pocl(opts, workers);
    first->api = opencl_api::open(opencl_api::usual_libraries(), first->notes);
    if (first->api) first->drivers = ask_for_platforms(*first->api);
    if (has_pocl(first->drivers)) // before it is asked for devices
      if (std::string note = give_pocl_a_folder(); !note.empty()) first->notes.push_back(std::move(note));
    process = first.release();
  }
  notes.insert(notes.end(), process->notes.begin(), process->notes.end());
  if (!process->api) return {};
  return make_devices(*process->api, process->drivers, opts, skip_nvidia, notes);
}

std::vector<std::unique_ptr<device>> open_opencl(const opencl_api& api, const options& opts, bool skip_nvidia,
                                                 std::vector<std::string>& notes) {
  opencl_drivers drivers = ask_for_platforms(api);
  return make_devices(api, drivers, opts, skip_nvidia, notes);
}

extern const device_kind_entry opencl_kind;
constinit const device_kind_entry opencl_kind{
    .name = "opencl",
    .order = 20, // after CUDA, to which it leaves what that has
    .kind = device_kind::opencl,
    .find =
        [](device_search& s) {
          return open_opencl(s.opts, s.workers, s.all && (s.used & kinds_of(device_kind::cuda)) != 0, s.notes);
        },
    // The number of PoCL's threads is set when PoCL is first opened. It depends on the number of
    // workers, which is not known before.
    .before_start = [](const options& opts) { return opts[hetero_opencl_pocl] != "pthread"; }};

} // namespace tern::hetero::detail
