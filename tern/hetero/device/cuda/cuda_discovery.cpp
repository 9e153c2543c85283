// SPDX-License-Identifier: Apache-2.0
// Which devices of CUDA there are.
#include <algorithm>
#include <array>
#include <sstream>

#include <unistd.h>

#include <tern/base/topology.hpp>
#include <tern/hetero/device/cuda/cuda_device.hpp>
#include <tern/hetero/device/device_kind.hpp>
#include <tern/hetero/device/discovery.hpp>
#include <tern/hetero/device/nvml/nvml.hpp>
#include <tern/hetero/device/settings.hpp>
#include <tern/hetero/memory/pinned_memory.hpp>

namespace tern::hetero::detail {
namespace {

std::vector<std::string> parts(const std::string& list, char separator) {
  std::vector<std::string> all;
  std::istringstream in(list);
  for (std::string one; std::getline(in, one, separator);)
    if (!one.empty()) all.push_back(one);
  return all;
}

bool are_switches(const std::string& list) {
  const auto all = parts(list, ',');
  return std::all_of(all.begin(), all.end(), [](const std::string& word) {
    return word == "no-pinned" || word == "no-pool" || word == "one-stream" || word == "no-graphs" ||
           word == "no-peers" || word == "no-fuse" || word == "no-ahead";
  });
}

} // namespace

const option<std::string> cuda_without{
    "cuda",
    "",
    "what to do without on CUDA devices, for comparisons: a list of no-pinned (the host's memory is not page-locked), "
    "no-pool (memory of the device is allocated and freed each time), one-stream (nothing overlaps), no-graphs "
    "(recorded tasks are launched one by one), no-peers (copies from device to device go through the host), "
    "no-fuse (small equal tasks are launched one by one), no-ahead (no task is launched before all that it follows has "
    "ended)",
    {&are_switches, "a list of no-pinned, no-pool, one-stream, no-graphs, no-peers, no-fuse, no-ahead, or nothing"}};
const option<std::string> cuda_libraries{
    "cuda-libraries", "",
    "files to open in the place of CUDA's usual libraries, separated by a colon: that of the driver, that of NVRTC, "
    "that of NVML; "
    "empty: libcuda.so.1, NVRTC where the loader, CUDA_HOME and /usr/local/cuda have it, and libnvidia-ml.so.1"};

namespace {
constexpr const char* ways_that_remain = "without NVRTC CUDA devices run functions on their queues, PTX, cubins and "
                                         "fatbins; of the dialect's kernels and CUDA "
                                         "C++ what earlier runs have compiled and kept, and of the dialect's what the "
                                         "program has as PTX (tern_device_code in "
                                         "CMake)";
std::vector<std::string> library(const options& opts, std::size_t n, std::vector<std::string> usual) {
  const auto given = parts(opts[cuda_libraries], ':');
  return n < given.size() ? std::vector{given[n]} : std::move(usual);
}
} // namespace

std::vector<std::string> nvrtc_libraries(const options& opts) { return library(opts, 1, nvrtc_api::usual_libraries()); }

std::vector<std::string> nvml_libraries(const options& opts) { return library(opts, 2, {"libnvidia-ml.so.1"}); }

std::shared_ptr<energy_source> cuda_device::energy(std::string& why) const {
  const cuda_target& t = *target_;
  std::array<char, 32> at{};
  if (t.api.DeviceGetPCIBusId &&
      t.api.DeviceGetPCIBusId(at.data(), static_cast<int>(at.size()), t.number) == cu::success)
    return open_nvml_energy(nvml_, at.data(), why);
  why = "its driver does not tell where on the bus it is";
  return nullptr;
}

cuda_switches switches_of(const options& opts) {
  cuda_switches s;
  for (const std::string& word : parts(opts[cuda_without], ',')) {
    if (word == "no-pinned") s.pinned = false;
    if (word == "no-pool") s.pool = false;
    if (word == "one-stream") s.streams = false;
    if (word == "no-graphs") s.graphs = false;
    if (word == "no-peers") s.peers = false;
    if (word == "no-fuse") s.fuse = false;
    if (word == "no-ahead") s.ahead = false;
  }
  return s;
}

namespace {
std::vector<std::unique_ptr<device>> open_all(const options& opts, const std::shared_ptr<pinned_memory>& host,
                                              std::vector<std::string>& notes) {
  const auto hold = lock_discovery(); // the driver initialises itself at the first call
  const auto api = cuda_api::open(library(opts, 0, cuda_api::usual_libraries()), notes);
  if (!api) return {};
  if (const cu::result r = api->Init(0); r != cu::success) {
    notes.push_back("no CUDA devices: " +
                    (r == cu::stub_library
                         ? std::string("the driver's library is the one for linkers, in which nothing works; install "
                                       "NVIDIA's driver")
                         : "NVIDIA's driver says " + api->text_of(r)));
    return {};
  }
  int count = 0;
  if (api->DeviceGetCount(&count) != cu::success || count == 0) {
    notes.push_back("no CUDA devices: NVIDIA's driver knows none");
    return {};
  }
  nvrtc_users users;
  if (api->DriverGetVersion(&users.driver) != cu::success) users.driver = 0;
  for (int n = 0; n < count; ++n) {
    cu::device d = 0;
    int major = 0, minor = 0;
    if (api->DeviceGet(&d, n) == cu::success &&
        api->DeviceGetAttribute(&major, cu::capability_major, d) == cu::success &&
        api->DeviceGetAttribute(&minor, cu::capability_minor, d) == cu::success)
      users.capabilities.push_back(10 * major + minor);
  }
  std::vector<std::string> said;
  const auto nvrtc = nvrtc_api::open(nvrtc_libraries(opts), said, users);
  std::string why_none;
  for (const std::string& one : said) {
    notes.push_back(one);
    why_none += (why_none.empty() ? "" : "; ") + one.substr(0, one.rfind("; install")); // each error says what to do
  }
  if (!nvrtc) notes.emplace_back(ways_that_remain);
  return open_cuda(*api, nvrtc.value_or(nvrtc_api()), why_none, opts, host, notes);
}
} // namespace

std::vector<std::unique_ptr<device>> open_cuda(const options& opts, const std::shared_ptr<pinned_memory>& host,
                                               std::vector<std::string>& notes) {
  std::vector<std::unique_ptr<device>> all;
  on_thread_stack([&] { all = open_all(opts, host, notes); });
  return all;
}

std::vector<std::unique_ptr<device>> open_cuda(const cuda_api& api, const nvrtc_api& nvrtc, const std::string& why_none,
                                               const options& opts, const std::shared_ptr<pinned_memory>& host,
                                               std::vector<std::string>& notes) {
  std::vector<std::unique_ptr<device>> all;
  int count = 0, version = 0;
  if (const cu::result r = api.DeviceGetCount(&count); r != cu::success) {
    notes.push_back("no CUDA devices: NVIDIA's driver cannot count them: " + api.text_of(r));
    return all;
  }
  api.DriverGetVersion(&version); // else 0.0
  const std::string driver = "CUDA " + std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
  const local_rank here = rank_on_machine(opts);
  if (here.of > 1 && !here.divides(count))
    notes.push_back("hetero-own: " + std::to_string(here.of) + " ranks share " + std::to_string(count) +
                    (count == 1 ? " CUDA device" : " CUDA devices") + ", as there is not one for each");
  for (int n = 0; n < count; ++n) {
    if (!here.uses(n, count)) {
      notes.push_back("the CUDA device cuda" + std::to_string(n) + " is another rank's (hetero-own)");
      continue;
    }
    auto t = std::make_unique<cuda_target>();
    t->api = api;
    t->own = here.divides(count);
    device_info& i = t->info;
    cu::result r = api.DeviceGet(&t->number, n);
    std::array<char, 256> name{};
    if (r == cu::success) r = api.DeviceGetName(name.data(), static_cast<int>(name.size()) - 1, t->number);
    std::size_t memory = 0;
    if (r == cu::success) r = api.DeviceTotalMem(&memory, t->number);
    const auto ask = [&](int what) {
      int value = 0;
      if (r == cu::success) r = api.DeviceGetAttribute(&value, what, t->number);
      return value;
    };
    i.kind = device_kind::cuda;
    i.id = "cuda" + std::to_string(n);
    i.name = name.data();
    i.driver = driver;
    i.memory_bytes = static_cast<std::int64_t>(memory);
    i.compute_units = std::max(1, ask(cu::multiprocessors));
    // The dialect's limit: its reductions have room for so many.
    i.max_group_items = std::clamp(ask(cu::max_threads_per_block), 1, 1024);
    i.max_group = {ask(cu::max_block_x), ask(cu::max_block_y), ask(cu::max_block_z)};
    t->most_groups = {ask(cu::max_grid_x), ask(cu::max_grid_y), ask(cu::max_grid_z)};
    i.local_memory_bytes = ask(cu::max_shared_per_block_optin);
    for (int other = 0; other < count; ++other) {
      int can = 0;
      cu::device peer = 0;
      if (other != n && r == cu::success && api.DeviceGet(&peer, other) == cu::success &&
          api.DeviceCanAccessPeer(&can, t->number, peer) == cu::success && can != 0)
        t->peers.push_back(peer);
    }
    t->capability = 10 * ask(cu::capability_major) + ask(cu::capability_minor);
    t->cooperative = ask(cu::cooperative_launch) != 0;
    const int mode = ask(cu::compute_mode), unified = ask(cu::unified_addressing);
    const auto skip = [&](const std::string& why) {
      notes.push_back("the CUDA device " + i.id + (i.name.empty() ? "" : " (" + i.name + ")") + " is not used: " + why);
    };
    if (r != cu::success)
      skip("its driver says " + api.text_of(r));
    else if (mode == cu::compute_mode_prohibited)
      skip("its compute mode is 'prohibited'; nvidia-smi -c DEFAULT allows programs on it");
    else if (!unified)
      skip("its addresses are not unified with the host's");
    else {
      std::string why_not = why_none;
      if (nvrtc.is_there() && best_code(nvrtc, t->capability).compute_capability == 0) {
        why_not = "NVRTC " + nvrtc.version() + " does not compile for the compute capability of " + i.id + ", " +
                  std::to_string(t->capability / 10) + "." + std::to_string(t->capability % 10);
        notes.push_back(why_not +
                        "; install an older CUDA, or its package cuda-nvrtc, and say in CUDA_HOME where it is");
        notes.emplace_back(ways_that_remain);
      }
      if (mode == cu::compute_mode_exclusive)
        notes.push_back("the CUDA device " + i.id +
                        " is for one process at a time (its compute mode is 'exclusive "
                        "process'): several ranks cannot share it, unless by MPS");
      all.push_back(std::make_unique<cuda_device>(std::move(t), nvrtc, why_not, opts, host));
    }
  }
  return all;
}

namespace {

std::size_t quarter_of_memory() {
  const auto pages = static_cast<std::size_t>(std::max(0L, ::sysconf(_SC_PHYS_PAGES)));
  const std::size_t all = pages * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  return std::min<std::uint64_t>(all, cgroup_memory().value_or(all)) / 4;
}

std::shared_ptr<pinned_memory> new_pinned_memory(const options& opts) {
  return std::make_shared<pinned_memory>(bytes_in(opts[hetero_pinned]).value_or(quarter_of_memory()));
}

// The driver initialises itself at the first call, and not when its library is opened.
std::shared_ptr<pinned_memory> memory_to_pin(const options& opts) {
  bool there = false;
  on_thread_stack([&] {
    std::vector<std::string> unwanted; // notes: `find` says the same again
    there = cuda_api::open(library(opts, 0, cuda_api::usual_libraries()), unwanted).has_value();
  });
  return there ? new_pinned_memory(opts) : nullptr;
}

std::vector<std::unique_ptr<device>> find(device_search& s) {
  if (!s.pinned) s.pinned = new_pinned_memory(s.opts);
  return open_cuda(s.opts, s.pinned, s.notes);
}

} // namespace

extern const device_kind_entry cuda_kind;
constinit const device_kind_entry cuda_kind{
    .name = "cuda", .order = 10, .kind = device_kind::cuda, .find = find, .memory_to_pin = memory_to_pin};

} // namespace tern::hetero::detail
