// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// For the tests of what archives refuse: the text of a refusal, and a value of everything that
/// archives handle.

#include <tern/base/archive.hpp>

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hostile_test {

/// What the error says that `what` throws; "accepted" if it throws none.
template <class F> std::string refusal(F&& what, tern::errc code = tern::errc::invalid_data) {
  try {
    what();
  } catch (const tern::error& e) {
    EXPECT_EQ(e.code(), code) << e.what();
    return e.what();
  }
  return "accepted";
}
/// Of bytes that are no T.
template <class T> std::string refused(const tern::byte_buffer& bytes) {
  return refusal([&] { (void)tern::unpack<T>(bytes); });
}

struct record {
  int a = 0;
  std::string text;
  std::vector<record> kids;
  std::shared_ptr<record> next;
  std::unique_ptr<record> own;
  template <class A> void serialize(A& ar) { ar(a, text, kids, next, own); }
};
struct nothing {
  template <class A> void serialize(A&) {}
};

/// One value of each kind that archives handle, packed.
tern::byte_buffer sample();
/// Reads such a value. Throws as tern::unpack.
void unpack_sample(std::span<const std::byte> bytes);

} // namespace hostile_test
