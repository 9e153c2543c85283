// SPDX-License-Identifier: Apache-2.0
#include <tern/net/job/start_mark.hpp>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include <unistd.h>

#include <gtest/gtest.h>

#include <tern/base/options.hpp>

namespace tern::net::detail {
namespace {

struct start_mark : ::testing::Test {
  const std::string path = std::filesystem::temp_directory_path() / ("tern-start-mark-" + std::to_string(getpid()));
  void SetUp() override { setenv(start_file_variable, path.c_str(), 1); }
  void TearDown() override {
    unsetenv(start_file_variable);
    std::filesystem::remove(path);
  }
  void write(std::string_view text) const { std::ofstream(path) << text; }
  std::string text() const {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), {}};
  }
};

TEST_F(start_mark, a_process_appends_itself) {
  write(start_file_head);
  mark_start(3);
  mark_start(4); // a program may run several jobs
  const std::string me = std::to_string(getpid());
  EXPECT_EQ(text(), std::string(start_file_head) + "3 " + me + "\n4 " + me + "\n");
  EXPECT_TRUE(options::unknown_environment().empty()); // it is declared
}

TEST_F(start_mark, nothing_else_is_written) {
  mark_start(0);
  EXPECT_FALSE(std::filesystem::exists(path));
  for (const std::string other : {"", "somebody's data\n", "tern"}) {
    write(other);
    mark_start(0);
    EXPECT_EQ(text(), other);
  }
  setenv(start_file_variable, "", 1);
  mark_start(0);
  unsetenv(start_file_variable);
  mark_start(0);
  EXPECT_EQ(text(), "tern");
}

} // namespace
} // namespace tern::net::detail
