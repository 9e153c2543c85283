// SPDX-License-Identifier: Apache-2.0
/// \file
/// The causal context in which fibers, continuations, coroutines and tasklets run.
#include <tern/task/fiber/causal_context.hpp>

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tests/task/support/executors.hpp"
#include <tern/task/coro.hpp>
#include <tern/task/fiber.hpp>
#include <tern/task/fiber/fiber_state.hpp>
#include <tern/task/future.hpp>
#include <tern/task/parallel.hpp>
#include <tern/task/task_graph.hpp>
#include <tern/task/task_group.hpp>

namespace tern {
namespace {

using detail::causal_context;
using detail::causal_scope;
using detail::held_context;
using detail::this_causal_context;
using test_support::everywhere;
using test_support::on_workers;

class account final : public causal_context {
public:
  void retain() noexcept override { held_.fetch_add(1); }
  void release() noexcept override { held_.fetch_sub(1); } // nothing after that: it may be gone
  /// Runs `body` on it, and waits until nothing goes on.
  template <class F> void run(F&& body) {
    {
      const held_context open(this);
      const causal_scope in(this);
      body();
    }
    while (held_.load() != 0) this_fiber::yield();
  }
  int held() const { return held_.load(); }

private:
  std::atomic<int> held_{0};
};

struct frame final : detail::work_frame {
  frame(const detail::frame_kind& kind, std::uint64_t k) noexcept : work_frame(kind), key(k) {}
  const std::uint64_t key;
  static std::uint64_t key_of(const work_frame& f) noexcept { return static_cast<const frame&>(f).key; }
};

TEST(frames, are_found_by_their_kind) {
  const detail::frame_kind one, other;
  everywhere([&] {
    EXPECT_EQ(detail::work_frame::here(one), nullptr);
    {
      const frame outer(one, 1);
      EXPECT_EQ(detail::work_frame::here(one), &outer);
      const frame between(other, 2);
      EXPECT_EQ(detail::work_frame::here(one), &outer);
      {
        const frame inner(one, 3);
        this_fiber::yield();
        EXPECT_EQ(detail::work_frame::here(one), &inner);
        EXPECT_EQ(detail::work_frame::here(other), &between);
      }
      EXPECT_EQ(detail::work_frame::here(one), &outer);
      async([&] { EXPECT_EQ(detail::work_frame::here(one), nullptr); }).get();
    }
    EXPECT_EQ(detail::work_frame::here(other), nullptr);
  });
}

// Counts for as long as its frame is there.
struct counting_frame final : detail::work_frame {
  counting_frame(const detail::frame_kind& kind, detail::causal_context* by) noexcept : work_frame(kind), by_(by) {}
  static detail::causal_context* count(work_frame& f, detail::causal_context* outer) {
    auto& self = static_cast<counting_frame&>(f);
    self.outer = outer;
    self.by_->retain();
    return self.by_;
  }
  detail::causal_context* outer = nullptr;

private:
  detail::causal_context* const by_;
};

TEST(frames, the_innermost_that_has_one_counts_what_is_submitted) {
  const detail::frame_kind without, with{.account = &counting_frame::count};
  everywhere([&] {
    account context, by;
    EXPECT_EQ(detail::work_frame::count_here(nullptr), nullptr);
    counting_frame of(with, &by);
    const frame within(without, 1);
    EXPECT_EQ(detail::work_frame::count_here(&context), &by);
    EXPECT_EQ(of.outer, &context);
    EXPECT_EQ(by.held(), 1);
    EXPECT_EQ(by.runs_in(), &by) << "unless it says otherwise";
    by.release();
    async([] { EXPECT_EQ(detail::work_frame::count_here(nullptr), nullptr); }).get();
  });
}

TEST(frames, the_innermost_that_has_one_gives_a_key) {
  const detail::frame_kind without, with{&frame::key_of};
  everywhere([&] {
    EXPECT_FALSE(detail::work_frame::key_here());
    const frame outer(with, 7), inner(without, 8);
    EXPECT_EQ(detail::work_frame::key_here(), std::optional<std::uint64_t>(7));
    async([&] { EXPECT_FALSE(detail::work_frame::key_here()); }).get();
    // The function of a task, on the stack of a fiber that waits within the frame.
    const int task = 0;
    detail::fiber& here = *detail::running_fiber();
    const void* const before = std::exchange(here.task, &task);
    EXPECT_FALSE(detail::work_frame::key_here());
    {
      const frame its_own(with, ~std::uint64_t{0});
      EXPECT_EQ(detail::work_frame::key_here(), std::optional(~std::uint64_t{0}));
    }
    here.task = before;
    EXPECT_EQ(detail::work_frame::key_here(), std::optional<std::uint64_t>(7));
  });
  EXPECT_FALSE(detail::work_frame::key_here()) << "on a thread that is no worker";
}

TEST(cause, fibers_inherit_it_and_are_counted_until_their_end) {
  everywhere([] {
    account a;
    std::atomic<int> ran{0};
    const auto note = [&] {
      EXPECT_EQ(this_causal_context(), &a);
      this_fiber::yield();
      EXPECT_EQ(this_causal_context(), &a);
      ++ran;
    };
    a.run([&] {
      static_cast<void>(async(note));
      fiber([&] { static_cast<void>(async(note)); }).detach();
      scheduler::current()->spawn(note);
      note();
    });
    EXPECT_EQ(ran.load(), 4);
    EXPECT_EQ(this_causal_context(), nullptr);
    async([] { EXPECT_EQ(this_causal_context(), nullptr); }).get();
  });
}

TEST(cause, continuations_have_that_of_where_they_were_attached) {
  everywhere([] {
    account a, b;
    promise<int> p;
    auto f = p.get_future();
    future<void> last;
    std::atomic<int> ran{0};
    {
      const held_context open(&a); // else it would be over when the scope ends
      const causal_scope in(&a);
      last = std::move(f).then([&](int) {
        EXPECT_EQ(this_causal_context(), &a);
        static_cast<void>(async([&] {
          EXPECT_EQ(this_causal_context(), &a);
          ++ran;
        }));
      });
    }
    EXPECT_GE(a.held(), 1);
    b.run([&] { p.set_value(1); }); // does not wait for what belongs to the other
    last.get();
    a.run([] {});
    EXPECT_EQ(ran.load(), 1);
  });
}

coro<int> waits(std::atomic<int>& ran, const causal_context* on, future<int> f) {
  EXPECT_EQ(this_causal_context(), on);
  const int x = co_await std::move(f);
  EXPECT_EQ(this_causal_context(), on);
  ++ran;
  co_return x;
}
coro<void> waits_twice(std::atomic<int>& ran, const causal_context* on, future<int> f, future<int> g) {
  co_await waits(ran, on, std::move(f));
  EXPECT_EQ(this_causal_context(), on);
  co_await waits(ran, on, std::move(g));
}

TEST(cause, coroutines_keep_theirs_while_they_wait) {
  everywhere([] {
    account a, b;
    promise<int> p, q;
    std::atomic<int> ran{0};
    future<void> kept; // its state lives on: that counts nothing
    auto set = async([&] {
      b.run([&] { p.set_value(1); });
      q.set_value(2);
    });
    a.run([&] { kept = spawn(waits_twice(ran, &a, p.get_future(), q.get_future())); });
    EXPECT_EQ(ran.load(), 2);
    set.get();
    kept.get();
  });
}

TEST(cause, tasklets_have_that_of_their_group) {
  everywhere([] {
    account a, b;
    std::atomic<int> of_a{0}, of_b{0}, of_nobody{0};
    const auto note = [&] {
      const causal_context* const c = this_causal_context();
      ++(c == &a ? of_a : c == &b ? of_b : of_nobody);
      if (of_a % 3 == 0) this_fiber::yield();
    };
    a.run([&] {
      task_group g;
      for (int i = 0; i < 5; ++i) g.run(note);
      g.wait();
      EXPECT_EQ(this_causal_context(), &a);
      parallel_for(0, 5, [&](int) { note(); });
      task_graph graph;
      graph.precede(graph.add(note), graph.add(note));
      graph.run();
    });
    EXPECT_EQ(of_a.exchange(0), 12);
    // Some for each, in one group; on the heap, too.
    task_group here;
    const auto there = std::make_unique<task_group>();
    for (task_group* g : {&here, there.get()}) {
      g->run(note);
      auto one = async([&] { EXPECT_EQ(this_causal_context(), nullptr); });
      {
        const held_context open(&a);
        const causal_scope in(&a);
        for (int i = 0; i < 3; ++i) g->run(note);
      }
      {
        const held_context open(&b);
        const causal_scope in(&b);
        g->run(note);
      }
      g->run(note);
      g->wait();
      one.get();
      EXPECT_EQ(of_a.exchange(0), 3);
      EXPECT_EQ(of_b.exchange(0), 1);
      EXPECT_EQ(of_nobody.exchange(0), 2);
      while (a.held() + b.held() != 0) this_fiber::yield(); // a tasklet is counted as run before it is destroyed
      EXPECT_EQ(this_causal_context(), nullptr);
    }
  });
}

TEST(cause, groups_that_are_waited_for_on_another_account) {
  everywhere([] {
    account a;
    std::atomic<int> of_a{0}, others{0};
    const auto note = [&] { ++(this_causal_context() == &a ? of_a : others); };
    task_group g;
    for (int i = 0; i < 3; ++i) g.run(note);
    a.run([&] { g.wait(); }); // they have no causal context
    EXPECT_EQ(others.exchange(0), 3);
    a.run([&] {
      for (int i = 0; i < 3; ++i) g.run(note);
      const causal_scope nobody(nullptr);
      g.wait();
    });
    EXPECT_EQ(of_a.load(), 3);
    EXPECT_EQ(others.load(), 0);
  });
}

TEST(cause, groups_let_go_when_they_are_given_up) {
  on_workers(2, [] {
    account a;
    a.run([&] {
      try {
        task_group g;
        g.run_and_wait([&] {
          for (int i = 0; i < 10; ++i) g.run([] { this_fiber::yield(); });
          throw 1;
        });
      } catch (int) {
      }
      EXPECT_EQ(a.held(), 1); // this scope's
      task_group g;
      g.run([] { throw 2; });
      EXPECT_THROW(g.wait(), int);
    });
  });
}

TEST(cause, foreign_threads_have_none) {
  on_workers(2, [] {
    account a;
    promise<void> p;
    std::atomic<int> ran{0};
    a.run([&] {
      auto f = p.get_future();
      static_cast<void>(std::move(f).then([&] {
        EXPECT_EQ(this_causal_context(), &a);
        ++ran;
      }));
      std::thread([&] {
        const causal_scope nothing(&a);
        EXPECT_EQ(this_causal_context(), nullptr);
        p.set_value();
      }).join();
    });
    EXPECT_EQ(ran.load(), 1);
  });
}

} // namespace
} // namespace tern
