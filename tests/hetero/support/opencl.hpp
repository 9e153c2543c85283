// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What tests of OpenCL devices have in common.

#include <chrono>
#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "tests/hetero/support/kernels.hpp"
#include <tern/hetero/device/opencl/opencl_device.hpp>
#include <tern/hetero/kernel/host_groups.hpp>

namespace tern::hetero::detail {

namespace k = test_kernels;

template <const auto& K> const kernel_code& code_of() {
  static const kernel_code code{K.name, K.source, K.fixed_size, nullptr, nullptr};
  return code;
}

inline std::string message_of(errc code, const std::function<void()>& body) {
  try {
    body();
  } catch (const error& e) {
    EXPECT_EQ(e.code(), code) << e.message();
    return e.message() + " | " + e.hint();
  }
  return "nothing was thrown";
}

/// As the runtime does: asking all the time would take the CPU from a driver's threads.
inline void wait(device& d, ticket t) {
  while (!d.done(t)) std::this_thread::sleep_for(std::chrono::nanoseconds(d.poll_delay()));
}

inline options options_for(const std::string& memory, const std::string& cache = "off") {
  options opts;
  opts.set(hetero_opencl_memory, memory);
  opts.set(hetero_cache, cache);
  opts.set(hetero_models, "read:none"); // times are gathered, and not stored
  return opts;
}

inline std::unique_ptr<opencl_device> first_device(const options& opts, const opencl_api* instead = nullptr) {
  std::vector<std::string> notes;
  auto all = instead ? open_opencl(*instead, opts, false, notes) : open_opencl(opts, 1, false, notes);
  if (all.empty()) return nullptr;
  return std::unique_ptr<opencl_device>(static_cast<opencl_device*>(all.front().release()));
}

// A vector where the device can work on it.
template <class T> class given {
public:
  given(device& d, std::vector<T>& host) : d_(d), host_(host), memory_(host.data()) {
    if (d.info().shares_host_memory) return;
    memory_ = d.allocate(bytes());
    wait(d_, d_.copy(0, {.way = direction::to_device,
                         .host = reinterpret_cast<std::byte*>(host_.data()),
                         .device = memory_,
                         .row_bytes = bytes()}));
  }
  ~given() {
    if (!d_.info().shares_host_memory) d_.free(memory_, bytes());
  }
  given(const given&) = delete;
  given& operator=(const given&) = delete;
  void fetch() {
    if (d_.info().shares_host_memory) return;
    wait(d_, d_.copy(1, {.way = direction::from_device,
                         .host = reinterpret_cast<std::byte*>(host_.data()),
                         .device = memory_,
                         .row_bytes = bytes()}));
  }
  argument as_argument(std::size_t first = 0) const { return {.memory = memory_, .offset = first * sizeof(T)}; }

private:
  std::size_t bytes() const { return host_.size() * sizeof(T); }
  device& d_;
  std::vector<T>& host_;
  memory_handle memory_;
};

template <class T> argument by_value(const T& v) { return {.value = &v, .bytes = sizeof v}; }

template <const auto& K>
ticket launch(device& d, const grid& shape, std::initializer_list<argument> arguments, int stream = 2,
              std::size_t dynamic = 0) {
  return d.launch(stream, {&code_of<K>(), shape, dynamic, {arguments.begin(), arguments.size()}});
}

template <class... Ps, class G, class... As>
void on_host(const kernel<G, Ps...>& which, const grid& s, const As&... arguments) {
  alignas(64) static char dynamic[65536];
  run_groups(which, s, 0, s.count(), dynamic, static_cast<Ps>(arguments)...);
}

} // namespace tern::hetero::detail
