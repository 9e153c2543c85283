// SPDX-License-Identifier: Apache-2.0
/// \file
/// Parts that are cut off, damaged, or no parts.
#include "tests/trace/support/parts.hpp"

#include <random>

#include <tern/base/error.hpp>

using namespace tern::trace;
using namespace tern::trace::test;

namespace {

/// A small part with a bit of everything.
made_part example() {
  made_part p(2);
  const auto work = p.name("work"), mutex = p.name("mutex"), handler = p.name("handler");
  const auto a = p.track(0, 0), b = p.track(1, 0);
  std::vector<record> records;
  for (std::uint64_t i = 0; i < 50; ++i) {
    const std::uint64_t at = 1000 * i;
    records.push_back(make(event::fiber_enters, at, a, work, i / 2, 1));
    records.push_back(make(event::region_begins, at + 1, a, work, i / 2));
    records.push_back(make(event::sends, at + 10, a, 1, i, 100 << 24 | handler));
    records.push_back(make(event::region_ends, at + 90, a, work, i / 2));
    records.push_back(i % 2 ? make(event::fiber_ends, at + 100, a, 0, i / 2)
                            : make(event::fiber_waits, at + 100, a, mutex, i / 2, 4096));
    records.push_back(make(event::parks, at + 101, a));
    records.push_back(make(event::wakes, at + 900, a));
    records.push_back(make(event::handler_begins, at + 200, b, 0, i, handler));
    records.push_back(make(event::tasklets_begin, at + 210, b));
    records.push_back(make(event::tasklets_end, at + 220, b, 0, 9));
    records.push_back(make(event::handler_ends, at + 250, b));
    records.push_back(make(event::counts, at + 300, b, work, i));
    records.push_back(make(event::steals, at + 301, b, 0, 3));
    records.push_back(make(event::happens, at + 302, b, work));
    records.push_back(make(event::fault, at + 303, b, work));
  }
  p.ring(0, 0, records);
  return p;
}

TEST(part, an_example_is_whole) {
  const temporary in;
  example().save(in, "a");
  const auto s = merge(in.path, in / "t.json");
  EXPECT_TRUE(s.complete()) << s.text();
  EXPECT_EQ(s.records, 50u * 15);
  EXPECT_EQ(s.sent, 50u);
  EXPECT_EQ(s.handled, 50u);
  check(in / "t.json", {"--complete"});
}

TEST(part, none_at_all) {
  const temporary in;
  EXPECT_THROW(merge(in.path, in / "t.json"), tern::error);
  EXPECT_THROW(merge(in / "no such", in / "t.json"), tern::error);
}

TEST(part, files_that_are_none_are_named) {
  using change = void (*)(made_part&);
  const struct {
    change make;
    const char* text;
  } cases[] = {
      {[](made_part& p) { p.bytes() = ""; }, "0 bytes"},
      {[](made_part& p) { p.bytes() = "[\n{}\n]\n"; }, "fewer than any part"},
      {[](made_part& p) { p.bytes().assign(100'000, 'x'); }, "does not begin as one"},
      {[](made_part& p) { p.header().order = 0x04030201; }, "byte order"},
      {[](made_part& p) { p.header().version = 7; }, "version 7"},
      {[](made_part& p) { p.header().record_bytes = 24; }, "records of 24 bytes"},
      {[](made_part& p) { p.header().chunk_bytes = 0; }, "chunks of 0"},
      {[](made_part& p) { p.header().chunk_bytes = 100; }, "chunks of 100"},
      {[](made_part& p) { p.header().ranks = -1; }, "of -1"},
      {[](made_part& p) { p.header().rank = 5; }, "rank 5 of 2"},
      {[](made_part& p) { p.header().which_latest = 9; }, "clock"},
      {[](made_part& p) { p.header().clock = static_cast<clock_kind>(9); }, "clock of kind 9"},
      {[](made_part& p) {
         p.header().clock = clock_kind::counter;
         p.header().counts_per_ns = -std::numeric_limits<double>::quiet_NaN();
       },
       "counts a nanosecond"},
  };
  for (const auto& c : cases) {
    const temporary in;
    auto p = example();
    c.make(p);
    p.save(in, "hostile");
    try {
      static_cast<void>(merge(in.path, in / "t.json"));
      ADD_FAILURE() << c.text;
    } catch (const tern::error& e) {
      EXPECT_EQ(e.code(), tern::errc::invalid_data);
      EXPECT_TRUE(has(e.what(), in / "hostile.part")) << e.what();
      EXPECT_TRUE(has(e.what(), c.text)) << e.what();
      EXPECT_TRUE(has(e.what(), "remove the file")) << e.what();
    }
  }
  const temporary in;
  std::filesystem::create_directory(in / "folder.part");
  EXPECT_THROW(merge(in.path, in / "t.json"), tern::error);
}

TEST(part, damage_is_left_out_and_told) {
  using change = void (*)(made_part&);
  const change cases[] = {
      [](made_part& p) { p.chunk(0).used = ~0ull; },                        // the table
      [](made_part& p) { p.chunk(0).sequence = 3; },                        //
      [](made_part& p) { p.bytes()[2 * page - 1 - (page - 64) + 4] = 99; }, // the length of a name
      [](made_part& p) { p.chunk(1).magic = 1; },                           // the ring
      [](made_part& p) { p.chunk(1).used = 1 << 20; },
      [](made_part& p) { p.chunk(1).sequence = ~0ull; },
      [](made_part& p) { p.chunk(1).kind = chunk_kind::table; },
      [](made_part& p) { p.bytes().resize(p.bytes().size() - 1); },
      [](made_part& p) { p.ring(0, 0, {make(event::parks, 1, 0)}); },  // the same piece twice
      [](made_part& p) { p.ring(0, 1, {make(event::parks, 1, 77)}); }, // no such track
      [](made_part& p) { p.ring(0, 1, {make(event{200}, 1, 0)}); },    // no such event
  };
  int number = 0;
  for (const auto& c : cases) {
    const temporary in;
    auto p = example();
    c(p);
    p.save(in, "damaged");
    const auto s = merge(in.path, in / "t.json");
    EXPECT_FALSE(s.complete()) << number;
    check(in / "t.json");
    ++number;
  }
}

// Whatever stands in the file, merging gives a trace that is well formed, or an error.
TEST(part, random_damage_never_breaks_anything) {
  std::mt19937_64 random(1);
  const std::string whole = [] {
    auto p = example();
    p.ring(1, 4, {make(event::counts, 5, 1, 1, ~0ull), make(event::crash, 60'000, 0, 1)});
    const temporary in;
    p.save(in, "a");
    return contents(in / "a.part");
  }();
  constexpr int rounds = TERN_SANITIZED ? 60 : 120; // each takes 0.15 s under one
  int errors = 0;
  for (int round = 0; round < rounds; ++round) {
    const temporary in;
    std::string bytes = whole;
    for (int i = 0; i < 1 + round % 40; ++i) {
      // Where there is something: the header, the table, the records.
      const std::size_t begin = page * (random() % (bytes.size() / page));
      const std::size_t at = begin + random() % (round % 2 ? 200 : 4000);
      if (round % 3)
        bytes[at] = static_cast<char>(random());
      else
        bytes[at] = static_cast<char>(bytes[at] ^ 1 << random() % 8);
    }
    if (round % 5 == 0) bytes.resize(random() % bytes.size());
    static_cast<void>(in.write("a.part", bytes));
    try {
      static_cast<void>(merge(in.path, in / "t.json"));
      if (round % 10 == 0) check(in / "t.json");
    } catch (const tern::error& e) {
      EXPECT_TRUE(has(e.what(), in / "a.part")) << e.what();
      ++errors;
    }
  }
  EXPECT_GT(errors, 0);
  EXPECT_LT(errors, rounds);
}

} // namespace
