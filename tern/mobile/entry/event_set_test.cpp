// SPDX-License-Identifier: Apache-2.0
#include <tern/mobile/entry/event_set.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace tern::mobile::detail {
namespace {

const event_kind plain{{action::arm, nullptr, nullptr, nullptr}, nullptr, nullptr, nullptr, false};
const event_kind seeing{{action::arm, nullptr, nullptr, nullptr}, nullptr, nullptr, nullptr, true};

const objects_kind with_objects{[]() -> std::uint32_t { return 8 | brings_object | 1; }, nullptr};
const event_kind meeting{{action::arm, nullptr, nullptr, nullptr}, nullptr, nullptr, nullptr, true, &with_objects};

byte_buffer bytes_of(const std::string& text) { return byte_buffer::copy_of(std::as_bytes(std::span(text))); }

/// The error's text, or nothing.
std::string give(event_set& all, std::uint32_t number, std::uint32_t index, int rank = 0, std::uint32_t round = 0,
                 const std::string& value = {}) {
  signal_content content{index, value.empty() ? 0u : 5u, bytes_of(value), {}};
  const auto wrong =
      all.signal({{}, number, round, index, 0, content.type, 0}, rank, content, [] { return std::string("it"); });
  return wrong ? wrong->message() : std::string();
}
bool fires(event_set& all, std::uint32_t number) { return all.fire(*all.find(number)).has_value(); }

TEST(event_set, fires_once_after_the_last) {
  event_set all;
  const std::uint32_t e = all.add(plain, 3);
  EXPECT_EQ(e, 1u);
  for (const std::uint32_t i : {2u, 0u}) {
    EXPECT_EQ(give(all, e, i), "");
    EXPECT_FALSE(fires(all, e));
  }
  EXPECT_EQ(describe_missing(*all.find(e)), "waits for signal 1");
  EXPECT_EQ(give(all, e, 1), "");
  EXPECT_TRUE(fires(all, e));
  EXPECT_FALSE(fires(all, e));
  EXPECT_EQ(describe_missing(*all.find(e)), "");
  all.ended(e, 0);
  EXPECT_TRUE(all.empty());
  EXPECT_EQ(all.add(plain, 1), 2u); // numbers are not given twice
}

TEST(event_set, names_both_places_of_a_double_signal) {
  event_set all;
  const std::uint32_t e = all.add(plain, 2);
  EXPECT_EQ(give(all, e, 1, 3), "");
  EXPECT_EQ(give(all, e, 1, 5), "signal 1 of event 1 of it was given twice: by rank 3 and by rank 5");
  EXPECT_EQ(give(all, e, 0, 2), "");
  EXPECT_TRUE(fires(all, e));
  EXPECT_EQ(give(all, e, 0, 4), "signal 0 of event 1 of it was given twice: by rank 2 and by rank 4");
  all.ended(e, 0);
  EXPECT_EQ(give(all, e, 0, 4), "signal 0 of event 1 of it was given twice: by rank 4, and before the event had fired");
  EXPECT_EQ(give(all, 9, 0), "event 9 of it was never made");
}

TEST(event_set, keeps_early_signals_until_it_is_rearmed) {
  event_set all;
  const std::uint32_t e = all.add(plain, 2);
  EXPECT_EQ(give(all, e, 0, 0, 1), "");
  EXPECT_EQ(give(all, e, 0, 4, 1), "signal 0 of event 1 of it was given twice in round 1: by rank 0 and by rank 4");
  EXPECT_EQ(describe_missing(*all.find(e)), "waits for signals 0 and 1");
  EXPECT_EQ(give(all, e, 0), "");
  EXPECT_EQ(give(all, e, 1), "");
  EXPECT_TRUE(fires(all, e));
  EXPECT_EQ(give(all, e, 1, 0, 1), "");
  EXPECT_FALSE(fires(all, e));
  EXPECT_EQ(describe_missing(*all.find(e)), "has signals of round 1 and was not rearmed after round 0");
  all.ended(e, 0); // it has signals
  EXPECT_TRUE(all.rearm(e, 0));
  EXPECT_TRUE(all.rearm(e, 0));
  EXPECT_TRUE(fires(all, e));
  EXPECT_FALSE(fires(all, e));
  EXPECT_EQ(give(all, e, 1, 6, 0),
            "signal 1 of event 1 of it was given twice: by rank 6, and before the event had fired");
  all.ended(e, 1);
  EXPECT_FALSE(all.rearm(e, 1));
  EXPECT_EQ(all.refuse_rearm(e, "it").message(),
            "event 1 of it cannot be rearmed: it has fired, and the function has returned");
}

TEST(event_set, may_be_rearmed_in_advance) {
  event_set all;
  const std::uint32_t e = all.add(plain, 1);
  EXPECT_TRUE(all.rearm(e, 1));
  for (const std::uint32_t round : {2u, 1u}) EXPECT_EQ(give(all, e, 0, 0, round), "");
  EXPECT_FALSE(fires(all, e));
  EXPECT_EQ(give(all, e, 0), "");
  for (std::uint32_t round = 0; round < 3; ++round) {
    const auto f = all.fire(*all.find(e));
    ASSERT_TRUE(f.has_value());
    EXPECT_EQ(f->round, round);
  }
  EXPECT_FALSE(fires(all, e));
}

TEST(event_set, gives_values_in_the_order_of_numbers) {
  event_set all;
  const std::uint32_t e = all.add(seeing, 3);
  EXPECT_EQ(give(all, e, 2, 1, 0, "two"), "");
  EXPECT_EQ(give(all, e, 0, 4, 0, "zero, which is longer than sixteen bytes"), "");
  EXPECT_EQ(give(all, e, 1, 5), "");
  const auto f = all.fire(*all.find(e));
  ASSERT_TRUE(f.has_value());
  const fired_signals in(f->with);
  const auto text = [&](std::size_t i) {
    const auto b = in.bytes_of(i, 5, "text");
    return std::string(reinterpret_cast<const char*>(b.data()), b.size());
  };
  EXPECT_EQ(text(0), "zero, which is longer than sixteen bytes");
  EXPECT_EQ(text(2), "two");
  EXPECT_EQ(in.slots[1].rank, 5);
  const auto text_of = [](auto&& ask) {
    try {
      ask();
    } catch (const error& x) {
      return x.message();
    }
    return std::string();
  };
  EXPECT_EQ(text_of([&] { text(1); }), "signal 1 of rank 5 has brought no value, and a text was asked for");
  EXPECT_EQ(text_of([&] { static_cast<void>(in.bytes_of(2, 9, "number")); }),
            "signal 2 of rank 1 has not brought a number, but a value of another type");
}

TEST(event_set, travels) {
  event_set all, there(4);
  const packed_event p{3, 2, 5, 6, 0, {}, {{5, 1, 7, 2, object_id(1, 9), {std::byte{1}}}, {6, 0, 0, 3, {}, {}}}};
  event_state& e = there.add(seeing, p);
  EXPECT_EQ(e.now.given, 1u);
  EXPECT_EQ(e.now.contents.size(), 1u);
  EXPECT_EQ(e.early.at(6).places[0].rank, 3);
  EXPECT_EQ(give(there, 3, 1, 8, 5), "signal 1 of event 3 of it was given twice in round 5: by rank 2 from object 1:9 "
                                     "and by rank 8");
  EXPECT_THROW(there.add(seeing, p), error); // it is there
  EXPECT_THROW(all.add(seeing, p), error);   // it was not made
  packed_event wrong = p;
  wrong.number = 2;
  wrong.signals[0].index = 2;
  EXPECT_THROW(there.add(seeing, wrong), error);
}

TEST(event_set, names_runs_of_missing_numbers) {
  event_set all;
  const std::uint32_t e = all.add(plain, 30);
  for (std::uint32_t i = 0; i < 30; ++i) {
    if (i == 4 || i == 7 || i == 12) continue;
    EXPECT_EQ(give(all, e, i), "");
  }
  EXPECT_EQ(describe_missing(*all.find(e)), "waits for signals 4, 7 and 12");
  const std::uint32_t many = all.add(plain, 100);
  for (std::uint32_t i = 0; i < 100; i += 5) EXPECT_EQ(give(all, many, i), "");
  EXPECT_EQ(describe_missing(*all.find(many)),
            "waits for signals 1 to 4, 6 to 9, 11 to 14, 16 to 19, 21 to 24, 26 to 29, 31 to 34, 36 to 39 and 48 more");
}

/// Brings an object, or nothing. The error's text, or nothing.
std::string bring(event_set& all, std::uint32_t number, std::uint32_t index, object_id id, std::uint32_t round = 0,
                  std::uint32_t type = 8 | brings_object | 1) {
  signal_content content{index, type, byte_buffer::copy_of(std::as_bytes(std::span(&id.bits, 1))), {}};
  const auto wrong = all.signal({{}, number, round, index, 0, type, 0}, 0, content, [] { return std::string("it"); });
  return wrong ? wrong->message() : std::string();
}

TEST(event_set, a_round_with_objects_waits_for_the_one_before) {
  event_set all;
  const std::uint32_t e = all.add(meeting, 1);
  EXPECT_TRUE(all.rearm(e, 1));
  for (std::uint32_t round = 0; round < 3; ++round) EXPECT_EQ(bring(all, e, 0, object_id(0, 7), round), "");
  EXPECT_TRUE(fires(all, e));
  EXPECT_FALSE(fires(all, e)); // its function runs
  EXPECT_EQ(describe_missing(*all.find(e)), "has all signals of round 1, and the function of the round before runs");
  EXPECT_EQ(all.ended_with_objects(e, 1), nullptr); // another round's
  EXPECT_FALSE(fires(all, e));
  EXPECT_EQ(all.ended_with_objects(e, 0), all.find(e));
  EXPECT_EQ(all.ended_with_objects(e, 0), nullptr); // told twice
  EXPECT_TRUE(fires(all, e));
  EXPECT_FALSE(fires(all, e));
  EXPECT_EQ(all.ended_with_objects(e, 1), all.find(e));
  EXPECT_TRUE(fires(all, e));
  EXPECT_EQ(all.ended_with_objects(e, 2), nullptr); // it was not rearmed
  EXPECT_EQ(all.find(e), nullptr);
}

TEST(event_set, a_round_with_objects_travels) {
  event_set there(4);
  const packed_event p{3, 1, 5, 6, 2, {}, {{5, 0, 0, 2, {}, {}}}};
  event_state& e = there.add(meeting, p);
  EXPECT_FALSE(fires(there, 3));
  EXPECT_EQ(there.ended_with_objects(3, 4), &e);
  EXPECT_TRUE(fires(there, 3));
}

TEST(event_set, signals_bring_objects_of_the_class_that_is_wanted) {
  event_set all;
  const std::uint32_t e = all.add(meeting, 3), f = all.add(seeing, 1);
  EXPECT_EQ(bring(all, e, 1, object_id(0, 7), 0, 16 | brings_object | 1),
            "signal 1 of event 1 of it brings a pointer to another class than its function takes");
  EXPECT_EQ(give(all, e, 1, 0, 0, "a value"), "");
  EXPECT_EQ(bring(all, f, 0, object_id(0, 7), 0, 16 | brings_object | 1), ""); // a value as any other
}

TEST(event_set, names_each_object_once) {
  event_set all;
  const std::uint32_t e = all.add(meeting, 6);
  const object_id target(0, 5), big(2, 1), small(0, 9);
  std::uint32_t i = 0;
  for (const object_id id : {big, target, small, big, object_id()}) EXPECT_EQ(bring(all, e, i++, id), "");
  EXPECT_EQ(give(all, e, i, 0, 0, "text"), "");
  const auto f = all.fire(*all.find(e));
  ASSERT_TRUE(f.has_value());
  const named_objects named(target, fired_signals(f->with));
  EXPECT_EQ(named.others, (std::vector{small, big}));
  EXPECT_TRUE(named.target);
  constexpr std::uint32_t none = named_objects::none;
  EXPECT_EQ(named.places, (std::vector<std::uint32_t>{2, 0, 1, 2, none, none}));
  fired_signals torn(f->with);
  torn.slots[0].bytes = 4;
  EXPECT_THROW(named_objects(target, torn), error);
}

} // namespace
} // namespace tern::mobile::detail
