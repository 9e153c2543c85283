// SPDX-License-Identifier: Apache-2.0
// Copies straight from one CUDA device to another, with the mock driver.
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/hetero/support/cuda.hpp"
#include "tests/hetero/support/graph_kernels.hpp"
#include "tests/hetero/support/tasks.hpp"

namespace tern::hetero {
namespace {

using object = hetero_object<unsigned, 3>;
using testing::HasSubstr;

machine with_cuda(const std::string& without = {}) {
  return {.devices = "host,cuda", .cuda = true, .without = without};
}

// On each slice of the part by itself: the kernel knows rows only.
void add_to(const hetero_object<unsigned, 2>& o, const char* device) {
  hetero_task t(graph_kernels::add, items(o.extent(1), o.extent(0)), static_cast<int>(o.extent(1)),
                static_cast<int>(o.extent(0)), 1u, pitch(o), read_write(o));
  t.on(device).submit();
}

TEST(cuda_peers, copy_without_the_host) {
  const mock_cuda driver("devices=3");
  on(with_cuda(), [] {
    hetero_object<unsigned, 2> o({30, 40}, 1u);
    for (int i = 0; i < 9; ++i) add_to(o, i % 3 == 0 ? "cuda0" : i % 3 == 1 ? "cuda1" : "cuda2");
    wait_all();
    EXPECT_EQ(count().copies_to_devices, 1u);
    EXPECT_EQ(count().copies_from_devices, 0u);
    EXPECT_EQ(count().copies_between_devices, 8u);
    EXPECT_EQ(count().bytes_between_devices, 8u * 30 * 40 * 4);
    EXPECT_EQ(o.host(access_mode::read).get()(2, 5), 1u + 9u * (5 + 3 * 2 + 1));
  });
  EXPECT_EQ(mock_cuda::counters().copies_between, 8u);
}

// As ranks of one machine would be: each has its own, with all of its memory.
TEST(cuda_peers, ranks_have_devices_of_their_own) {
  const mock_cuda driver("devices=3");
  for (int rank = 0; rank < 2; ++rank) {
    options opts = cuda_options();
    opts.set(hetero_devices, "host,cuda");
    opts.set(hetero_own, std::to_string(rank) + "/2");
    std::vector<device_note> notes;
    std::string ids, said;
    for (const device_info& i : devices(opts, &notes)) ids += i.id + " ";
    for (const device_note& n : notes) said += n.text + "\n";
    EXPECT_EQ(ids, rank == 0 ? "host cuda0 cuda2 " : "host cuda1 ");
    EXPECT_THAT(said, HasSubstr(rank == 0 ? "the CUDA device cuda1 is another rank's (hetero-own)\n"
                                          : "the CUDA device cuda2 is another rank's (hetero-own)\n"));
    scheduler s({.workers = 2, .opts = &opts});
    EXPECT_EQ(s.run([&] {
      hetero_object<unsigned, 2> o({30, 40}, 1u);
      for (int i = 0; i < 4; ++i) add_to(o, rank == 0 ? (i % 2 ? "cuda2" : "cuda0") : "cuda1");
      wait_all();
      EXPECT_EQ(o.host(access_mode::read).get()(2, 5), 1u + 4u * (5 + 3 * 2 + 1));
      EXPECT_THAT(text_of_error([&] { add_to(o, rank == 0 ? "cuda1" : "cuda0"); }), HasSubstr("cuda"));
    }),
              0u);
  }
  options opts = cuda_options();
  opts.set(hetero_devices, "host,cuda");
  opts.set(hetero_own, "1/4");
  std::vector<device_note> notes;
  EXPECT_EQ(devices(opts, &notes).size(), 4u) << "the host and all three";
  std::string said;
  for (const device_note& n : notes) said += n.text + "\n";
  EXPECT_THAT(said, HasSubstr("hetero-own: 4 ranks share 3 CUDA devices, as there is not one for each\n"));
}

TEST(cuda_peers, where_they_cannot_the_host_helps) {
  for (const std::string how : {"no-peers", ""}) {
    const mock_cuda driver("devices=2" + std::string(how.empty() ? ",no-peers" : ""));
    on(with_cuda(how), [] {
      hetero_object<unsigned, 2> o({30, 40}, 1u);
      for (int i = 0; i < 4; ++i) add_to(o, i % 2 ? "cuda1" : "cuda0");
      wait_all();
      EXPECT_EQ(count().copies_between_devices, 0u);
      EXPECT_EQ(count().copies_to_devices, 4u);
      EXPECT_EQ(o.host(access_mode::read).get()(2, 5), 1u + 4u * (5 + 3 * 2 + 1));
    });
    EXPECT_EQ(mock_cuda::counters().copies_between, 0u);
  }
}

TEST(cuda_peers, parts_of_all_shapes) {
  const mock_cuda driver("devices=2");
  on(with_cuda(), [] {
    for (const int n : {1, 3}) {
      object o({5, 6, 7}, 2u);
      const auto part = o.part({1, 2, 1}, {1 + n, 5, 6});
      o.prefetch("cuda0");
      o.host(access_mode::read_write).get()(2, 3, 4) = 99; // and the host is right alone
      o.prefetch("cuda0");
      wait_all();
      part.prefetch("cuda1"); // into a copy of its own
      wait_all();
      o.drop("cuda0");
      const auto now = part.host(access_mode::read).get();
      for (int z = 0; z < n; ++z)
        for (int y = 0; y < 3; ++y)
          for (int x = 0; x < 5; ++x) EXPECT_EQ(now(z, y, x), z == 1 && y == 1 && x == 3 ? 99u : 2u);
    }
  });
  EXPECT_GE(mock_cuda::counters().copies_between, 2u);
}

TEST(cuda_peers, a_source_that_is_lost_says_so) {
  const mock_cuda driver("devices=2,fault-kernel=1");
  on(with_cuda("no-ahead"), [] {
    hetero_object<unsigned, 2> o({30, 40}, 1u);
    add_to(o, "cuda0");
    add_to(o, "cuda1");
    EXPECT_THAT(text_of_error([&] { wait_all(); }), HasSubstr("ILLEGAL_ADDRESS"));
    hetero_object<unsigned, 2> other({30, 40}, 1u);
    add_to(other, "cuda1");
    EXPECT_EQ(other.host(access_mode::read).get()(0, 0), 2u);
  });
}

// A copy that is queued behind what breaks the source's context breaks the one that it is in.
TEST(cuda_peers, a_source_that_is_lost_takes_with_it_what_copies_behind_it) {
  const mock_cuda driver("devices=2,fault-kernel=1,delay=100us");
  on(with_cuda(), [] {
    hetero_object<unsigned, 2> o({30, 40}, 1u), other({30, 40}, 1u);
    add_to(o, "cuda0");
    add_to(o, "cuda1");
    EXPECT_THAT(text_of_error([&] { wait_all(); }), HasSubstr("ILLEGAL_ADDRESS"));
    add_to(other, "cuda1");
    const std::string text = text_of_error([&] { EXPECT_EQ(other.host(access_mode::read).get()(0, 0), 2u); });
    EXPECT_THAT(text, testing::AnyOf("nothing was thrown", HasSubstr("cuda1 (lost)")));
  });
}

} // namespace
} // namespace tern::hetero
