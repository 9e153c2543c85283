// SPDX-License-Identifier: Apache-2.0
#include <tern/net/failure/process_state.hpp>

#include <csignal>
#include <string>

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

namespace tern::net::detail {
namespace {

/// The fields of a process called "a) b" that was started at 777.
std::string stat_text(char state, int threads, const std::string& status) {
  std::string text = "12 (a) b) ";
  text += state;
  for (int field = 4; field <= 52; ++field)
    text += " " + (field == 20 ? std::to_string(threads) : field == 22 ? "777" : field == 52 ? status : "5");
  return text + "\n";
}

TEST(process, states_are_read) {
  const process_name who{12, 777};
  const auto sign = [&](char state, int threads = 1, const std::string& status = "0", bool traced = false) {
    return state_of_text(stat_text(state, threads, status), who, traced).sign;
  };
  for (const char running : {'R', 'S', 'D', 'I', 'P', 'W'}) EXPECT_EQ(sign(running), process_sign::runs) << running;
  EXPECT_EQ(sign('T'), process_sign::stopped);
  EXPECT_EQ(sign('t', 1, "0", true), process_sign::traced);
  EXPECT_EQ(sign('T', 1, "0", true), process_sign::traced);
  EXPECT_EQ(sign('Z', 3), process_sign::runs) << "its first thread has ended, others go on";
  EXPECT_EQ(sign('Z', 1, "9"), process_sign::killed);
  EXPECT_EQ(sign('X', 1, "11"), process_sign::killed);
  EXPECT_EQ(sign('Z', 1, "139"), process_sign::killed) << "with a core dump";
  EXPECT_EQ(sign('Z', 1, "768"), process_sign::left);
  EXPECT_EQ(sign('Z', 1, "15"), process_sign::left) << "it was asked to";
  EXPECT_EQ(state_of_text(stat_text('R', 1, "0"), {12, 778}, false).sign, process_sign::left) << "another process";
  for (const char* none : {"", "12 (x", "12 (x) R 1 2 3"})
    EXPECT_EQ(state_of_text(none, who, false).sign, process_sign::left) << none;
}

TEST(process, ends_have_words) {
  EXPECT_EQ(words_for_end(process_state::no_status), "has gone");
  EXPECT_EQ(words_for_end(9), "was killed by SIGKILL");
  EXPECT_EQ(words_for_end(139), "was killed by SIGSEGV");
  EXPECT_EQ(code_for_end(9), 128 + 9);
  EXPECT_EQ(code_for_end(139), 128 + 11); // with a core file
  EXPECT_EQ(code_for_end(0x300), 1);
  EXPECT_EQ(code_for_end(process_state::no_status), 1);
  EXPECT_EQ(words_for_end(3 << 8), "has ended with exit code 3");
}

TEST(process, this_one_runs) {
  const process_name me = this_process();
  EXPECT_EQ(me.number, getpid());
  EXPECT_GT(me.started, 0u);
  EXPECT_EQ(state_of(me).sign, process_sign::runs);
  EXPECT_NE(process_space(), 0u);
}

TEST(process, a_child_is_stopped_goes_on_and_is_killed) {
  // Its name is told by itself, as ranks do.
  int told[2];
  ASSERT_EQ(pipe(told), 0);
  const int child = fork();
  if (child == 0) {
    const process_name me = this_process();
    if (write(told[1], &me, sizeof me) != sizeof me) _exit(1);
    for (;;) pause();
  }
  process_name who;
  ASSERT_EQ(read(told[0], &who, sizeof who), static_cast<ssize_t>(sizeof who));
  close(told[0]);
  close(told[1]);
  EXPECT_EQ(who.number, child);
  EXPECT_EQ(state_of(who).sign, process_sign::runs);
  int status = 0;
  kill(child, SIGSTOP);
  ASSERT_EQ(waitpid(child, &status, WUNTRACED), child); // it is stopped now
  EXPECT_EQ(state_of(who).sign, process_sign::stopped);
  kill(child, SIGCONT);
  ASSERT_EQ(waitpid(child, &status, WCONTINUED), child);
  EXPECT_EQ(state_of(who).sign, process_sign::runs);

  const int end = watch_end_of(who);
  pollfd wait{end, POLLIN, 0};
  EXPECT_TRUE(end < 0 || poll(&wait, 1, 0) == 0);
  kill_process({who.number, who.started + 1}); // another one
  EXPECT_EQ(state_of(who).sign, process_sign::runs);
  kill_process(who);
  siginfo_t info{};
  ASSERT_EQ(waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT), 0); // it stays a zombie
  const auto zombie = state_of(who);
  EXPECT_EQ(zombie.sign, process_sign::killed);
  EXPECT_EQ(zombie.status, SIGKILL);
  EXPECT_TRUE(end < 0 || poll(&wait, 1, 1000) == 1);
  ASSERT_EQ(waitpid(child, &status, 0), child);
  const auto gone = state_of(who);
  EXPECT_EQ(gone.sign, process_sign::left);
  EXPECT_EQ(gone.status, process_state::no_status);
  EXPECT_EQ(watch_end_of(who), -1);
  if (end >= 0) close(end);
}

} // namespace
} // namespace tern::net::detail
