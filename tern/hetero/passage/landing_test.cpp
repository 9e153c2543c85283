// SPDX-License-Identifier: Apache-2.0
#include <tern/hetero/passage/combining.hpp>
#include <tern/hetero/passage/landing.hpp>

#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <tern/base/error.hpp>
#include <tern/hetero/hetero_task.hpp>
#include <tern/hetero/passage/incoming.hpp>
#include <tern/hetero/recorded.hpp>
#include <tern/task/future.hpp>
#include <tern/task/scheduler.hpp>

namespace tern::hetero::detail {
namespace {

using testing::HasSubstr;
using object = hetero_object<int>;

/// Is told when data are in their target.
struct watcher final : landing::listener {
  void landed(std::exception_ptr why) noexcept override {
    if (why)
      told.set_exception(std::move(why));
    else
      told.set_value();
  }
  promise<void> told{};
  future<void> over = told.get_future();
};
void in_scheduler(unique_function<void()> body) {
  scheduler s({.workers = 2});
  EXPECT_EQ(s.run(std::move(body)), 0u);
}
template <int N> std::unique_ptr<landing> landing_on(hetero_view<int, N> to, landing::listener& tells) {
  const box part = to.inside_part();
  auto l = std::make_unique<landing>(to.release_handle(), part, tells);
  l->begin();
  return l;
}
byte_buffer packed(const std::vector<int>& v) { return byte_buffer::copy_of(std::as_bytes(std::span(v))); }
int first_of(const object& x) { return x.host(access_mode::read).get()(0); }

TEST(landing, writes_a_part_and_leaves_the_rest) {
  in_scheduler([] {
    hetero_object<int, 2> x({3, 4}, 7);
    watcher w;
    const auto l = landing_on(x.part({1, 1}, {3, 3}), w);
    const auto access = x.host(access_mode::read);
    EXPECT_FALSE(access.ready()); // it comes later
    l->land(packed({1, 2, 3, 4}));
    w.over.get();
    EXPECT_FALSE(l->how().aside);
    EXPECT_FALSE(l->how().adopted);
    const auto v = x.host(access_mode::read).get();
    EXPECT_EQ(v(0, 0), 7);
    EXPECT_EQ(v(1, 1), 1);
    EXPECT_EQ(v(1, 2), 2);
    EXPECT_EQ(v(2, 1), 3);
    EXPECT_EQ(v(2, 2), 4);
    EXPECT_EQ(v(2, 3), 7);
  });
}

TEST(landing, takes_over_the_memory_of_a_whole_object) {
  in_scheduler([] {
    object x(4000, 7);
    for (int round = 1; round < 4; ++round) { // also in the place of memory that it took over before
      watcher w;
      const auto l = landing_on<1>(x, w);
      byte_buffer bytes = packed(std::vector<int>(4000, round));
      const void* const memory = bytes.data();
      l->land(std::move(bytes));
      w.over.get();
      EXPECT_TRUE(l->how().adopted);
      const auto v = x.host(access_mode::read).get();
      EXPECT_EQ(static_cast<const void*>(v.data()), memory);
      EXPECT_EQ(v(3999), round);
    }
    wait_all();
  });
}

TEST(landing, the_users_own_memory_stays_the_objects) {
  in_scheduler([] {
    std::vector<int> own(4000, 7);
    {
      const object x = object::adopt(own.data(), {{4000}});
      watcher w;
      const auto l = landing_on<1>(x, w);
      l->land(packed(std::vector<int>(4000, 5)));
      w.over.get();
      EXPECT_FALSE(l->how().adopted);
    }
    wait_all();
    EXPECT_EQ(own[3999], 5);
  });
}

TEST(landing, data_that_come_early_lie_aside) {
  in_scheduler([] {
    for (const int n : {3, 4000}) {
      object x(n, 7);
      auto held = x.host(access_mode::read).get();
      watcher w;
      const auto l = landing_on<1>(x, w);
      l->land(packed(std::vector<int>(static_cast<std::size_t>(n), 9))); // does not wait
      EXPECT_EQ(held(0), 7);
      EXPECT_FALSE(w.over.ready());
      held.release();
      w.over.get();
      EXPECT_TRUE(l->how().aside);
      EXPECT_EQ(first_of(x), 9);
    }
    wait_all();
  });
}

TEST(landing, what_does_not_come_leaves_the_object_and_fails_its_readers) {
  in_scheduler([] {
    for (const bool early : {true, false}) {
      object x(3, 7);
      auto held = x.host(access_mode::read).get();
      watcher w;
      const auto l = landing_on<1>(x, w);
      if (!early) held.release();
      l->fail(std::make_exception_ptr(error(errc::io, "the mail is late")));
      held.release();
      EXPECT_THROW(w.over.get(), error);
      try {
        first_of(x);
        ADD_FAILURE() << "its data did not come";
      } catch (const error& e) {
        EXPECT_THAT(e.what(), HasSubstr("the mail is late"));
      }
      watcher again;
      const auto next = landing_on<1>(x, again);
      next->land(packed({1, 2, 3}));
      again.over.get();
      EXPECT_EQ(first_of(x), 1);
    }
  });
}

TEST(landing, not_while_tasks_are_recorded) {
  in_scheduler([] {
    object x(3, 7);
    recorded step("step");
    step.submit([&] {
      submit([](host_view<int, 1> v) { v(0) = 1; }, read_write(x));
      watcher w;
      EXPECT_THROW(landing_on<1>(x, w), error);
    });
    wait_all();
  });
}

void add_ints(std::byte* into, const std::byte* from, std::int64_t n) {
  auto* const a = reinterpret_cast<int*>(into);
  for (std::int64_t i = 0; i < n; ++i) a[i] += reinterpret_cast<const int*>(from)[i];
}
/// Has the object `data` added to `to`. \return ready when that is done.
future<void> added(const hetero_view<int, 1>& to, const object& data, const object& old = {}) {
  auto told = std::make_shared<promise<void>>();
  future<void> over = told->get_future();
  combine_request r;
  r.target = to.inside();
  r.part = to.inside_part();
  r.data = data.inside();
  r.old = old ? old.inside() : nullptr;
  r.combine = &add_ints;
  r.over = [told](std::exception_ptr why) {
    if (why)
      told->set_exception(why);
    else
      told->set_value();
  };
  submit_combine(std::move(r));
  return over;
}

TEST(combining, adds_to_a_part_and_gives_what_was_there) {
  in_scheduler([] {
    object x(5, 7);
    const object old(3);
    added(x.part({1}, {4}), object(3, 10), old).get();
    EXPECT_EQ(first_of(old), 7);
    const auto v = x.host(access_mode::read).get();
    EXPECT_EQ(v(0), 7);
    EXPECT_EQ(v(1), 17);
    EXPECT_EQ(v(3), 17);
    EXPECT_EQ(v(4), 7);
  });
}

// One whose data are late does not hold up others: they commute.
TEST(combining, waits_for_no_other) {
  in_scheduler([] {
    object x(3, 0);
    hetero::detail::object_state* const late = new_object_like(*x.inside(), x.inside_part());
    const object data = object::from_handle(late);
    incoming in(*late);
    auto second_last = added(x, data);
    added(x, object(3, 5)).get();
    EXPECT_FALSE(second_last.ready());
    in.land(packed({100, 100, 100}));
    second_last.get();
    EXPECT_EQ(first_of(x), 105);
  });
}

TEST(combining, fails_with_its_data) {
  in_scheduler([] {
    object x(3, 0);
    const object data(3, 0);
    submit([](host_view<int, 1>) { throw error(errc::io, "no paper"); }, read_write(data));
    EXPECT_THROW(added(x, data).get(), error);
    EXPECT_THROW(wait_all(), error);
  });
}

} // namespace
} // namespace tern::hetero::detail
