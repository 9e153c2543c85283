// SPDX-License-Identifier: Apache-2.0
#include "tests/hetero/support/tasks.hpp"

#include <algorithm>
#include <cstdlib>

#include <gtest/gtest.h>

#include "tests/hetero/support/cuda.hpp"
#include <tern/hetero/device/opencl/opencl_device.hpp>
#include <tern/hetero/graph/runtime.hpp>

namespace tern::hetero {

bool there_is_opencl() {
  options opts;
  opts.set(hetero_cache, "off");
  const auto all = devices(opts);
  return std::any_of(all.begin(), all.end(), [](const device_info& i) { return i.kind == device_kind::opencl; });
}

void expect_nothing_left() {
  try {
    wait_all();
  } catch (...) { // the test has seen what it wanted to
  }
  for (const auto& d : count().devices) EXPECT_EQ(d.memory_bytes, 0) << "is left on " << d.id;
  const detail::upcoming_uses& foreseen = detail::runtime::here("the test").copies().upcoming();
  EXPECT_EQ(foreseen.tasks() + foreseen.objects(), 0u);
  EXPECT_EQ(count().host_bytes, 0) << "is left in the host's memory";
  EXPECT_EQ(count().disk_bytes, 0) << "is left on disk";
}

void on(const machine& m, const std::function<void()>& f) {
  options opts = m.cuda ? cuda_options(m.memory, m.without) : options();
  opts.set(hetero_devices, m.devices);
  opts.set(hetero_simulated, m.simulated);
  opts.set(hetero_policy, m.policy);
  opts.set(hetero_memory, m.memory);
  opts.set(hetero_models, "read:none"); // times are gathered, and not stored
  if (!m.cuda) opts.set(hetero_cache, "off");
  opts.set(detail::hetero_opencl_memory, m.opencl_memory);
  opts.set(hetero_threads, m.threads);
  const char* const limit = std::getenv("TERN_TEST_HOST_MEMORY");
  opts.set(hetero_host_memory, m.host_memory.empty() && limit ? std::string(limit) : m.host_memory);
  opts.set(hetero_disk, m.disk);
  scheduler s({.workers = m.workers, .opts = &opts});
  EXPECT_EQ(s.run([&] {
    f();
    expect_nothing_left();
  }),
            0u);
}

std::string text_of_error(const std::function<void()>& f) {
  try {
    f();
  } catch (const error& e) {
    return e.what();
  }
  return "nothing was thrown";
}

} // namespace tern::hetero
