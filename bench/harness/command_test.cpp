// SPDX-License-Identifier: Apache-2.0
#include "bench/harness/command.hpp"

#include <filesystem>

#include <unistd.h>

#include <gtest/gtest.h>

using namespace tern::bench;

TEST(command, output_json_and_failures) {
  EXPECT_EQ(run_command({"/bin/sh", "-c", "echo $X"}, {{"X", "7"}}).output, "7\n");
  EXPECT_GT(run_command({"/bin/true"}).peak_mib, 0);
  EXPECT_EQ(run_for_json({"/bin/sh", "-c", "echo hello; echo '{\"a\": 3}'; echo done"})["a"], 3);
  EXPECT_THROW(run_for_json({"/bin/sh", "-c", "echo none"}), std::runtime_error);
  EXPECT_THROW(run_command({"./no-such-program"}), absent);
  EXPECT_THROW(run_command({}), std::invalid_argument);
  try {
    run_command({"/bin/sh", "-c", "echo broken >&2; exit 3"});
    FAIL();
  } catch (const std::runtime_error& e) {
    EXPECT_NE(std::string(e.what()).find("exit code 3: broken"), std::string::npos) << e.what();
  }
  EXPECT_THROW(run_command({"/bin/sh", "-c", "kill -9 $$"}), std::runtime_error);
  const std::string file =
      std::filesystem::temp_directory_path() / ("tern-harness-" + std::to_string(getpid()) + ".json");
  EXPECT_EQ(run_for_json({"/bin/sh", "-c", "echo '{\"b\": 4}' > " + file}, file)["b"], 4);
  EXPECT_THROW(run_for_json({"/bin/true"}, file), std::runtime_error); // the old file does not count
}
