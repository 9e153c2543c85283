// SPDX-License-Identifier: Apache-2.0
/// \file
/// Objects in traces and statistics: which object was invoked, which moved where, and what became
/// of all messages.
#include "traced_job.hpp"

#include <algorithm>
#include <cstdio>
#include <sstream>
#include <string>
#include <vector>

namespace {

using namespace trace_test;
using tern::test::count;

class moving : public traced {
protected:
  void SetUp() override {
    traced::SetUp();
    program = TRACE_MOVING;
  }
};
INSTANTIATE_TEST_SUITE_P(with, moving, testing::Values("inproc", "openmpi", "mpich", "sim"),
                         [](const auto& chosen) { return chosen.param; });

std::vector<std::string> lines_with(const std::string& text, const strings& parts) {
  std::vector<std::string> found;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);)
    if (std::all_of(parts.begin(), parts.end(), [&](const std::string& p) { return has(line, p); }))
      found.push_back(line);
  return found;
}

/// The number that stands before a word in a text; -1: none.
long number_before(const std::string& text, const std::string& word) {
  const auto at = text.find(word);
  if (at == std::string::npos || at == 0) return -1;
  const auto digits = text.find_last_not_of("0123456789", at - 1);
  return at - 1 == digits ? -1 : std::stol(text.substr(digits + 1, at - 1 - digits));
}

constexpr int ranks = 3;
// Each walker visits all ranks and one more, each ship one.
constexpr int moves_of_walkers = ranks * (ranks + 1), moves_of_ships = ranks;

TEST_P(moving, a_trace_names_objects_and_their_moves) {
  const finished end = job(ranks, {"--tern-trace", file});
  ASSERT_EQ(end.code, 0) << end.all();
  expect_whole(file); // each arrow has both ends, also of what was forwarded
  const std::string text = contents(file);

  for (int rank = 0; rank < ranks; ++rank) {
    const std::string home = "#" + std::to_string(rank) + ":";
    // The invoked object, in each slice of the invocation.
    EXPECT_EQ(lines_with(text, {R"("name":"walker::count")", R"("object":"walker)" + home}).size(), 2U);
    EXPECT_EQ(lines_with(text, {R"("name":"walker::greet")", R"("object":"walker)" + home}).size(),
              static_cast<std::size_t>(2 * ranks));
    const std::string ship = R"("object":"HMS )" + std::to_string(rank) + " (ship" + home;
    EXPECT_EQ(lines_with(text, {R"("name":"ship::sail")", ship}).size(), 1U);
    // The object that moves: where from, where to, how large.
    const std::string from = R"("from":)" + std::to_string(rank), to = R"("to":)" + std::to_string((rank + 1) % ranks);
    const auto sailed = lines_with(text, {R"("cat":"migration")", R"("name":"migration")", ship, from, to});
    ASSERT_EQ(sailed.size(), 1U);
    EXPECT_GT(number_before(sailed[0], "}}"), 8) << sailed[0]; // bytes, the last argument
  }
  // What it was published as stands before class and number.
  EXPECT_EQ(lines_with(text, {R"("name":"buoy::ring")", R"("object":"north (buoy#0:)"}).size(),
            static_cast<std::size_t>(ranks));
  EXPECT_EQ(count(text, R"("cat":"migration")"), moves_of_walkers + moves_of_ships);
  EXPECT_EQ(lines_with(text, {R"("ph":"i")", R"("cat":"forwarded")", R"("object":"walker#)"}).empty(), false);

  const auto told = lines_with(end.err, {"trace " + file + ": "});
  ASSERT_EQ(told.size(), 1U) << end.all();
  const long sent = number_before(told[0], " messages sent, "), handled = number_before(told[0], " handled"),
             forwarded = number_before(told[0], " forwarded to objects that were elsewhere");
  EXPECT_GT(forwarded, 0) << told[0];
  EXPECT_EQ(sent, handled + forwarded) << told[0];
  EXPECT_EQ(count(text, R"("ph":"s")"), sent);
  EXPECT_EQ(count(text, R"("name":"forwarded")"), forwarded);
  EXPECT_TRUE(has(end.err, "moved: walker " + std::to_string(moves_of_walkers) + " times (")) << end.all();
  EXPECT_TRUE(has(end.err, ", ship " + std::to_string(moves_of_ships) + " times (")) << end.all();
}

TEST_P(moving, statistics_count_objects_by_class_and_all_messages) {
  const finished end = job(ranks, {"--tern-stats"});
  ASSERT_EQ(end.code, 0) << end.all();
  const auto messages = lines_with(end.err, {"messages: "});
  ASSERT_EQ(messages.size(), 1U) << end.all();
  const long sent = number_before(messages[0], " sent = "), handled = number_before(messages[0], " handled"),
             forwarded = number_before(messages[0], " forwarded"),
             collectives = number_before(messages[0], " of collective operations");
  EXPECT_GT(forwarded, 0) << messages[0];
  EXPECT_GT(collectives, 0) << messages[0];
  EXPECT_EQ(sent, handled + forwarded + collectives) << messages[0];

  // The table of ranks counts the same messages.
  long of_ranks = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    const std::string before = "\n   " + std::to_string(rank) + "  ";
    ASSERT_EQ(count(end.err, before), 1) << end.all();
    of_ranks += std::stol(end.err.substr(end.err.find(before) + before.size()));
  }
  EXPECT_EQ(of_ranks, sent) << end.all();

  const auto values = [&](const std::string& type) {
    const auto rows = lines_with(end.err, {type + " "});
    std::vector<double> found;
    if (rows.size() != 1 || !rows[0].starts_with(type)) return found;
    std::istringstream cells(rows[0].substr(type.size()));
    for (double x = 0; cells >> x;) found.push_back(x);
    return found;
  };
  EXPECT_EQ(
      lines_with(end.err, {"class of objects", "created", "living", "arrived", "left", "MiB", "invocations"}).size(),
      1U)
      << end.all();
  // Made, living, arrived, left, MiB, invocations: two greetings by each rank, and the question how
  // many.
  const auto walkers = values("walker"), ships = values("ship");
  ASSERT_EQ(walkers.size(), 6U) << end.all();
  ASSERT_EQ(ships.size(), 6U) << end.all();
  EXPECT_EQ(walkers[0], ranks) << end.all();
  EXPECT_EQ(walkers[1], ranks) << end.all();
  EXPECT_EQ(walkers[2], moves_of_walkers) << end.all();
  EXPECT_EQ(walkers[3], moves_of_walkers) << end.all();
  EXPECT_EQ(walkers[5], ranks * (2 * ranks + 1)) << end.all();
  EXPECT_EQ(ships[2], moves_of_ships) << end.all();
  EXPECT_EQ(ships[5], ranks) << end.all();
}

} // namespace
