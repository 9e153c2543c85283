// SPDX-License-Identifier: Apache-2.0
// What archives refuse: damaged and forged bytes, values that cannot travel, classes that
// contradict themselves.
#include "archive_refusals.hpp"

#include <array>
#include <cstring>
#include <list>
#include <map>
#include <set>
#include <unordered_set>
#include <variant>

#include <pthread.h>

namespace hostile_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST(hostile, texts_say_offset_wanted_available) {
  const auto bytes = tern::pack(std::int32_t{1}, 2.5);
  const auto cut = tern::byte_buffer::copy_of(bytes.bytes().first(7));
  EXPECT_THAT(refusal([&] { (void)tern::unpack<std::int32_t, double>(cut); }),
              HasSubstr("archive ends too early at offset 4: 8 bytes wanted, 3 available"));
  EXPECT_THAT(refused<std::int32_t>(bytes),
              HasSubstr("archive goes on after its last value at offset 4: 4 bytes wanted, 12 available"));
  EXPECT_THAT(refused<std::vector<double>>(tern::pack(std::uint64_t{3}, 1.0)),
              HasSubstr("impossible length at offset 0: 3 elements, so at least 24 bytes wanted, 8 available"));
}

TEST(hostile, oversized_lengths) {
  for (const std::uint64_t length :
       {std::uint64_t{1} << 61, std::uint64_t{1} << 32, ~std::uint64_t{0}, std::uint64_t{1000}}) {
    const auto bytes = tern::pack(length, std::uint64_t{0});
    EXPECT_THAT(refused<std::string>(bytes), HasSubstr("impossible length"));
    EXPECT_THAT(refused<std::vector<int>>(bytes), HasSubstr("impossible length"));
    EXPECT_THAT(refused<std::vector<std::string>>(bytes), HasSubstr("impossible length"));
    EXPECT_THAT(refused<std::vector<nothing>>(bytes), HasSubstr("impossible length"));
    EXPECT_THAT(refused<std::vector<std::tuple<>>>(bytes), HasSubstr("impossible length"));
    EXPECT_THAT(refused<std::vector<record>>(bytes), HasSubstr("impossible length"));
    EXPECT_THAT(refused<std::vector<bool>>(bytes), HasSubstr("impossible length"));
    EXPECT_THAT(refused<std::list<char>>(bytes), HasSubstr("impossible length"));
    EXPECT_THAT((refused<std::map<int, int>>(bytes)), HasSubstr("impossible length"));
    EXPECT_THAT(refused<std::unordered_set<int>>(bytes), HasSubstr("impossible length"));
    EXPECT_THAT(refused<tern::byte_buffer>(bytes), HasSubstr("impossible length"));
  }
  EXPECT_THAT(refused<std::vector<double>>(tern::pack(~std::uint64_t{0})),
              HasSubstr("more than 18446744073709551615 bytes wanted"));
}

TEST(hostile, impossible_values) {
  EXPECT_THAT(refused<bool>(tern::pack(char{2})), HasSubstr("bad bool at offset 0: 2, allowed is 0 or 1"));
  EXPECT_THAT((refused<std::array<bool, 2>>(tern::pack(char{1}, char{9}))), HasSubstr("bad bool at offset 1: 9"));
  EXPECT_THAT(refused<std::optional<int>>(tern::pack(char{3}, 1)), HasSubstr("bad optional's flag at offset 0: 3"));
  EXPECT_THAT(refused<std::unique_ptr<int>>(tern::pack(char{3}, 1)), HasSubstr("bad unique_ptr's flag"));
  EXPECT_THAT((refused<std::variant<int, double>>(tern::pack(2u, 1))),
              HasSubstr("bad variant's index at offset 0: 2, allowed is below 2"));
  EXPECT_THAT(refused<std::set<int>>(tern::pack(std::vector<int>{1, 1})), HasSubstr("bad key of a set"));
  EXPECT_THAT((refused<std::map<int, int>>(tern::pack(std::vector<std::pair<int, int>>{{1, 1}, {1, 2}}))),
              HasSubstr("bad key of a map"));
}

TEST(hostile, shared_numbers) {
  using p = std::shared_ptr<int>;
  EXPECT_THAT(refused<p>(tern::pack(2u, 1)), HasSubstr("bad shared_ptr's number at offset 0: 2, allowed is at most 1"));
  EXPECT_THAT(refused<p>(tern::pack(~0u, 1)), HasSubstr("bad shared_ptr's number"));
  // A number of an object of another type must not become a cast.
  const auto confused = tern::pack(1u, 7, 1u);
  EXPECT_THAT(
      refusal([&] { (void)tern::unpack<p, std::shared_ptr<std::string>>(confused); }),
      AllOf(HasSubstr("bad shared_ptr's number at offset 8: 1, allowed is an object of type "), HasSubstr("string")));
  // An object inside itself.
  tern::byte_buffer cycle = tern::pack(1u, record{});
  const std::size_t next = 4 + 4 + 8 + 8;
  const std::uint32_t itself = 1;
  std::memcpy(cycle.data() + next, &itself, 4);
  EXPECT_THAT(refused<std::shared_ptr<record>>(cycle),
              HasSubstr("at offset 24: 1, allowed is no object that is still being read (the data has a cycle)"));
}

TEST(hostile, cycle_on_saving) {
  auto a = std::make_shared<record>();
  a->next = std::make_shared<record>();
  a->next->next = a;
  EXPECT_THAT(refusal([&] { (void)tern::pack(a); }),
              AllOf(HasSubstr("record> leads back to the object that holds it"), HasSubstr("cycle")));
  a->next->next.reset();
  (void)tern::pack(a);
}

struct chain {
  std::unique_ptr<chain> next;
  template <class A> void serialize(A& ar) { ar(next); }
};
struct nest {
  std::vector<nest> inner;
  template <class A> void serialize(A& ar) { ar(inner); }
};
std::unique_ptr<chain> chain_of(int n) {
  std::unique_ptr<chain> head;
  for (int i = 0; i < n; ++i) {
    auto next = std::make_unique<chain>();
    next->next = std::move(head);
    head = std::move(next);
  }
  return head;
}

TEST(hostile, nesting) {
  // 100 fits in any build; how far beyond depends on the size of its frames.
  EXPECT_NE(tern::unpack<std::unique_ptr<chain>>(tern::pack(chain_of(100))), nullptr);
  EXPECT_THAT(refusal([] { (void)tern::pack(chain_of(tern::archive_max_depth + 1)); }), HasSubstr(" deep"));
  tern::byte_buffer forged(1000000);
  std::fill(forged.begin(), forged.end(), std::byte{1});
  EXPECT_THAT(refused<std::unique_ptr<chain>>(forged), HasSubstr(" deep"));
  std::vector<std::uint64_t> ones(100000, 1); // each level: a vector of one
  const auto deep = tern::byte_buffer::copy_of(std::as_bytes(std::span<const std::uint64_t>(ones)));
  EXPECT_THAT(refused<nest>(deep), HasSubstr(" deep"));
}

// The same on a stack of a fiber's size; classes with large frames are stopped by the stack that
// they take.
struct large_frames {
  std::vector<large_frames> inner;
  template <class A> void serialize(A& ar) {
    volatile char frame[2000] = {};
    frame[0] = 1;
    ar(inner);
    frame[1] = frame[0];
  }
};
TEST(hostile, nesting_on_a_small_stack) {
  const auto body = [](void*) -> void* {
    std::vector<std::uint64_t> ones(1000, 1);
    const auto deep = tern::byte_buffer::copy_of(std::as_bytes(std::span<const std::uint64_t>(ones)));
    EXPECT_THAT(refused<large_frames>(deep), HasSubstr(" KiB of stack; serialize long chains as a vector"));
    EXPECT_THAT(refused<nest>(deep), HasSubstr(" deep"));
    return nullptr;
  };
  pthread_attr_t attributes;
  ASSERT_EQ(::pthread_attr_init(&attributes), 0);
  ASSERT_EQ(::pthread_attr_setstacksize(&attributes, 256 * 1024), 0);
  pthread_t thread;
  ASSERT_EQ(::pthread_create(&thread, &attributes, body, nullptr), 0);
  ::pthread_join(thread, nullptr);
  ::pthread_attr_destroy(&attributes);
}

TEST(hostile, depth_counts_levels_not_objects) {
  std::vector<std::unique_ptr<int>> wide(5000);
  for (auto& each : wide) each = std::make_unique<int>(1);
  EXPECT_EQ(tern::unpack<std::vector<std::unique_ptr<int>>>(tern::pack(wide)).size(), 5000u);
  // A refused nest leaves the archive usable.
  tern::size_archive ar;
  EXPECT_THROW(ar(chain_of(501)), tern::error);
  ar(chain_of(100));
}

struct liar {
  mutable int calls = 0;
  template <class A> void save(A& ar) const {
    for (int i = 0; i < growth_ * calls + 1; ++i) ar(1.0);
    ++calls;
  }
  int growth_ = 1;
};

TEST(hostile, size_differs_from_packed) {
  EXPECT_THAT(refusal([] { (void)tern::pack(1, liar{}, std::string("x")); }),
              AllOf(HasSubstr("a value of type "), HasSubstr("liar was counted as 8 bytes but packed as 16"),
                    HasSubstr("must do the same")));
  EXPECT_THAT(refusal([] { (void)tern::pack(liar{0, -1}); }), HasSubstr("was counted as 8 bytes but packed as 0"));
}

struct animal {
  virtual ~animal() = default;
  template <class A> void serialize(A&) {}
};
struct bird : animal {};

TEST(hostile, polymorphic_pointers) {
  (void)tern::pack(std::make_shared<animal>(), std::make_unique<animal>());
  const auto text =
      refusal([] { (void)tern::pack(std::shared_ptr<animal>(std::make_shared<bird>())); }, tern::errc::unsupported);
  EXPECT_THAT(text, AllOf(HasSubstr("animal holds a "), HasSubstr("bird"), HasSubstr("would be cut down to its base")));
  EXPECT_THAT(
      refusal([] { (void)tern::pack(std::unique_ptr<animal>(std::make_unique<bird>())); }, tern::errc::unsupported),
      HasSubstr("bird"));
}

struct throws_on_copy {
  throws_on_copy() = default;
  throws_on_copy(const throws_on_copy&) { throw 1; }
  template <class A> void serialize(A&) {}
};

TEST(hostile, valueless_variant) {
  std::variant<int, throws_on_copy> v = 1;
  const throws_on_copy bad;
  EXPECT_ANY_THROW(v.emplace<1>(bad));
  ASSERT_TRUE(v.valueless_by_exception());
  EXPECT_THAT(refusal([&] { (void)tern::pack(v); }), HasSubstr("it has lost its value by an exception"));
}

} // namespace
} // namespace hostile_test
