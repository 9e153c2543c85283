// SPDX-License-Identifier: Apache-2.0
/// \file
/// What records become.
#include "tests/trace/support/parts.hpp"

#include <bit>
#include <cmath>
#include <cstdlib>

#include <tern/trace/record/events.hpp>

using namespace tern::trace;
using namespace tern::trace::test;

namespace {

double time_of(const std::string& line) { return std::stod(line.substr(line.find("\"ts\":") + 5)); }

// Rank 1's clock is 5 s behind at its start and 2 ms more 10 s later; its counter runs at 3 GHz.
TEST(clocks, are_aligned_with_offset_and_drift) {
  const temporary in;
  constexpr std::int64_t second = 1'000'000'000;
  for (int rank = 0; rank < 2; ++rank) {
    made_part p(2, rank);
    part_header& h = p.header();
    h.clock = clock_kind::counter;
    h.counts_per_ns = 2.9; // a bad first measurement
    const double speed = rank == 0 ? 2.0 : 3.0;
    const std::int64_t begin = rank == 0 ? 100 * second : 95 * second;
    if (rank == 0) h.counts_per_ns = 2.01;
    h.begin = {1'000'000, begin};
    h.which_latest = 1;
    h.latest[1] = {1'000'000 + static_cast<std::uint64_t>(speed * 10e9), begin + 10 * second};
    if (rank == 1) {
      h.offsets = 2;
      h.offset[0] = {begin, 5 * second};
      h.offset[1] = {begin + 10 * second, 5 * second + 2'000'000};
    }
    const auto name = p.name("tick " + std::to_string(rank));
    const auto track = p.track(rank, 0);
    std::vector<record> records;
    for (int i = 0; i <= 10; ++i)
      records.push_back(make(event::happens, 1'000'000 + static_cast<std::uint64_t>(speed * 1e9 * i), track, name));
    p.ring(0, 0, records);
    p.save(in, "rank" + std::to_string(rank));
  }
  const auto s = merge(in.path, in / "t.json");
  EXPECT_TRUE(s.complete()) << s.text();
  check(in / "t.json", {"--complete"});
  const std::string text = contents(in / "t.json");
  const auto mine = lines_with(text, {"tick 0"}), other = lines_with(text, {"tick 1"});
  ASSERT_EQ(mine.size(), 11u);
  ASSERT_EQ(other.size(), 11u);
  for (std::size_t i = 0; i <= 10; ++i) {
    EXPECT_NEAR(time_of(mine[i]), 1e6 * static_cast<double>(i), 0.01);
    EXPECT_NEAR(time_of(other[i]), (1e6 + 200) * static_cast<double>(i), 0.01); // 200 µs more each second
  }
}

// A fiber with a region that moves to another worker while it waits; tasklets that are interrupted.
TEST(fibers, move_and_keep_their_regions) {
  const temporary in;
  made_part p;
  const auto main = p.name("main"), step = p.name("step"), inner = p.name("inner"), mutex = p.name("mutex"),
             runner = p.name("runner");
  const auto a = p.track(0, 0), b = p.track(0, 1);
  p.ring(0, 0,
         {make(event::fiber_enters, 1000, a, main, 12, 1), make(event::region_begins, 1100, a, step, 12),
          make(event::region_begins, 1200, a, inner, 12), make(event::fiber_waits, 2000, a, mutex, 12, 0xabc),
          make(event::fiber_enters, 2100, a, runner, 13, 1), make(event::tasklets_begin, 2200, a),
          make(event::fiber_yields, 2300, a, 0, 13), make(event::parks, 2400, a), make(event::wakes, 5000, a),
          make(event::fiber_enters, 5100, a, runner, 13), make(event::tasklets_end, 5200, a, 0, 7),
          make(event::fiber_ends, 5300, a, 0, 13)});
  p.ring(1, 0,
         {make(event::fiber_enters, 3000, b, main, 12), make(event::region_ends, 3100, b, inner, 12),
          make(event::region_ends, 3200, b, step, 12), make(event::region_ends, 3300, b, step, 12), // no such
          make(event::fiber_ends, 4000, b, 0, 12)});
  p.save(in, "a");
  const auto s = merge(in.path, in / "t.json");
  EXPECT_TRUE(s.complete()) << s.text();
  check(in / "t.json", {"--complete"});
  const std::string text = contents(in / "t.json");
  EXPECT_EQ(lines_with(text, {"\"name\":\"main\"", "\"tid\":1", "\"ts\":0,", "\"dur\":1,", "\"fiber\":12",
                              "\"waits for\":\"mutex\",\"on\":\"0xabc\""})
                .size(),
            1u)
      << text;
  EXPECT_EQ(lines_with(text, {"\"name\":\"main\"", "\"tid\":2", "\"ts\":2,", "\"left\":\"ended\""}).size(), 1u) << text;
  EXPECT_EQ(lines_with(text, {"\"ph\":\"b\"", "\"name\":\"step\"", "\"tid\":1"}).size(), 1u) << text;
  EXPECT_EQ(lines_with(text, {"\"ph\":\"e\"", "\"name\":\"step\"", "\"tid\":2"}).size(), 1u) << text;
  EXPECT_EQ(lines_with(text, {"\"ph\":\"X\"", "\"name\":\"tasklets\""}).size(), 2u) << text;
  EXPECT_EQ(lines_with(text, {"\"ph\":\"X\"", "\"name\":\"parked\"", "\"dur\":2.600"}).size(), 1u) << text;
}

TEST(messages, arrows_find_slices_that_take_no_time) {
  const temporary in;
  made_part p(2);
  const auto handler = p.name("handler");
  const auto a = p.track(0, 0), b = p.track(1, 0);
  p.ring(0, 0,
         {make(event::fiber_enters, 1000, a, handler, 1, 1), make(event::sends, 1500, a, 1, 1, handler),
          make(event::fiber_ends, 1500, a, 0, 1), make(event::handler_begins, 1500, b, 0, 1, handler),
          make(event::handler_ends, 1500, b), make(event::sends, 1500, b, 0, 1, handler),
          make(event::fiber_enters, 1500, a, handler, 2, 1), make(event::handler_begins, 1500, a, 1, 1, handler),
          make(event::fiber_ends, 1500, a, 0, 2)});
  p.save(in, "a");
  EXPECT_TRUE(merge(in.path, in / "t.json").complete());
  check(in / "t.json", {"--complete"});
}

// Numbers of messages have 24 bits on the way: the sender's records tell the others.
TEST(messages, numbers_that_wrap_find_their_senders) {
  const temporary in;
  made_part p(2);
  const auto handler = p.name("handler");
  const auto a = p.track(0, 0), b = p.track(1, 0);
  std::vector<record> sends, handles;
  constexpr std::uint64_t first = (std::uint64_t{1} << 25) - 50;
  for (std::uint64_t i = 0; i < 100; ++i) {
    sends.push_back(make(event::sends, 1000 * i, a, 1, first + i, 64 << 24 | handler));
    handles.push_back(make(event::arrives, 1000 * i + 20'000, b, 0, (first + i) & 0xffffff));
    handles.push_back(make(event::handler_begins, 1000 * i + 20'100, b, 0, (first + i) & 0xffffff, handler));
    handles.push_back(make(event::handler_ends, 1000 * i + 20'200, b));
  }
  p.ring(0, 0, sends);
  p.ring(1, 0, handles);
  p.save(in, "a");
  const auto s = merge(in.path, in / "t.json");
  EXPECT_EQ(s.sent, 100u);
  EXPECT_EQ(s.handled, 100u);
  EXPECT_TRUE(has(check(in / "t.json", {"--complete"}), "100 arrows,")) << s.text();
}

// An object is invoked in a fiber that waits, moves, and is invoked where it came; a message for it
// is forwarded.
TEST(objects, are_named_wherever_they_are) {
  const temporary in;
  constexpr std::uint64_t first = std::uint64_t{1} << object_bits | 7, second = 8; // of ranks 1 and 0
  for (int rank = 0; rank < 2; ++rank) { // a process each, with names of its own
    made_part p(2, rank);
    if (rank == 1) p.name("only here");
    const auto greet = p.name("greet"), migrate = p.name("migrate"), walker = p.name("walker"), sleep = p.name("sleep");
    const auto t = p.track(rank, 0);
    if (rank == 0) {
      const auto north = p.name("north \"pole\"");
      p.object(first, north);
      p.ring(0, 0,
             {make(event::fiber_enters, 1000, t, greet, 1, 1), make(event::on_object, 1010, t, walker, first),
              make(event::fiber_waits, 1100, t, sleep, 1), make(event::fiber_enters, 1200, t, greet, 1),
              make(event::fiber_ends, 1300, t, 0, 1), make(event::fiber_enters, 1400, t, migrate, 2, 1),
              make(event::departs, 1450, t, 1, first, std::uint64_t{4096} << 24 | walker),
              make(event::sends, 1500, t, 1, 1, migrate), make(event::fiber_ends, 1550, t, 0, 2),
              make(event::fiber_enters, 1600, t, greet, 1, 1), // another one
              make(event::fiber_ends, 1700, t, 0, 1), make(event::sends, 1800, t, 1, 2, greet),
              make(event::sends, 1850, t, 1, 3, migrate)});
    } else {
      p.ring(0, 0,
             {make(event::arrives, 2000, t, 0, 1), make(event::fiber_enters, 2100, t, migrate, 1, 1),
              make(event::handler_begins, 2110, t, 0, 1, migrate),
              make(event::lands, 2150, t, 0, first, std::uint64_t{4096} << 24 | walker),
              make(event::fiber_ends, 2200, t, 0, 1), make(event::arrives, 2300, t, 0, 2),
              make(event::forwards, 2310, t, 0, std::uint64_t{walker} << 32 | 2, second),
              make(event::sends, 2320, t, 0, 1, greet), make(event::arrives, 2400, t, 0, 3),
              make(event::handler_begins, 2410, t, 0, 3, migrate),
              make(event::forwards, 2420, t, 0, std::uint64_t{walker} << 32 | was_handled | 3, second),
              make(event::handler_ends, 2430, t), make(event::sends, 2440, t, 0, 2, migrate)});
    }
    p.save(in, "rank" + std::to_string(rank));
  }
  const auto s = merge(in.path, in / "t.json");
  EXPECT_EQ(s.sent, 5U);
  EXPECT_EQ(s.handled, 1U);
  EXPECT_EQ(s.forwarded, 2U);
  ASSERT_EQ(s.moved.size(), 1U);
  EXPECT_EQ(s.moved[0].type, "walker");
  EXPECT_TRUE(has(s.text(), "5 messages sent, 1 handled, 2 forwarded to objects that were elsewhere, "
                            "2 with no handler in the trace\nmoved: walker 1 time (4.0 KiB)"))
      << s.text();
  check(in / "t.json");
  const std::string text = contents(in / "t.json"), who = R"~("object":"north \"pole\" (walker#1:7)")~";
  const auto greeted = lines_with(text, {"\"greet\"", "\"ph\":\"X\""});
  ASSERT_EQ(greeted.size(), 3U) << text;
  EXPECT_TRUE(has(greeted[0], who) && has(greeted[0], "\"waits for\":\"sleep\"")) << text;
  EXPECT_TRUE(has(greeted[1], who) && has(greeted[1], "\"left\":\"ended\"")) << text;
  EXPECT_FALSE(has(greeted[2], "\"object\"")) << text;
  EXPECT_EQ(
      lines_with(text, {R"("name":"migration","cat":"migration","args":{)" + who + R"(,"from":0,"to":1,"bytes":4096})"})
          .size(),
      1U)
      << text;
  EXPECT_EQ(lines_with(text, {"\"migrate\"", "\"ph\":\"X\"", "\"pid\":2", who}).size(), 1U) << text; // it arrives
  EXPECT_EQ(lines_with(text, {"\"name\":\"forwarded\"", R"("object":"walker#0:8")"}).size(), 2U) << text;
  // The arrow of what was forwarded ends where it was.
  EXPECT_EQ(lines_with(text, {R"("ph":"f")", R"("id":"0x2")"}).size(), 1U) << text;
  EXPECT_EQ(lines_with(text, {R"("ph":"f")", R"("id":"0x3")"}).size(), 1U) << text;
}

TEST(objects, of_parts_that_lie_are_refused) {
  const temporary in;
  made_part p;
  const auto work = p.name("work");
  const auto a = p.track(0, 0);
  p.object(17, 99); // no such name
  p.ring(0, 0,
         {make(event::on_object, 900, a, 99, 17), make(event::departs, 950, a, 1, 17, 99),
          make(event::fiber_enters, 1000, a, work, 1, 1), make(event::on_object, 1010, a, 99, 17),
          make(event::lands, 1020, a, 7, 17, ~std::uint64_t{0}), make(event::forwards, 1030, a, 0, was_handled, 17),
          make(event::fiber_ends, 2000, a, 0, 1)});
  p.save(in, "a");
  const auto s = merge(in.path, in / "t.json");
  EXPECT_EQ(s.handled, 0U);
  EXPECT_TRUE(has(s.text(), "damaged pieces")) << s.text();
  check(in / "t.json");
}

TEST(ranks, that_crash_end_there) {
  const temporary in;
  made_part p(2);
  const auto work = p.name("work"), crash = p.name("rank 1 crashed");
  const auto a = p.track(0, 0), b = p.track(1, 0);
  p.ring(0, 0,
         {make(event::fiber_enters, 1000, a, work, 1, 1), make(event::fiber_enters, 1000, b, work, 1, 1),
          make(event::region_begins, 1500, b, work, 1), make(event::region_begins, 1500, a, work, 1),
          make(event::crash, 2000, b, crash), make(event::region_ends, 9000, a, work, 1),
          make(event::fiber_ends, 9000, a, 0, 1)});
  p.save(in, "a");
  EXPECT_TRUE(merge(in.path, in / "t.json").complete());
  check(in / "t.json", {"--complete"});
  const std::string text = contents(in / "t.json");
  EXPECT_EQ(lines_with(text, {"\"pid\":2", "\"dur\":1,", "the rank crashed"}).size(), 1u) << text;
  EXPECT_EQ(lines_with(text, {"\"pid\":1", "\"dur\":8,", "\"left\":\"ended\""}).size(), 1u) << text;
}

TEST(slices, in_which_much_happens_are_two_events) {
  const temporary in;
  made_part p;
  const auto work = p.name("work");
  const auto a = p.track(0, 0);
  std::vector<record> records{make(event::fiber_enters, 1000, a, work, 1, 1)};
  for (std::uint64_t i = 0; i < 1000; ++i) records.push_back(make(event::happens, 1001 + i, a, work));
  records.push_back(make(event::fiber_ends, 5000, a, 0, 1));
  p.ring(0, 0, records);
  p.save(in, "a");
  static_cast<void>(merge(in.path, in / "t.json"));
  check(in / "t.json", {"--complete"});
  const std::string text = contents(in / "t.json");
  EXPECT_EQ(lines_with(text, {"\"ph\":\"B\"", "\"work\""}).size(), 1u);
  EXPECT_EQ(lines_with(text, {"\"ph\":\"E\"", "\"left\":\"ended\""}).size(), 1u);
}

// Whatever is missing of a device's track, things stand side by side on it; also if two threads
// told of them.
TEST(devices, do_one_thing_after_the_other_on_a_track) {
  const temporary in;
  made_part p;
  const auto work = p.name("work"), copy = p.name("copy to device"), of = p.name("grid"), bytes = p.name("fake0 bytes");
  const auto a = p.track(0, 0), d = p.track(0, first_of_devices + 2, p.name("fake0 kernels"));
  p.ring(0, 0,
         {make(event::device_ends, 900, d), make(event::kernel_begins, 1000, d, work),
          make(event::fiber_enters, 1100, a, work, 1, 1), make(event::device_ends, 2000, d, 0, 1),
          make(event::copy_begins, 2000, d, copy, 4096, of), make(event::counts, 2500, d, bytes, 0x4010000000000000)});
  p.ring(1, 0,
         {make(event::kernel_begins, 4000, d, work), make(event::kernel_begins, 5000, d, work, 1500),
          make(event::device_ends, 7000, d), make(event::device_ends, 7100, d), // of nothing
          make(event::copy_begins, 8000, d, copy, 1), make(event::fiber_ends, 9000, a, 0, 1)});
  p.save(in, "a");
  const auto s = merge(in.path, in / "t.json");
  EXPECT_TRUE(s.complete()) << s.text();
  check(in / "t.json", {"--complete"});
  const std::string text = contents(in / "t.json");
  const std::string tid = "\"tid\":" + std::to_string(first_of_devices + 3);
  EXPECT_EQ(lines_with(text, {"thread_name", tid, "fake0 kernels"}).size(), 1u) << text;
  const auto slices = lines_with(text, {"\"ph\":\"X\"", tid});
  ASSERT_EQ(slices.size(), 5u) << text;
  EXPECT_TRUE(has(slices[0], "\"dur\":1,\"name\":\"work\",\"cat\":\"kernel\",\"args\":{\"failed\":true}")) << text;
  EXPECT_TRUE(has(slices[1], "\"dur\":2,\"name\":\"copy to device\",\"cat\":\"copy\"")) << text;
  EXPECT_TRUE(has(slices[1], "\"args\":{\"bytes\":4096,\"of\":\"grid\"}")) << text;
  EXPECT_TRUE(has(slices[2], "\"dur\":1,\"name\":\"work\",\"cat\":\"kernel\"}")) << text;
  EXPECT_TRUE(has(slices[3], "\"dur\":2,\"name\":\"work\",\"cat\":\"kernel\",\"args\":{\"predicted\":1.5")) << text;
  EXPECT_TRUE(has(slices[4], "\"bytes\":1,\"cut off\":")) << text;
  EXPECT_EQ(lines_with(text, {"\"ph\":\"C\"", "\"pid\":1", "fake0 bytes", "{\"value\":4}"}).size(), 1u) << text;
}

TEST(values, that_are_no_numbers_are_null) {
  const temporary in;
  made_part p;
  const auto name = p.name("x");
  const auto a = p.track(0, 0);
  p.ring(0, 0,
         {make(event::counts, 1, a, name, std::bit_cast<std::uint64_t>(1e300)),
          make(event::counts, 2, a, name, std::bit_cast<std::uint64_t>(std::nan(""))),
          make(event::counts, 3, a, name, std::bit_cast<std::uint64_t>(-HUGE_VAL))});
  p.save(in, "a");
  static_cast<void>(merge(in.path, in / "t.json"));
  check(in / "t.json", {"--complete"});
}

// TERN_TRACE_EVENTS: how many, for a look at how long a large one takes.
TEST(merging, a_million_records) {
  const char* const asked = std::getenv("TERN_TRACE_EVENTS");
  const std::uint64_t n = asked ? std::stoull(asked) : TERN_SANITIZED ? 100'000 : 1'000'000;
  const temporary in;
  const std::string folder = in / "t.parts";
  prepare_parts(folder);
  static std::int64_t now = 0;
  {
    recorder r({.folder = folder, .ranks = 4, .lossless = true, .clock = [] { return now += 100; }});
    std::uint32_t tracks[8];
    for (int i = 0; i < 8; ++i) tracks[i] = new_track(i / 2, i % 2);
    const auto name = name_number("solve"), mutex = name_number("mutex");
    for (std::uint64_t i = 0; i < n / 5; ++i) {
      on_track(tracks[i % 8]);
      fiber_enters(i, name, true);
      handler_begins(static_cast<int>((i + 6) % 8 / 2), static_cast<std::uint32_t>((i / 8 * 2 + i % 2) & 0xffffff),
                     name);
      sends(static_cast<int>((i + 2) % 8 / 2), i / 8 * 2 + i % 2, 128, name);
      counter("i", static_cast<double>(i));
      if (i % 2)
        fiber_ends(i);
      else
        fiber_waits(i, mutex, &now);
    }
  }
  const auto begin = clock_ns();
  const auto s = merge(folder, in / "t.json");
  std::printf("%s; merged in %.2f s, %.0f MB\n", s.text().c_str(), 1e-9 * static_cast<double>(clock_ns() - begin),
              1e-6 * static_cast<double>(std::filesystem::file_size(in / "t.json")));
  EXPECT_EQ(s.records, n / 5 * 5);
  EXPECT_TRUE(s.complete()) << s.text();
  remove_parts(folder);
  EXPECT_FALSE(std::filesystem::exists(folder));
  if (!asked) check(in / "t.json");
}

} // namespace
