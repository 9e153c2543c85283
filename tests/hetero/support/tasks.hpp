// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// For tests of tasks and objects: a scheduler with devices. Internal.

#include <algorithm>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "tests/hetero/support/cuda.hpp"
#include <tern/base/error.hpp>
#include <tern/base/options.hpp>
#include <tern/hetero/device/opencl/opencl_device.hpp>
#include <tern/hetero/hetero_object.hpp>
#include <tern/hetero/hetero_task.hpp>
#include <tern/hetero/policy.hpp>
#include <tern/hetero/statistics.hpp>
#include <tern/task/scheduler.hpp>

namespace tern::hetero {

struct machine {
  int workers = 2;
  std::string devices = "host";
  std::string simulated = {};
  std::string policy = "locality";
  std::string opencl_memory = "auto";
  bool threads = false;     ///< of devices
  bool cuda = false;        ///< the mock driver's are there, too (cuda.hpp)
  std::string without = {}; ///< of what makes CUDA fast
  std::string memory = {};  ///< that objects may take on a device; but see `simulated`
};

/// For tests that are skipped where there is none.
inline bool there_is_opencl() {
  options opts;
  opts.set(hetero_cache, "off");
  const auto all = devices(opts);
  return std::any_of(all.begin(), all.end(), [](const device_info& i) { return i.kind == device_kind::opencl; });
}

/// \pre all objects of the scheduler are gone. What tasks failed with is as told.
inline void expect_nothing_left() {
  try {
    wait_all();
  } catch (...) { // the test has seen what it wanted to
  }
  for (const auto& d : count().devices) EXPECT_EQ(d.memory_bytes, 0) << "is left on " << d.id;
}

template <class F> void on(const machine& m, F&& f) {
  options opts = m.cuda ? cuda_options(m.memory, m.without) : options();
  opts.set(hetero_devices, m.devices);
  opts.set(hetero_simulated, m.simulated);
  opts.set(hetero_policy, m.policy);
  opts.set(hetero_memory, m.memory);
  if (!m.cuda) opts.set(hetero_cache, "off");
  opts.set(detail::hetero_opencl_memory, m.opencl_memory);
  opts.set(hetero_threads, m.threads);
  scheduler s({.workers = m.workers, .opts = &opts});
  EXPECT_EQ(s.run([&] {
    f();
    expect_nothing_left();
  }),
            0u);
}

/// The text of what `f` throws.
template <class F> std::string text_of_error(F&& f) {
  try {
    f();
  } catch (const error& e) {
    return e.what();
  }
  return "nothing was thrown";
}

} // namespace tern::hetero
