// SPDX-License-Identifier: Apache-2.0
#include <tern/net/call/pending_calls.hpp>

#include <algorithm>
#include <atomic>
#include <initializer_list>
#include <map>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include <tern/base/error.hpp>

namespace {

using tern::net::pending_reply;
using tern::net::reply_ref;
using tern::net::detail::pending_calls;

struct marked final : pending_reply {
  marked(int m, int* destroyed) : mark(m), gone(destroyed) {}
  ~marked() override {
    if (gone) ++*gone;
  }
  void value(std::span<const std::byte>) override {}
  void failed(std::exception_ptr) override {}
  int mark;
  int* gone;
};
reply_ref waiting(int mark = 0, int* gone = nullptr) { return reply_ref(new marked(mark, gone)); }
int mark_of(const reply_ref& who) { return who ? static_cast<marked&>(*who).mark : -1; }

std::string text_of_take(pending_calls& calls, std::uint64_t number) {
  try {
    static_cast<void>(calls.take(number, 3));
  } catch (const tern::error& e) {
    EXPECT_EQ(e.code(), tern::errc::invalid_data);
    return e.what();
  }
  return {};
}

TEST(pending_calls, gives_the_answer_to_whom_it_is_for) {
  pending_calls calls;
  std::vector<std::uint64_t> numbers;
  for (int i = 0; i < 1000; ++i) numbers.push_back(calls.expect(waiting(i), 1));
  EXPECT_EQ(std::set<std::uint64_t>(numbers.begin(), numbers.end()).size(), 1000u);
  EXPECT_FALSE(std::set<std::uint64_t>(numbers.begin(), numbers.end()).contains(0)) << "0: no call waits";
  EXPECT_EQ(calls.size(), 1000u);
  for (int i = 999; i >= 0; --i) EXPECT_EQ(mark_of(calls.take(numbers[static_cast<std::size_t>(i)], 1)), i);
  EXPECT_EQ(calls.size(), 0u);
  EXPECT_EQ(calls.late(), 0u);
}

TEST(pending_calls, refuses_answers_to_calls_that_nobody_made) {
  pending_calls calls;
  EXPECT_NE(text_of_take(calls, 1).find("rank 3 answered call 1, which was not made"), std::string::npos);
  const auto number = calls.expect(waiting(7), 1);
  for (const std::uint64_t forged : std::initializer_list<std::uint64_t>{
           0, number + 1, number + (1ull << 32), number - (1ull << 32), ~std::uint64_t{0}, number & 0xffffffffu})
    EXPECT_NE(text_of_take(calls, forged), "") << forged;
  EXPECT_EQ(mark_of(calls.take(number, 1)), 7);
  EXPECT_NE(text_of_take(calls, number).find("which was not made"), std::string::npos) << "a second answer";
  const auto next = calls.expect(waiting(8), 1);
  EXPECT_NE(next, number) << "the place is the same, the generation is another";
  EXPECT_NE(text_of_take(calls, number), "");
  EXPECT_EQ(mark_of(calls.take(next, 1)), 8);
}

TEST(pending_calls, drops_and_counts_late_answers) {
  pending_calls calls;
  const auto number = calls.expect(waiting(5), 2);
  EXPECT_EQ(mark_of(calls.give_up(number)), 5);
  EXPECT_EQ(calls.give_up(number), nullptr);
  EXPECT_EQ(calls.size(), 1u) << "its answer is due";
  ASSERT_EQ(calls.list().size(), 1u);
  EXPECT_TRUE(calls.list()[0].given_up);
  EXPECT_EQ(calls.list()[0].from, 2);
  EXPECT_EQ(calls.take(number, 2), nullptr);
  EXPECT_EQ(calls.late(), 1u);
  EXPECT_EQ(calls.size(), 0u);
  EXPECT_NE(text_of_take(calls, number), "") << "that was its answer";
  EXPECT_EQ(calls.give_up(number), nullptr);
}

TEST(pending_calls, forgets_what_was_not_sent) {
  int gone = 0;
  pending_calls calls;
  const auto number = calls.expect(waiting(1, &gone), 2);
  calls.forget(number);
  EXPECT_EQ(gone, 1);
  EXPECT_EQ(calls.size(), 0u);
  calls.forget(number);
  EXPECT_EQ(calls.give_up(number), nullptr);
  EXPECT_NE(text_of_take(calls, number), "");
}

TEST(pending_calls, destroys_who_waits_with_itself) {
  int gone = 0;
  {
    pending_calls calls;
    for (int i = 0; i < 100; ++i) static_cast<void>(calls.expect(waiting(i, &gone), 0));
    static_cast<void>(calls.give_up(calls.list()[3].number));
    EXPECT_EQ(gone, 1);
  }
  EXPECT_EQ(gone, 100);
}

TEST(pending_calls, lists_the_oldest_first) {
  pending_calls calls;
  std::vector<std::uint64_t> numbers;
  for (int i = 0; i < 20; ++i) numbers.push_back(calls.expect(waiting(), i));
  static_cast<void>(calls.take(numbers[4], 0));
  const auto last = calls.expect(waiting(), 77); // in the place of the one taken
  const auto all = calls.list();
  ASSERT_EQ(all.size(), 20u);
  EXPECT_EQ(all.back().number, last);
  EXPECT_EQ(all.back().from, 77);
  EXPECT_TRUE(std::is_sorted(all.begin(), all.end(), [](auto& a, auto& b) { return a.since < b.since; }));
}

// Against a map, with random operations.
TEST(pending_calls, is_what_a_map_is) {
  std::mt19937 random(1);
  pending_calls calls;
  std::map<std::uint64_t, int> open; // -1: given up
  std::vector<std::uint64_t> once;
  for (int i = 0; i < 20000; ++i) {
    const auto pick = [&] { return std::next(open.begin(), static_cast<std::ptrdiff_t>(random() % open.size())); };
    switch (open.empty() ? 0 : random() % 5) {
    case 0:
    case 1: {
      const auto number = calls.expect(waiting(i), 0);
      EXPECT_TRUE(open.emplace(number, i).second);
      once.push_back(number);
      break;
    }
    case 2: {
      const auto it = pick();
      EXPECT_EQ(mark_of(calls.take(it->first, 0)), it->second);
      open.erase(it);
      break;
    }
    case 3: {
      const auto it = pick();
      EXPECT_EQ(mark_of(calls.give_up(it->first)), it->second);
      it->second = -1;
      break;
    }
    default: {
      const auto number = once[random() % once.size()];
      if (!open.contains(number)) {
        EXPECT_NE(text_of_take(calls, number), "");
      }
    }
    }
    ASSERT_EQ(calls.size(), open.size());
  }
}

// Exactly one of the threads that race for a call sees its end.
TEST(pending_calls, threads_race_for_each_call) {
  constexpr int each = 20000;
  pending_calls calls;
  std::atomic<std::uint64_t> current{0};
  std::atomic<int> taken{0}, given_up{0};
  std::thread other([&] {
    for (std::uint64_t number = 0, last = 0;;) {
      while ((number = current.load(std::memory_order_acquire)) == last) std::this_thread::yield();
      if (number == ~std::uint64_t{0}) return;
      last = number;
      if (calls.give_up(number)) ++given_up;
    }
  });
  std::thread more([&] { // others' calls meanwhile
    for (int i = 0; i < each; ++i) static_cast<void>(calls.take(calls.expect(waiting(), 0), 0));
  });
  for (int i = 0; i < each; ++i) {
    const auto number = calls.expect(waiting(), 0);
    current.store(number, std::memory_order_release);
    if (i % 3 == 0) std::this_thread::yield();
    if (calls.take(number, 0)) ++taken;
  }
  current.store(~std::uint64_t{0}, std::memory_order_release);
  other.join();
  more.join();
  EXPECT_EQ(taken + given_up, each);
  EXPECT_EQ(calls.late(), static_cast<std::uint64_t>(given_up.load()));
  EXPECT_EQ(calls.size(), 0u);
}

} // namespace
