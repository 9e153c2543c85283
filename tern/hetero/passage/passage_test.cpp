// SPDX-License-Identifier: Apache-2.0
#include <tern/hetero/passage/incoming.hpp>
#include <tern/hetero/passage/outgoing.hpp>

#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <tern/base/error.hpp>
#include <tern/hetero/hetero_task.hpp>
#include <tern/hetero/recorded.hpp>
#include <tern/task/future.hpp>
#include <tern/task/scheduler.hpp>

namespace tern::hetero::detail {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using object = hetero_object<int>;

/// Is told when the data are there.
struct ear final : outgoing::listener {
  void answered(outgoing&) noexcept override { told.set_value(); }
  promise<void> told{};
};
void run(unique_function<void()> body) {
  scheduler s({.workers = 2});
  EXPECT_EQ(s.run(std::move(body)), 0u);
}
std::unique_ptr<outgoing> leaving(object x, bool gives = false) {
  const box part = x.inside_part();
  return std::make_unique<outgoing>(x.release_handle(), part, gives);
}
std::vector<int> ints(const byte_buffer& bytes) {
  std::vector<int> v(bytes.size() / sizeof(int));
  std::memcpy(v.data(), bytes.data(), bytes.size());
  return v;
}
byte_buffer bytes_of(const std::vector<int>& v) { return byte_buffer::copy_of(std::as_bytes(std::span(v))); }
void set(const object& x, int to) {
  submit(
      [to](host_view<int, 1> v) {
        for (int& e : v) e = to;
      },
      write(x));
}

TEST(outgoing, data_that_are_here_can_be_taken_at_once) {
  run([] {
    object x(3, 7);
    const std::unique_ptr<outgoing> out = leaving(x);
    ear tells;
    ASSERT_TRUE(out->begin(tells));
    EXPECT_FALSE(out->failure());
    EXPECT_EQ(out->bytes(), 12u);
    byte_buffer lent = out->take();
    EXPECT_TRUE(lent.borrowed());
    EXPECT_FALSE(lent.writable());
    EXPECT_TRUE(lent.is_waited_for());
    set(x, 8); // waits until it has come back
    EXPECT_THAT(ints(lent), ElementsAre(7, 7, 7));
    lent = {};
    EXPECT_EQ(x.host(access_mode::read).get()(0), 8);
  });
}

TEST(outgoing, data_that_are_computed_are_told_of) {
  run([] {
    object x(3, 7);
    promise<void> gate;
    auto open = gate.get_future();
    submit(
        [&](host_view<int, 1> v) {
          open.get();
          v(1) = 9;
        },
        read_write(x));
    ear tells;
    auto told = tells.told.get_future();
    const std::unique_ptr<outgoing> out = leaving(x);
    ASSERT_FALSE(out->begin(tells));
    set(x, 1); // comes later
    gate.set_value();
    told.get();
    std::vector<int> v(3);
    out->copy_to(reinterpret_cast<std::byte*>(v.data()));
    EXPECT_THAT(v, ElementsAre(7, 9, 7));
    out->release();
    EXPECT_EQ(x.host(access_mode::read).get()(1), 1);
  });
}

TEST(outgoing, parts_are_packed) {
  run([] {
    hetero_object<int, 2> x({2, 3}, 0);
    submit(
        [](host_view<int, 2> v) {
          for (int i = 0; i < 6; ++i) v(i / 3, i % 3) = i;
        },
        write(x));
    x.host(access_mode::read).get();
    auto part = x.part({0, 1}, {2, 3});
    const box at = part.inside_part();
    outgoing out(part.release_handle(), at, false);
    ear tells;
    ASSERT_TRUE(out.begin(tells));
    const byte_buffer packed = out.take();
    EXPECT_FALSE(packed.borrowed());
    EXPECT_THAT(ints(packed), ElementsAre(1, 2, 4, 5));
    submit([](host_view<int, 2> v) { v(0, 0) = 1; }, read_write(x)); // does not wait
    wait_all();
  });
}

TEST(outgoing, memory_is_given_away_with_the_last_handle) {
  run([] {
    for (const bool other : {false, true}) {
      object x(3, 7);
      const int* const memory = x.host(access_mode::read).get().data();
      const object kept = other ? x : object();
      const std::unique_ptr<outgoing> out = leaving(std::move(x), true);
      ear tells;
      ASSERT_TRUE(out->begin(tells));
      EXPECT_EQ(out->gives(), !other);
      const byte_buffer bytes = out->take();
      EXPECT_EQ(static_cast<const void*>(bytes.data()), memory);
      EXPECT_EQ(bytes.writable(), !other);
      EXPECT_THAT(ints(bytes), ElementsAre(7, 7, 7));
    }
    wait_all();
  });
}

TEST(outgoing, what_failed_is_said) {
  run([] {
    object x(3, 7);
    submit([](host_view<int, 1>) { throw error(errc::io, "no paper"); }, read_write(x));
    ear tells;
    const std::unique_ptr<outgoing> out = leaving(x);
    auto told = tells.told.get_future();
    if (!out->begin(tells)) told.get();
    ASSERT_TRUE(out->failure());
    EXPECT_THROW(std::rethrow_exception(out->failure()), error);
    EXPECT_THROW(wait_all(), error);
  });
}

TEST(outgoing, nothing_leaves_while_tasks_are_recorded) {
  run([] {
    object x(3, 7);
    recorded step("step");
    std::string why;
    step.submit([&] {
      set(x, 1);
      ear tells;
      const std::unique_ptr<outgoing> out = leaving(x);
      try {
        out->begin(tells);
      } catch (const error& e) {
        EXPECT_EQ(e.code(), errc::invalid_state);
        why = e.what();
      }
    });
    EXPECT_THAT(why, HasSubstr("within recorded::submit of 'step'"));
    wait_all();
  });
}

TEST(incoming, tasks_wait_for_what_lands) {
  run([] {
    object x(3);
    auto in = std::make_unique<incoming>(*x.inside());
    int sum = 0;
    submit(
        [&](host_view<const int, 1> v) {
          for (const int e : v) sum += e;
        },
        read(x));
    auto part = x.part({1}, {3}); // may be named before the data have come
    auto access = part.host(access_mode::read);
    EXPECT_FALSE(access.ready());
    byte_buffer bytes = bytes_of({1, 2, 4});
    const void* const memory = bytes.data();
    in->land(std::move(bytes));
    auto v = access.get();
    EXPECT_EQ(static_cast<const void*>(v.data() - 1), memory); // not copied
    EXPECT_EQ(v(1), 4);
    v.release();
    wait_all();
    EXPECT_EQ(sum, 7);
  });
}

TEST(incoming, what_does_not_come_fails_those_that_need_it) {
  run([] {
    for (const bool said : {true, false}) {
      object x(3);
      auto in = std::make_unique<incoming>(*x.inside());
      auto access = x.host(access_mode::read);
      if (said) in->fail(std::make_exception_ptr(error(errc::io, "the mail is late")));
      in.reset();
      try {
        static_cast<void>(access.get());
        ADD_FAILURE() << "there was nothing to read";
      } catch (const error& e) {
        EXPECT_THAT(e.what(), HasSubstr(said ? "the mail is late" : "did not come"));
      }
      set(x, 4); // anew
      EXPECT_EQ(x.host(access_mode::read).get()(2), 4);
      wait_all();
    }
  });
}

TEST(incoming, an_object_may_go_before_it_has_come) {
  run([] {
    auto x = std::make_unique<object>(3);
    incoming in(*x->inside());
    x.reset();
    in.land(bytes_of({1, 2, 3}));
    wait_all();
  });
}

TEST(incoming, what_has_landed_can_be_given_away) {
  run([] {
    object x(3);
    byte_buffer bytes = bytes_of({1, 2, 3});
    const void* const memory = bytes.data();
    land_at_once(*x.inside(), std::move(bytes));
    set(x, 5);
    x.host(access_mode::read).get();
    const std::unique_ptr<outgoing> out = leaving(std::move(x), true);
    ear tells;
    ASSERT_TRUE(out->begin(tells));
    const byte_buffer taken = out->take();
    EXPECT_EQ(static_cast<const void*>(taken.data()), memory);
    EXPECT_THAT(ints(taken), ElementsAre(5, 5, 5));
  });
}

} // namespace
} // namespace tern::hetero::detail
