// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Tests that every rank of a job runs together, whatever the transport. GoogleTest runs one test
/// at a time in a process, but several ranks may share a process here; so these are plain functions
/// with a few checks of their own:
///
///     TERN_RANK_TEST(sums_over_all_ranks) { TERN_EXPECT_EQ(tern::allreduce(1, std::plus<>()), tern::size()); }
///
/// `rank_test_main.cpp` runs them in order, with a barrier after each, and prints `N passed, N
/// failed` on rank 0.

#include <sstream>
#include <string>

#include <tern/base/error.hpp>

namespace tern::test {

struct rank_test {
  rank_test(const char* name, void (*body)());
  const char* name;
  void (*body)();
};

/// Counts and prints a failure of the calling rank.
void fail(const char* file, int line, const std::string& what);

template <class A, class B> void expect_equal(const A& a, const B& b, const char* text, const char* file, int line) {
  if (a == b) return;
  std::ostringstream out;
  out << text << ": " << a << " is not " << b;
  fail(file, line, out.str());
}

template <class F>
void expect_error(F&& f, errc code, const std::string& part, const char* text, const char* file, int line) {
  try {
    f();
  } catch (const error& e) {
    if (e.code() != code)
      fail(file, line, std::string(text) + " threw " + std::string(name_of(e.code())) + ": " + e.what());
    else if (std::string(e.what()).find(part) == std::string::npos)
      fail(file, line, std::string(text) + " threw '" + e.what() + "', which lacks '" + part + "'");
    return;
  }
  fail(file, line, std::string(text) + " threw nothing");
}

} // namespace tern::test

#define TERN_RANK_TEST(name)                                                                                           \
  static void name();                                                                                                  \
  static const tern::test::rank_test register_##name{#name, name};                                                     \
  static void name()
#define TERN_EXPECT(condition) ((condition) ? void() : tern::test::fail(__FILE__, __LINE__, "expected " #condition))
#define TERN_EXPECT_EQ(a, b) tern::test::expect_equal((a), (b), #a " == " #b, __FILE__, __LINE__)
#define TERN_EXPECT_ERROR(expression, code, part)                                                                      \
  tern::test::expect_error([&] { (void)(expression); }, code, part, #expression, __FILE__, __LINE__)
