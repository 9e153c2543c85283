// SPDX-License-Identifier: Apache-2.0
// Which rank makes which block, and what the command line says of them.
#include "apps/jacobi3d/job/plan.hpp"
#include "apps/jacobi3d/job/settings.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <tern/base/error.hpp>

using namespace jacobi3d;

namespace {

std::vector<int> counts(const tern::extents<3>& blocks, int ranks) {
  std::vector<int> of(static_cast<std::size_t>(ranks));
  for (std::int64_t z = 0; z < blocks[0]; ++z)
    for (std::int64_t y = 0; y < blocks[1]; ++y)
      for (std::int64_t x = 0; x < blocks[2]; ++x) {
        const int rank = rank_of_block({z, y, x}, blocks, ranks);
        EXPECT_GE(rank, 0);
        EXPECT_LT(rank, ranks);
        ++of.at(static_cast<std::size_t>(rank));
      }
  return of;
}

settings parsed(std::vector<const char*> words) {
  words.insert(words.begin(), "jacobi3d");
  return parse_command_line(static_cast<int>(words.size()), words.data()).wanted;
}

} // namespace

TEST(mapping, gives_each_rank_a_box) {
  EXPECT_EQ(counts({4, 4, 4}, 8), std::vector<int>(8, 8));
  // 2 x 2 x 2 blocks each: the first rank's are those near the first corner.
  for (std::int64_t z = 0; z < 4; ++z)
    for (std::int64_t y = 0; y < 4; ++y)
      for (std::int64_t x = 0; x < 4; ++x)
        EXPECT_EQ(rank_of_block({z, y, x}, {4, 4, 4}, 8) == 0, z < 2 && y < 2 && x < 2);
}

// Along z, y, x. Both 2 x 2 x 1 and 1 x 2 x 2 blocks have the surface of 8 blocks' faces; in a cube
// of cells the second is a bar.
TEST(mapping, goes_by_the_grid_where_boxes_of_blocks_are_alike) {
  for (std::int64_t z = 0; z < 4; ++z)
    for (std::int64_t y = 0; y < 4; ++y)
      for (std::int64_t x = 0; x < 2; ++x)
        EXPECT_EQ(rank_of_block({z, y, x}, {4, 4, 2}, 8) == 0, z < 2 && y < 2 && x < 1);
}

TEST(mapping, cuts_planes_where_all_cuts_are_alike) {
  EXPECT_EQ(rank_of_block({0, 1, 1}, {2, 2, 2}, 2), 0);
  EXPECT_EQ(rank_of_block({1, 0, 0}, {2, 2, 2}, 2), 1);
}

TEST(mapping, spreads_what_no_boxes_divide) {
  const auto of = counts({3, 5, 1}, 4);
  EXPECT_EQ(*std::min_element(of.begin(), of.end()), 3);
  EXPECT_EQ(*std::max_element(of.begin(), of.end()), 4);
  const auto few = counts({1, 1, 2}, 5); // more ranks than blocks
  EXPECT_EQ(std::count(few.begin(), few.end(), 1), 2);
}

TEST(numbers, one_is_for_all_three) {
  const auto s = parsed({"--n", "24", "--blocks", "2,3,4"});
  EXPECT_EQ(s.n, (cells{24, 24, 24}));
  EXPECT_EQ(s.blocks, (cells{2, 3, 4}));
  EXPECT_EQ(s.make_plan().block_size(), (cells{12, 8, 6}));
}

TEST(numbers, limit_what_is_done_before_the_norm_is_known) {
  EXPECT_EQ(parsed({"--iterations", "100"}).make_plan().first_limit(), 100);
  EXPECT_EQ(parsed({"--iterations", "100", "--tolerance", "1e-3"}).make_plan().first_limit(), 20);
  EXPECT_EQ(parsed({"--iterations", "15", "--tolerance", "1e-3"}).make_plan().first_limit(), 15);
}

TEST(numbers, of_blocks_that_are_too_large_are_refused) {
  try {
    static_cast<void>(parsed({"--n", "2048", "--blocks", "1"}));
    FAIL() << "a block of 2^33 cells";
  } catch (const tern::error& e) {
    EXPECT_EQ(e.code(), tern::errc::invalid_argument);
    EXPECT_NE(e.message().find("a block of 2048,2048,2048 cells is too large"), std::string::npos) << e.message();
  }
}

TEST(devices, are_those_of_on) {
  const auto line = [](std::vector<std::string> words) {
    std::vector<char*> pointers;
    for (std::string& w : words) pointers.push_back(w.data());
    device_line made(static_cast<int>(pointers.size()), pointers.data());
    std::string all;
    for (int i = 1; i < made.count(); ++i) all += std::string(i > 1 ? " " : "") + made.words()[i];
    return all;
  };
  EXPECT_EQ(line({"jacobi3d"}), "--tern-hetero-devices=host --tern-hetero-fma=false");
  EXPECT_EQ(line({"jacobi3d", "--on", "opencl"}), "--on opencl --tern-hetero-devices=opencl --tern-hetero-fma=false");
  EXPECT_EQ(line({"jacobi3d", "--on=fake", "--tern-hetero-simulated=2"}),
            "--on=fake --tern-hetero-simulated=2 --tern-hetero-devices=simulated --tern-hetero-fma=false");
  EXPECT_EQ(line({"jacobi3d", "--on", "nowhere"}), "--on nowhere --tern-hetero-fma=false"); // refused by the parser
}
