// SPDX-License-Identifier: Apache-2.0
#include <tern/base/log.hpp>

#include <algorithm>
#include <cerrno>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <tern/base/error.hpp>

namespace {

using tern::log_level;
using testing::HasSubstr;
using testing::MatchesRegex;

template <class F> std::string captured(F&& what) {
  testing::internal::CaptureStderr();
  what();
  return testing::internal::GetCapturedStderr();
}

class log : public testing::Test {
protected:
  void TearDown() override {
    tern::set_log_level(log_level::info);
    tern::set_rank_provider(nullptr);
  }
};

TEST_F(log, line_without_rank) {
  const std::string line = captured([] { tern::log_info("started"); });
  EXPECT_THAT(line, MatchesRegex(R"(\[tern [0-9]{2}:[0-9]{2}:[0-9]{2}[.][0-9]{3} info\] started)"
                                 "\n"));
}

TEST_F(log, line_with_rank) {
  EXPECT_EQ(tern::set_rank_provider([]() noexcept { return 3; }), nullptr);
  const std::string line = captured([] { tern::log_warning("late"); });
  EXPECT_THAT(line, MatchesRegex(R"(\[tern [0-9]{2}:[0-9]{2}:[0-9]{2}[.][0-9]{3} r3 warning\] late)"
                                 "\n"));
  EXPECT_NE(tern::set_rank_provider([]() noexcept { return -1; }), nullptr);
  EXPECT_THAT(captured([] { tern::log_error("outside"); }), testing::Not(HasSubstr(" r")));
}

TEST_F(log, rank_is_that_of_the_calling_thread) {
  static thread_local int rank = -1;
  tern::set_rank_provider([]() noexcept { return rank; });
  const std::string text = captured([] {
    std::thread([] { rank = 1, tern::log_info("one"); }).join();
    std::thread([] { rank = 2, tern::log_info("two"); }).join();
  });
  EXPECT_THAT(text, HasSubstr("r1 info] one\n"));
  EXPECT_THAT(text, HasSubstr("r2 info] two\n"));
}

TEST_F(log, level_filters) {
  tern::set_log_level(log_level::warning);
  EXPECT_FALSE(tern::log_enabled(log_level::info));
  EXPECT_TRUE(tern::log_enabled(log_level::warning));
  const std::string text = captured([] {
    tern::log_trace("a"), tern::log_debug("b"), tern::log_info("c"), tern::log_warning("d"), tern::log_error("e");
  });
  EXPECT_THAT(text, testing::AllOf(HasSubstr("warning] d\n"), HasSubstr("error] e\n")));
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 2);
  tern::set_log_level(log_level::off);
  EXPECT_EQ(captured([] { tern::log_error("x"), tern::log(log_level::off, "y"); }), "");
  EXPECT_FALSE(tern::log_enabled(log_level::off));
  tern::set_log_level(log_level::trace);
  EXPECT_THAT(captured([] { tern::log_trace("x"); }), HasSubstr("trace] x"));
}

TEST_F(log, text_is_no_format_and_may_be_long) {
  const std::string text = "{} %s {0:>10} " + std::string(100000, 'x');
  EXPECT_THAT(captured([&] { tern::log_info(text); }), HasSubstr(text));
}

TEST_F(log, names) {
  for (const auto level :
       {log_level::trace, log_level::debug, log_level::info, log_level::warning, log_level::error, log_level::off})
    EXPECT_EQ(tern::log_level_from(tern::name_of(level)), level);
  EXPECT_EQ(tern::name_of(static_cast<log_level>(17)), "unknown");
  try {
    tern::log_level_from("loud");
    FAIL();
  } catch (const tern::error& e) {
    EXPECT_EQ(e.code(), tern::errc::invalid_argument);
    EXPECT_THAT(e.what(), HasSubstr("\"loud\" is no log level; use trace, debug, info, warning, error or off"));
  }
}

TEST_F(log, leaves_errno_alone) {
  errno = ENOENT;
  captured([] { tern::log_info("x"); });
  const std::string text = captured([] {
    errno = ENOENT;
    tern::log_info("x");
    EXPECT_EQ(errno, ENOENT);
  });
}

TEST_F(log, lines_of_many_threads_stay_whole) {
  const std::string text = captured([] {
    std::vector<std::thread> threads;
    for (int t = 0; t < 8; ++t)
      threads.emplace_back([t] {
        for (int i = 0; i < 200; ++i) tern::log_info(std::string(200, static_cast<char>('a' + t)));
      });
    for (auto& thread : threads) thread.join();
  });
  std::istringstream lines(text);
  int count = 0;
  for (std::string line; std::getline(lines, line); ++count) {
    const std::string body = line.substr(line.find("] ") + 2);
    ASSERT_EQ(body, std::string(200, body[0])) << line;
  }
  EXPECT_EQ(count, 1600);
}

} // namespace
