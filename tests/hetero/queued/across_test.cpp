// SPDX-License-Identifier: Apache-2.0
// Tasks are put behind tasks of another device, before these have ended.
#include <cstdint>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "child.hpp"
#include "tests/hetero/queued/machine.hpp"
#include "tests/hetero/support/cuda.hpp"

namespace tern::hetero {
namespace {

using queued::adding, queued::behind, queued::filling, queued::first_of, queued::machine_with, queued::made,
    queued::mixing, queued::simulate;
using queued::kernel_seconds, queued::notice_seconds;
using testing::HasSubstr;

constexpr const char* straight = ",peer-bandwidth=1T";
const char* const ways[] = {"", straight}; // by way of the host

std::string two(const std::string& more = {}, const std::string& latency = "0us") {
  return "2:latency=" + latency + ",bandwidth=0,launch=0us,item=39.0625ns,notice=20us" + more;
}
void send(hetero_task&& t, int device) { t.on("simulated" + std::to_string(device)).submit(); }

/// Seconds for each kernel of a chain that changes the device after each.
double seconds_each(int ahead, const std::string& way) {
  constexpr unsigned n = 100;
  double taken = 0;
  simulate(machine_with(ahead, two(way)), [&] {
    const queued::object x = made();
    send(adding(x), 0);
    wait_all();
    const std::uint64_t before = behind();
    const double begin = queued::now();
    for (unsigned i = 1; i < n; ++i) send(adding(x), static_cast<int>(i % 2));
    wait_all();
    taken = queued::now() - begin;
    EXPECT_EQ(behind() - before, ahead == 0 ? 0u : n - 2);
    EXPECT_EQ(first_of(x), n);
  });
  return taken / n;
}

TEST(across, chains_wait_for_no_end) {
  for (const std::string way : ways) {
    SCOPED_TRACE(way);
    EXPECT_LT(seconds_each(64, way), 1.1 * kernel_seconds);
    EXPECT_LT(seconds_each(4, way), kernel_seconds + 0.5 * notice_seconds);
    EXPECT_GT(seconds_each(0, way), kernel_seconds + 1.9 * notice_seconds);
  }
}

// Readers on one device of what the other one writes, which goes on when they have read.
TEST(across, writers_come_behind_readers) {
  for (const std::string way : ways)
    for (std::uint64_t seed = 1; seed <= 20; ++seed)
      simulate(
          machine_with(64, two(way + ",waits=1us", "3us")),
          [] {
            const queued::object x = made(), y = made(), z = made();
            unsigned a = 0, b = 0, c = 0;
            for (unsigned i = 0; i < 20; ++i) {
              send(adding(x), 0);
              send(mixing(x, y, i), 1);
              send(mixing(x, z, i + 1), 1);
              send(adding(x, 3), i % 3 == 0 ? 1 : 0);
              a += 1;
              b = graph_kernels::stir(b, a + i), c = graph_kernels::stir(c, a + i + 1);
              a += 3;
            }
            EXPECT_EQ(first_of(x), a);
            EXPECT_EQ(first_of(y), b);
            EXPECT_EQ(first_of(z), c);
            EXPECT_GT(behind(), 30u);
          },
          seed);
}

// What only had to come later than a failure is launched again, and what other devices have put
// behind it has not been done before.
TEST(across, what_follows_a_repeated_launch_is_done_once) {
  for (const std::string way : ways)
    simulate(machine_with(64, two(way + ",fail-kernel=2@0")), [] {
      const queued::object x = made(), y = made();
      send(adding(y, 5), 1);
      send(adding(x), 0);
      hetero_task bad = adding(x);
      bad.on("simulated0").submit();
      send(filling(x, 7), 0);
      send(mixing(x, y, 2), 1); // on what the second launch writes
      send(adding(y), 1);
      send(mixing(y, x, 3), 0);
      send(adding(x), 1);
      unsigned a = graph_kernels::stir(7, 0), b = graph_kernels::stir(5, a + 2) + 1;
      a = graph_kernels::stir(a, b + 3) + 1;
      EXPECT_EQ(first_of(x), a);
      EXPECT_EQ(first_of(y), b);
      EXPECT_THAT(text_of_error([&bad] { bad.wait(); }), HasSubstr("it was to: fail-kernel"));
      EXPECT_GE(behind(), 5u);
    });
}

TEST(across, failures_reach_what_needs_the_data_and_nothing_else) {
  for (const std::string way : ways)
    for (const int ahead : {0, 64})
      simulate(machine_with(ahead, two(way + ",fail-kernel=2@0")), [] {
        const queued::object x = made(), y = made(), z = made();
        send(adding(z, 4), 1);
        send(adding(x), 0);
        hetero_task bad = adding(x), reader = mixing(x, y), last = adding(y);
        bad.name("bad").on("simulated0").submit();
        reader.on("simulated1").submit();
        last.on("simulated0").submit();
        send(adding(z), 0);
        EXPECT_THAT(text_of_error([&] { bad.wait(); }), HasSubstr("it was to: fail-kernel"));
        EXPECT_THAT(text_of_error([&] { reader.wait(); }), HasSubstr("'bad'"));
        EXPECT_THAT(text_of_error([&] { last.wait(); }), HasSubstr("'bad'"));
        EXPECT_EQ(first_of(z), 5u);
        for (const queued::object& o : {x, y}) {
          send(filling(o, 3), 1);
          EXPECT_EQ(first_of(o), graph_kernels::stir(3, 0));
        }
      });
}

/// A chain over two devices of which something fails: what is there in the end is right, or an
/// error says why.
void expect_right_or_told(const std::string& words, const std::string& reason) {
  SCOPED_TRACE(words);
  simulate(machine_with(64, words), [&reason] {
    const queued::object x = made(), y = made();
    for (unsigned i = 0; i < 12; ++i) {
      send(adding(x), static_cast<int>(i % 2));
      send(mixing(x, y), static_cast<int>(i / 2 % 2));
    }
    unsigned a = 0, b = 0;
    for (unsigned i = 0; i < 12; ++i) b = graph_kernels::stir(b, ++a + 1);
    for (const auto& [o, value] : {std::pair(x, a), std::pair(y, b)}) {
      unsigned seen = 0;
      const std::string text = text_of_error([&o = o, &seen] { seen = first_of(o); });
      if (text == "nothing was thrown")
        EXPECT_EQ(seen, value);
      else
        EXPECT_THAT(text, HasSubstr(reason));
    }
    text_of_error([] { wait_all(); });
  });
}

TEST(across, what_fails_at_any_moment_says_so) {
  for (const std::string way : ways)
    for (int n = 1; n <= 30; ++n)
      for (const std::string device : {"@0", "@1"}) {
        const std::string at = std::to_string(n) + device;
        expect_right_or_told(two(way + ",fail-copy=" + at, "2us"), "it was to: fail-copy");
        expect_right_or_told(two(way + ",fail-kernel=" + at, "2us"), "it was to: fail-kernel");
        expect_right_or_told(two(way + ",fail-kernel=" + at + ",skip=false", "2us"), "lost");
        expect_right_or_told(two(way + ",lose=" + at, "2us"), "lost");
      }
}

TEST(across, memory_that_is_short_is_waited_for) {
  for (const std::string way : ways)
    for (const int objects : {2, 3, 5})
      simulate(machine_with(64, two(way + ",memory=2k")), [objects] { // two of them
        std::vector<queued::object> all;
        for (int i = 0; i < objects; ++i) all.push_back(made());
        std::vector<unsigned> values(all.size());
        for (unsigned i = 0; i < 60; ++i) {
          const std::size_t a = i % all.size(), b = (i + 1) % all.size();
          send(mixing(all[a], all[b], i), static_cast<int>(i / 3 % 2));
          values[b] = graph_kernels::stir(values[b], values[a] + i);
        }
        for (std::size_t i = 0; i < all.size(); ++i) EXPECT_EQ(first_of(all[i]), values[i]);
      });
}

TEST(across, cancelled_ones_do_not_run) {
  for (const std::string way : ways)
    simulate(machine_with(64, two(way)), [] {
      const queued::object x = made(), y = made();
      send(adding(y, 9), 1);
      wait_all();
      send(adding(x), 0);
      hetero_task reader = mixing(x, y);
      reader.on("simulated1").submit();
      const bool cancelled = reader.cancel();
      EXPECT_TRUE(cancelled);
      EXPECT_THAT(text_of_error([&] { reader.wait(); }), HasSubstr("cancelled"));
      send(filling(y, 2), 0);
      EXPECT_EQ(first_of(y), graph_kernels::stir(2, 0));
      EXPECT_EQ(first_of(x), 1u);
    });
}

TEST(across, on_cuda_streams_wait_for_events_of_other_devices) {
  for (const std::string without : {"", "no-peers", "one-stream", "no-ahead", "no-ahead,no-peers"})
    for (const bool threads : {false, true}) {
      SCOPED_TRACE(without);
      const mock_cuda driver("devices=2,delay=200us");
      options opts = cuda_options("", without);
      opts.set(hetero_devices, "cuda");
      opts.set(hetero_threads, threads);
      scheduler s({.workers = 2, .opts = &opts});
      EXPECT_EQ(s.run([&] {
        {
          const queued::object x = made();
          for (unsigned i = 0; i < 40; ++i) adding(x).on("cuda" + std::to_string(i % 2)).submit();
          wait_all();
          EXPECT_EQ(first_of(x), 40u);
          EXPECT_EQ(behind() > 10, without.find("no-ahead") == std::string::npos) << behind();
        }
        expect_nothing_left();
      }),
                0u);
    }
}

} // namespace
} // namespace tern::hetero
