// SPDX-License-Identifier: Apache-2.0
#include "bench/harness/runner.hpp"

#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <sys/stat.h>
#include <unistd.h>

#include <gtest/gtest.h>

using namespace tern::bench;
using namespace tern::bench::contest;

namespace {

/// Shell scripts that answer as contestants do.
class scripts {
public:
  scripts() {
    std::string name = (std::filesystem::temp_directory_path() / "tern-runner-XXXXXX").string();
    if (!mkdtemp(name.data())) throw std::runtime_error("no temporary folder");
    folder_ = name;
    add("tern", "echo ready; while read x; do echo 0.25; done");
    add("fast", "echo ready; while read x; do echo 0.5; done");
    add("slow", "echo ready; while read x; do echo 2; done");
    add("wrong", "echo ready; read x; echo error element 3 is 7");
    add("lacks", "echo absent a GPU");
    add("dies", "echo ready; read x; kill -9 $$");
    add("fails", "exit 3");
    add("told", "[ \"$SETTING\" = 7 ] && [ -z \"$OMP_NUM_THREADS\" ] && [ \"$*\" = 'fib 2 35' ] || exit 3\n"
                "echo ready; while read x; do echo 1; done");
    all.back().setting = "SETTING=7";
    all.push_back({"not built", "", "libomp-19-dev", ""});
  }
  ~scripts() { std::filesystem::remove_all(folder_); }
  scripts(const scripts&) = delete;
  scripts& operator=(const scripts&) = delete;

  std::vector<contestant> all;

private:
  void add(const std::string& name, const std::string& text) {
    const std::string path = folder_ / name;
    std::ofstream(path) << "#!/bin/sh\n" << text << "\n";
    chmod(path.c_str(), 0755);
    all.push_back({name, path, "", ""});
  }
  std::filesystem::path folder_;
};

const contestant& named(const std::string& name) {
  static const scripts made;
  for (const contestant& c : made.all)
    if (c.name == name) return c;
  throw std::invalid_argument(name);
}

std::string what_of(const std::string& contestant) {
  try {
    runners(named).run("a", {contestant, "fib", 2, 35});
  } catch (const absent& e) {
    return std::string("absent: ") + e.what();
  } catch (const std::runtime_error& e) {
    return e.what();
  }
  return "none";
}

class a_runner : public testing::Test {
protected:
  a_runner() { std::signal(SIGPIPE, SIG_IGN); }
};

} // namespace

TEST_F(a_runner, gives_what_a_contestant_answers) {
  runners running(named);
  EXPECT_EQ(running.run("a", {"fast", "fib", 2, 35}), 0.5);
  EXPECT_EQ(running.run("a", {"fast", "fib", 2, 35}), 0.5);
  EXPECT_EQ(running.run_afresh({"slow", "fib", 2, 35}), 2);
  setenv("OMP_NUM_THREADS", "3", 1); // is not meant for a comparison
  EXPECT_EQ(running.run("b", {"told", "fib", 2, 35}), 1);
  unsetenv("OMP_NUM_THREADS");
}

TEST_F(a_runner, tells_what_went_wrong) {
  const std::string of = ", fib, 2 workers, size 35: ";
  EXPECT_EQ(what_of("wrong"), "wrong" + of + "error element 3 is 7");
  EXPECT_EQ(what_of("lacks"), "absent: a GPU");
  EXPECT_EQ(what_of("dies"), "dies" + of + "it ended without an answer, by signal 9");
  EXPECT_EQ(what_of("fails"), "fails" + of + "it ended without an answer, with code 3");
  EXPECT_EQ(what_of("not built"), "absent: not built is not there: install libomp-19-dev and configure again");
}

TEST_F(a_runner, compares_with_the_fastest_that_is_there_and_names_the_others) {
  runners running(named);
  const auto against = [&](std::vector<rival> rivals) {
    return compare(running, {"a.fib", 0.5, "fib", 2, 35, std::move(rivals)});
  };
  const metric some = against({{"slow", ""}, {"not built", ""}, {"fast", "fib_other"}});
  EXPECT_EQ(some.rival_name, "faster of slow, fast fib_other");
  EXPECT_EQ(some.missing, std::vector<std::string>{"not built"});
  EXPECT_EQ(some.ours(), 250);
  EXPECT_EQ(some.rival(), 500);
  const metric none = against({{"not built", ""}});
  EXPECT_TRUE(none.missing.empty());
  EXPECT_THROW(none.rival(), absent);
  EXPECT_TRUE(against({{"slow", ""}}).missing.empty());
  // A wrong result of the slower one is a failure too.
  EXPECT_THROW(against({{"wrong", ""}, {"fast", ""}}).rival(), std::runtime_error);
}
