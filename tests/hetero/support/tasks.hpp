// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// For tests of tasks and objects: a scheduler with devices.

#include <functional>
#include <string>

#include <tern/base/error.hpp>
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
  bool threads = false;                    ///< of devices
  bool cuda = false;                       ///< the mock driver's are there, too (cuda.hpp)
  std::string without = {};                ///< of what makes CUDA fast
  std::string memory = {};                 ///< that objects may take on a device; but see `simulated`
  std::string host_memory = {}, disk = {}; ///< of the host
};

/// For tests that are skipped where there is none.
bool there_is_opencl();

/// \pre all objects of the scheduler are gone. What tasks failed with does not matter.
void expect_nothing_left();

/// Runs `f` on such a machine. Nothing may be left then. TERN_TEST_HOST_MEMORY limits the host's
/// memory where the machine does not.
void on(const machine& m, const std::function<void()>& f);

/// The text of what `f` throws.
std::string text_of_error(const std::function<void()>& f);

} // namespace tern::hetero
