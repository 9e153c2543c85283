// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Runs a part of a test in a process of its own, for what ends the program or changes its limits.

#include <cstdlib>
#include <functional>
#include <string>

#include <gtest/gtest.h>

#include <tern/task/fiber/sanitizer.hpp>

#include "child.hpp" // of tests/support

namespace tern::test_support {

/// What `body` says and how it ends, in a new process that runs just this test up to here: 0 if
/// nothing fails. Tests that call it more than once give each a number.
inline test::finished in_child(const std::function<void()>& body, int number = 0, double seconds = 50) {
  static constexpr const char* variable = "TERN_TEST_CHILD";
  if (const char* which = std::getenv(variable)) {
    if (std::atoi(which) != number) return {};
    body();
    std::exit(testing::Test::HasFailure() ? 1 : 0);
  }
  const auto* self = testing::UnitTest::GetInstance()->current_test_info();
  return test::run({"/proc/self/exe", std::string("--gtest_filter=") + self->test_suite_name() + "." + self->name(),
                    "--gtest_color=no"},
                   seconds, {.environment = test::variables{{variable, std::to_string(number)}}});
}

/// How `test::finished::code` shows that a signal ended it.
inline constexpr int by_signal = 1000;

using detail::address_sanitizer;
using detail::sanitized;
using detail::thread_sanitizer;

} // namespace tern::test_support
