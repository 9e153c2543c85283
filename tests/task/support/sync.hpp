// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What the tests of fibers, futures and blocking primitives share.

#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <tern/base/error.hpp>
#include <tern/task/future.hpp>

namespace tern::test_support {

/// The text of the error that `f` throws, which must have that code.
template <class F> std::string text_of(errc code, F&& f) {
  try {
    f();
  } catch (const error& e) {
    EXPECT_EQ(e.code(), code) << e.what();
    return e.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return {};
}

/// The text of the error that `f` throws, whatever its code.
template <class F> std::string text_of(F&& f) {
  try {
    f();
  } catch (const error& e) {
    return e.what();
  }
  return "nothing was thrown";
}

/// Calls `f`, which must throw an error; gives it.
template <class F> error thrown_by(F&& f) {
  try {
    f();
  } catch (const error& e) {
    return e;
  }
  ADD_FAILURE() << "no tern::error was thrown";
  return error(errc::internal, "nothing was thrown");
}

/// Runs each in a fiber of its own, until all are done.
template <class... Fs> void together(Fs&&... fs) {
  std::vector<future<void>> all;
  (all.push_back(async(std::forward<Fs>(fs))), ...);
  for (auto& f : all) f.get();
}

} // namespace tern::test_support
