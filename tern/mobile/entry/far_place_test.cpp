// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <optional>
#include <utility>

#include <gtest/gtest.h>

#include <tern/mobile/entry/entry.hpp>
#include <tern/mobile/entry/object_table.hpp>

namespace tern::mobile {
namespace {

constexpr std::uint32_t most_version = (1U << far_place::version_bits) - 1;
constexpr std::uint64_t most_sent = (std::uint64_t{1} << far_place::sent_bits) - 1;

void expect_same(const far_place& a, const far_place& b) {
  EXPECT_EQ(a.where, b.where);
  EXPECT_EQ(a.version, b.version);
  EXPECT_EQ(a.sent, b.sent);
  EXPECT_EQ(a.used, b.used);
}

TEST(far_place, a_number_says_all_of_it) {
  for (const far_place& f : {far_place{0, 0, 0, false}, far_place{3, 1, 2, true}, far_place{(1 << 24) - 1, 7, 0, true},
                             far_place{5, most_version, most_sent, false}}) {
    ASSERT_TRUE(f.fits());
    EXPECT_EQ(f.number() >> 62, 0U);
    expect_same(far_place::of(f.number()), f);
  }
}

TEST(far_place, what_is_too_much_does_not_fit) {
  EXPECT_FALSE((far_place{0, most_version + 1, 0, false}.fits()));
  EXPECT_FALSE((far_place{0, 0, most_sent + 1, false}.fits()));
}

entry one_elsewhere() {
  entry e(object_id(1, 7));
  e.at = entry::place::elsewhere;
  e.where = 2;
  e.version = 3;
  e.sent = 4;
  e.own_open = true;
  return e;
}

TEST(far_place, only_a_quiet_entry_of_an_object_elsewhere_is_one) {
  entry e = one_elsewhere();
  ASSERT_TRUE(e.far());
  expect_same(*e.far(), far_place{2, 3, 4, false});
  const auto not_with = [](auto change) {
    entry other = one_elsewhere();
    change(other);
    return !other.far();
  };
  EXPECT_TRUE(not_with([](entry& x) { x.at = entry::place::here; }));
  EXPECT_TRUE(not_with([](entry& x) { x.own_open = false; }));
  EXPECT_TRUE(not_with([](entry& x) { x.own_closing = true; }));
  EXPECT_TRUE(not_with([](entry& x) { x.under_way = 1; }));
  EXPECT_TRUE(not_with([](entry& x) { x.travels(); }));
  EXPECT_TRUE(not_with([](entry& x) { x.version = most_version + 1; }));
  EXPECT_TRUE(not_with([](entry& x) { x.extra().events = std::make_unique<detail::event_set>(2); }));
  EXPECT_TRUE(not_with([](entry& x) { x.exclusive = true; }));
  EXPECT_TRUE(not_with([](entry& x) { x.claims = 1; }));
}

TEST(far_place, a_claimer_that_moves_the_object_or_waits_for_its_invocations_is_kept) {
  const auto request = [](const invocable& what) {
    auto one = std::make_unique<invocation>();
    one->what = &what;
    return one;
  };
  entry e(object_id(1, 7));
  e.travels().carry = request(detail::carry_message);
  e.settle();
  ASSERT_TRUE(e.travel);
  e.travel->carry.reset();
  e.travel->settling.push(request(detail::settle_message));
  e.settle();
  ASSERT_TRUE(e.travel);
  static_cast<void>(e.travel->settling.pop());
  e.settle();
  EXPECT_FALSE(e.travel);
}

TEST(far_place, one_open_stream_of_an_object_that_is_here_takes_no_memory) {
  entry e(object_id(1, 7));
  e.travels().streams.push_back({5, 0, 9});
  e.settle();
  EXPECT_FALSE(e.travel);
  EXPECT_TRUE(e.one_stream);
  ASSERT_TRUE(e.travels().find(5));
  EXPECT_EQ(e.travels().find(5)->expected, 9U);
  EXPECT_FALSE(e.one_stream);
  e.travels().streams.push_back({6, 0, 0});
  e.settle();
  EXPECT_TRUE(e.travel); // two are too many
  e.travel->streams.clear();
  e.travel->notified.push_back(1);
  e.settle();
  EXPECT_TRUE(e.travel);
  e.travel->notified.clear();
  e.settle();
  EXPECT_FALSE(e.travel);
  EXPECT_FALSE(e.one_stream);
}

TEST(object_table, a_number_stands_for_an_entry) {
  detail::object_table<entry, 6> table;
  table.has_one_thread();
  for (std::uint64_t i = 1; i <= 1000; ++i) {
    const object_id id(0, i);
    auto e = std::make_unique<entry>(id);
    table.insert(id, e.release(), true);
    if (i % 2 == 0) continue;
    delete table.find(id);
    table.put_number(id, i);
  }
  for (std::uint64_t i = 1; i <= 1000; ++i) {
    const object_id id(0, i);
    EXPECT_EQ(table.find(id) == nullptr, i % 2 != 0);
    EXPECT_EQ(table.number(id), i % 2 != 0 ? std::optional(i) : std::nullopt);
    EXPECT_EQ(table.looks_marked(id), i % 2 == 0);
  }
  std::size_t numbers = 0;
  for (std::size_t i = 0; i < table.capacity(); ++i)
    if (const auto there = table.number_at(i)) {
      EXPECT_EQ(there->first.number(), there->second);
      ++numbers;
    }
  EXPECT_EQ(numbers, 500U);
  auto back = std::make_unique<entry>(object_id(0, 1));
  table.put_entry(back->id, back.get());
  EXPECT_EQ(table.find(back->id), back.get());
  EXPECT_FALSE(table.number(back->id));
  EXPECT_TRUE(table.erase(object_id(0, 3)));
  EXPECT_FALSE(table.number(object_id(0, 3)));
  for (std::uint64_t i = 2; i <= 1000; i += 2) delete table.find(object_id(0, i));
}

} // namespace
} // namespace tern::mobile
