// SPDX-License-Identifier: Apache-2.0
// Order, completion and errors of tasks, on the host.
#include <atomic>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/hetero/support/tasks.hpp"
#include <tern/hetero/graph/runtime.hpp>
#include <tern/task/fiber.hpp>
#include <tern/task/sync.hpp>

namespace tern::hetero {
namespace {

using ::testing::HasSubstr;

class engine : public ::testing::TestWithParam<int> {
protected:
  template <class F> void run(F&& f) { on({.workers = GetParam()}, std::forward<F>(f)); }
};
INSTANTIATE_TEST_SUITE_P(workers, engine, ::testing::Values(1, 2, 4));

TEST_P(engine, independent_tasks_all_run) {
  run([] {
    std::atomic<int> n = 0;
    for (int i = 0; i < 10'000; ++i) submit([&n] { ++n; });
    wait_all();
    EXPECT_EQ(n, 10'000);
    const statistics s = count();
    EXPECT_EQ(s.submitted, 10'000u);
    EXPECT_EQ(s.completed, 10'000u);
  });
}

TEST_P(engine, a_chain_runs_in_order) {
  run([] {
    hetero_object<std::int64_t> x(1, 0);
    constexpr int n = 20'000;
    for (int i = 0; i < n; ++i)
      submit(
          [i](host_view<std::int64_t, 1> v) {
            if (v[0] == i) ++v[0];
          },
          read_write(x));
    auto host = x.host(access_mode::read).get();
    EXPECT_EQ(host[0], n);
  });
}

TEST_P(engine, readers_come_between_writers) {
  run([] {
    hetero_object<int> x(100, 0), sums(1000, 0);
    for (int round = 0; round < 100; ++round) {
      submit([round](int* v) { std::fill(v, v + 100, round); }, write(x));
      for (int k = 0; k < 10; ++k)
        submit([](const int* v, int* s) { *s = std::accumulate(v, v + 100, 0); }, read(x),
               write(sums.part({round * 10 + k}, {round * 10 + k + 1})));
    }
    auto host = sums.host(access_mode::read).get();
    for (int i = 0; i < 1000; ++i) EXPECT_EQ(host[i], i / 10 * 100) << i;
  });
}

TEST_P(engine, values_and_views_reach_functions) {
  run([] {
    hetero_object<double, 2> a({6, 8}, 0.0);
    submit(
        [](host_view<double, 2> v, double x, const std::string& s) {
          EXPECT_EQ(v.extent(0), 2);
          EXPECT_EQ(v.extent(1), 3);
          EXPECT_EQ(v.pitch(), 8);
          EXPECT_EQ(s, "text");
          for (int i = 0; i < 2; ++i)
            for (int j = 0; j < 3; ++j) v(i, j) = x + 10 * i + j;
        },
        read_write(a.part({1, 2}, {3, 5})), 0.5, std::string("text"));
    auto host = a.host(access_mode::read).get();
    for (int i = 0; i < 6; ++i)
      for (int j = 0; j < 8; ++j)
        EXPECT_EQ(host(i, j), i >= 1 && i < 3 && j >= 2 && j < 5 ? 0.5 + 10 * (i - 1) + j - 2 : 0) << i << " " << j;
  });
}

TEST_P(engine, a_task_with_large_closures_and_many_objects) {
  run([] {
    std::vector<hetero_object<int>> all;
    for (int i = 0; i < 30; ++i) all.emplace_back(1, i);
    std::array<double, 100> large{};
    large[99] = 3;
    hetero_object<double> sum(1, 0.0);
    // 13 uses: more than there is room for in a record
    for (int round = 0; round < 10; ++round)
      submit([large](double* s, const int* a, const int* b, const int* c, const int* d, const int* e, const int* f,
                     const int* g, const int* h, const int* i, const int* j, const int* k,
                     const int* l) { *s += large[99] + *a + *b + *c + *d + *e + *f + *g + *h + *i + *j + *k + *l; },
             read_write(sum), read(all[0]), read(all[1]), read(all[2]), read(all[3]), read(all[4]), read(all[5]),
             read(all[6]), read(all[7]), read(all[8]), read(all[9]), read(all[10]), read(all[11]));
    EXPECT_EQ(sum.host(access_mode::read).get()[0], 10 * (3 + 66));
  });
}

TEST_P(engine, host_access_holds_others_back) {
  run([] {
    hetero_object<int> x(1, 1);
    auto held = x.host(access_mode::read_write).get();
    std::atomic<bool> ran = false;
    hetero_task t(
        [&](int* v) {
          ran = true;
          *v *= 2;
        },
        read_write(x));
    t.submit();
    for (int i = 0; i < 100; ++i) this_fiber::yield();
    EXPECT_FALSE(ran);
    EXPECT_EQ(t.status(), task_status::waiting);
    held[0] = 21;
    held.release();
    t.wait();
    EXPECT_EQ(t.status(), task_status::done);
    EXPECT_EQ(x.host(access_mode::read).get()[0], 42);
  });
}

TEST_P(engine, two_readers_of_the_host_at_once) {
  run([] {
    hetero_object<int> x(1, 5);
    auto a = x.host(access_mode::read).get();
    auto b = x.host(access_mode::read).get();
    EXPECT_EQ(a[0] + b[0], 10);
  });
}

TEST_P(engine, explicit_order_also_on_submitted_tasks) {
  run([] {
    std::vector<int> order;
    hetero_task a([&] { order.push_back(1); }), b([&] { order.push_back(2); }), c([&] { order.push_back(3); });
    c.after(b);
    b.after(a);
    c.submit();
    b.submit();
    a.submit();
    c.wait();
    EXPECT_EQ(order, (std::vector<int>{1, 2, 3}));
    hetero_task d([&] { order.push_back(4); });
    d.after(a).after(c).submit().wait();
    EXPECT_EQ(order.back(), 4);
  });
}

TEST_P(engine, what_a_task_throws_comes_out_of_its_wait) {
  run([] {
    hetero_task t([] { throw std::range_error("too far"); });
    t.submit();
    EXPECT_THROW(t.wait(), std::range_error);
    EXPECT_THROW(t.done().get(), std::range_error);
    EXPECT_EQ(t.status(), task_status::failed);
    wait_all(); // it has been told
  });
}

TEST_P(engine, who_needs_what_a_failed_task_was_to_write_is_not_run) {
  run([] {
    hetero_object<int> x(1, 0), y(1, 0), z(1, 7);
    hetero_task bad([](int*) { throw error(errc::io, "the disk is on fire", "call somebody"); }, read_write(x));
    bad.name("load").submit();
    std::atomic<int> ran = 0;
    hetero_task next([&](const int*, int*) { ++ran; }, read(x), write(y));
    next.name("solve").submit();
    hetero_task last([&](const int*) { ++ran; }, read(y));
    last.name("print").submit();
    hetero_task other([&](int* v) { ++*v; }, read_write(z));
    other.submit().wait();
    EXPECT_EQ(ran, 0);
    EXPECT_THAT(
        text_of_error([&] { next.wait(); }),
        HasSubstr("task 'solve' was not run, as 'load' before it failed: the disk is on fire; call somebody [io"));
    EXPECT_THAT(text_of_error([&] { last.wait(); }),
                HasSubstr("task 'print' was not run, as 'solve' before it was not: task 'solve' was not run, as 'load' "
                          "before it failed: the disk is on fire; call somebody [io"));
    EXPECT_THAT(text_of_error([&] { x.host(access_mode::read).get(); }), HasSubstr("the disk is on fire"));
    // Written anew, it is as good as ever; also after it has failed long ago.
    submit([](int* v) { *v = 3; }, write(x));
    EXPECT_EQ(x.host(access_mode::read).get()[0], 3);
    EXPECT_EQ(z.host(access_mode::read).get()[0], 8);
    EXPECT_THROW(bad.wait(), error);
    wait_all();
  });
}

// One link stands for both edges, and must be the one that failures follow; in any order of the
// arguments.
TEST_P(engine, what_follows_a_failed_task_twice_is_not_run_if_it_needs_it) {
  run([] {
    hetero_object<int> x(1, 0), y(1, 0), z(1, 0), held(1, 0);
    for (const bool write_first : {true, false}) {
      auto block = held.host(access_mode::write).get(); // until all are submitted
      hetero_task bad([](int*, const int*, const int*) { throw std::runtime_error("no"); }, write(x), read(y),
                      read(held));
      bad.submit();
      std::atomic<int> ran = 0;
      hetero_task needs = write_first ? hetero_task([&](int*, const int*) { ++ran; }, write(y), read(x))
                                      : hetero_task([&](const int*, int*) { ++ran; }, read(x), write(y));
      needs.submit();
      hetero_task also_bad([](const int*, const int*) { throw std::runtime_error("no"); }, read(z), read(held));
      also_bad.submit();
      hetero_task overwrites([&](int*) { ++ran; }, write(z));
      overwrites.submit();
      block.release();
      overwrites.wait();
      EXPECT_THROW(needs.wait(), error);
      for (const hetero_task* one : {&bad, &also_bad}) EXPECT_THROW(one->wait(), std::runtime_error);
      EXPECT_EQ(ran, 1);
      submit([](int* a, int* b) { *a = *b = 0; }, write(x), write(y)); // written anew
    }
    wait_all();
  });
}

TEST_P(engine, wait_all_tells_what_nobody_else_has_been_told) {
  run([] {
    submit([] { throw std::runtime_error("one"); });
    EXPECT_THROW(wait_all(), std::runtime_error);
    wait_all();
  });
}

TEST_P(engine, cancelled_tasks_do_not_run) {
  run([] {
    hetero_object<int> x(1, 0);
    auto held = x.host(access_mode::read_write).get();
    std::atomic<int> ran = 0;
    hetero_task t([&](int*) { ++ran; }, read_write(x));
    t.name("heavy").submit();
    hetero_task after([&](const int*) { ++ran; }, read(x));
    after.submit();
    EXPECT_TRUE(t.cancel());
    EXPECT_FALSE(t.cancel());
    held.release();
    EXPECT_THAT(text_of_error([&] { t.wait(); }), HasSubstr("task 'heavy' was cancelled [cancelled"));
    EXPECT_THAT(text_of_error([&] { after.wait(); }),
                HasSubstr("as 'heavy' before it failed: task 'heavy' was cancelled"));
    EXPECT_EQ(ran, 0);
    hetero_task done([] {});
    done.submit().wait();
    EXPECT_FALSE(done.cancel());
  });
}

TEST_P(engine, cancelling_while_they_run_is_one_or_the_other) {
  run([] {
    for (int i = 0; i < 2000; ++i) {
      std::atomic<int> ran = 0;
      hetero_task t([&] { ++ran; });
      t.submit();
      const bool cancelled = t.cancel();
      if (cancelled)
        EXPECT_THROW(t.wait(), error);
      else
        t.wait();
      EXPECT_EQ(ran, cancelled ? 0 : 1);
    }
  });
}

TEST_P(engine, callbacks_come_once) {
  run([] {
    std::atomic<int> good = 0, bad = 0;
    hetero_task t([] {});
    t.submit();
    for (int i = 0; i < 10; ++i) t.then([&](std::exception_ptr e) { (e ? bad : good)++; });
    hetero_task f([] { throw 1; });
    f.submit();
    f.then([&](std::exception_ptr e) { (e ? bad : good)++; });
    wait_all();
    EXPECT_EQ(good, 10);
    EXPECT_EQ(bad, 1);
  });
}

TEST_P(engine, a_task_never_submitted_fails_those_after_it) {
  run([] {
    hetero_task b([] {});
    {
      hetero_task a([] {});
      a.name("forgotten");
      b.after(a);
    }
    b.submit();
    EXPECT_THAT(text_of_error([&] { b.wait(); }), HasSubstr("task 'forgotten' was never submitted; call submit()"));
    EXPECT_THAT(text_of_error([&] { b.submit(); }), HasSubstr("hetero_task::submit: task 'task' has been submitted"));
    wait_all();
  });
}

TEST_P(engine, objects_outlive_their_tasks) {
  run([] {
    std::atomic<int> sum = 0;
    for (int i = 0; i < 500; ++i) {
      hetero_object<int> x(10, 1);
      submit([](int* v) { v[3] += 2; }, read_write(x));
      submit([&sum](const int* v) { sum += std::accumulate(v, v + 10, 0); }, read(x));
    }
    wait_all();
    EXPECT_EQ(sum, 500 * 12);
  });
}

TEST_P(engine, commuting_tasks_never_run_at_once) {
  run([] {
    hetero_object<int> x(1, 0), y(1, 0);
    std::atomic<int> in_x = 0, in_y = 0;
    for (int i = 0; i < 600; ++i) {
      const auto body = [&](int* a, int* b) {
        EXPECT_EQ(++in_x, 1);
        EXPECT_EQ(++in_y, 1);
        ++*a;
        ++*b;
        if (*a % 7 == 0) this_fiber::yield();
        --in_y;
        --in_x;
      };
      if (i % 3 == 0)
        submit(body, commute(x), commute(y));
      else if (i % 3 == 1)
        submit(
            [&](int* a) {
              EXPECT_EQ(++in_x, 1);
              ++*a;
              this_fiber::yield();
              --in_x;
            },
            commute(x));
      else
        submit(
            [&](int* b) {
              EXPECT_EQ(++in_y, 1);
              ++*b;
              --in_y;
            },
            commute(y));
      if (i == 300)
        submit(
            [](const int* a, const int* b) {
              EXPECT_EQ(*a, 201);
              EXPECT_EQ(*b, 201);
            },
            read(x), read(y));
    }
    EXPECT_EQ(x.host(access_mode::read).get()[0], 400);
    EXPECT_EQ(y.host(access_mode::read).get()[0], 400);
  });
}

TEST_P(engine, reductions_add_up_in_the_same_way_each_time) {
  std::vector<double> results;
  for (int round = 0; round < 4; ++round)
    run([&] {
      hetero_object<double> x(8, 1.0);
      for (int i = 0; i < 1000; ++i)
        submit(
            [i](double* v) {
              for (int k = 0; k < 8; ++k) v[k] += 1.0 / (1 + i * 7 + k);
            },
            reduce(x, std::plus<>(), 0.0));
      auto h = x.host(access_mode::read).get();
      double expected = 1;
      for (int i = 0; i < 1000; ++i) expected += 1.0 / (1 + i * 7 + 3);
      EXPECT_NEAR(h[3], expected, 1e-12);
      results.push_back(h[3]);
    });
  for (const double r : results) EXPECT_EQ(r, results[0]);
}

TEST_P(engine, reductions_of_parts_and_of_several_kinds) {
  run([] {
    struct most {
      int operator()(int a, int b) const { return a > b ? a : b; }
    };
    hetero_object<int, 2> x({4, 4}, 0);
    for (int i = 1; i <= 50; ++i) submit([i](int* v) { v[0] += i; }, reduce(x.part({1, 1}, {3, 3}), std::plus<>(), 0));
    for (int i = 1; i <= 50; ++i)
      submit([i](int* v) { v[3] = std::max(v[3], i); }, reduce(x.part({1, 1}, {3, 3}), most(), -1));
    auto h = x.host(access_mode::read).get();
    EXPECT_EQ(h(1, 1), 50 * 51 / 2);
    EXPECT_EQ(h(2, 2), 50);
    EXPECT_EQ(h(0, 0), 0);
    EXPECT_EQ(h(1, 2), 0);
  });
}

TEST_P(engine, implicit_order_can_be_switched_off) {
  run([] {
    hetero_object<int> x(1, 0);
    auto held = x.host(access_mode::read_write).get();
    std::atomic<bool> ran = false;
    hetero_task t([&](int*) { ran = true; }, read_write(x));
    t.implicit(false).submit().wait();
    EXPECT_TRUE(ran);
    implicit_dependencies(false);
    ran = false;
    submit([&](int*) { ran = true; }, read_write(x));
    implicit_dependencies(true);
    while (!ran) this_fiber::yield();
    held.release();
    wait_all();
  });
}

TEST_P(engine, tasks_submit_tasks_and_wait) {
  run([] {
    std::atomic<int> n = 0;
    for (int i = 0; i < 50; ++i)
      submit([&n] {
        hetero_object<int> x(1, 0);
        for (int k = 0; k < 20; ++k) submit([&n](int* v) { ++*v, ++n; }, read_write(x));
        EXPECT_EQ(x.host(access_mode::read).get()[0], 20);
      });
    wait_all();
    EXPECT_EQ(n, 1000);
  });
}

TEST_P(engine, several_submit_at_once) {
  run([] {
    hetero_object<std::int64_t> x(1, 0), y(1, 0);
    std::vector<future<void>> all;
    for (int f = 0; f < 8; ++f)
      all.push_back(async([&] {
        for (int i = 0; i < 500; ++i)
          submit(
              [](std::int64_t* a, std::int64_t* b) {
                EXPECT_EQ(*a, *b); // both or none of each task's are there
                ++*a;
                ++*b;
              },
              read_write(x), read_write(y));
      }));
    for (auto& f : all) f.get();
    EXPECT_EQ(x.host(access_mode::read).get()[0], 4000);
  });
}

TEST_P(engine, memory_is_used_again) {
  run([] {
    hetero_object<int> x(1, 0);
    for (int round = 0; round < 20; ++round) {
      for (int i = 0; i < 5000; ++i) submit([](int* v) { ++*v; }, read_write(x));
      wait_all();
    }
    // Of 100,000 tasks no more than those that wait at once, and what workers keep.
    EXPECT_LE(detail::runtime::here("test").records().records_made(), 16u * 1024);
  });
}

TEST_P(engine, waiting_for_the_last_two_ends) {
  run([] {
    for (int round = 0; round < 20'000; ++round) {
      submit([] {});
      submit([] {});
      wait_all();
    }
    EXPECT_EQ(count().completed, 40'000u);
  });
}

TEST_P(engine, a_task_keeps_its_objects_until_it_is_submitted) {
  run([] {
    std::atomic<int> seen = 0;
    hetero_task t;
    {
      hetero_object<int> a(100, 3);
      t = hetero_task([&](const int* v) { seen = v[99]; }, read(a));
    }
    t.submit().wait();
    EXPECT_EQ(seen, 3);
    hetero_object<int> sum(1, 0);
    hetero_task late([](int* v) { *v += 5; }, reduce(sum, std::plus<>(), 0));
    submit([](int* v) { *v += 1; }, reduce(sum, std::plus<>(), 0));
    EXPECT_EQ(sum.host(access_mode::read).get()[0], 1);
    late.submit();
    EXPECT_EQ(sum.host(access_mode::read).get()[0], 6);
    {
      hetero_task never([](int*, int*) {}, reduce(sum, std::plus<>(), 0), read_write(sum));
    }
  });
}

TEST_P(engine, who_comes_later_follows_those_without_an_order) {
  run([] {
    hetero_object<int> a(1, 0);
    auto held = a.host(access_mode::write).get(); // the first writer is at it
    std::atomic<int> next = 0;
    hetero_task reader([](const int*) {}, read(a));
    reader.implicit(false).submit().wait();
    hetero_task writer([&](int* v) { *v = ++next; }, write(a));
    writer.submit();
    for (int i = 0; i < 50; ++i) this_fiber::yield();
    EXPECT_EQ(next, 0);
    held.release();
    writer.wait();
    std::atomic<bool> go = false;
    hetero_task slow(
        [&](int* v) {
          while (!go) this_fiber::yield();
          *v = 7;
        },
        read_write(a));
    slow.implicit(false).submit();
    auto look = a.host(access_mode::read);
    for (int i = 0; i < 50; ++i) this_fiber::yield();
    EXPECT_FALSE(look.ready());
    go = true;
    EXPECT_EQ(look.get()[0], 7);
  });
}

TEST_P(engine, functions_with_priority_may_wait_for_others) {
  run([] {
    std::atomic<int> ran = 0;
    for (int i = 0; i < 40; ++i)
      hetero_task([&] {
        hetero_task child([&] { ++ran; });
        child.priority(1).submit().wait();
      })
          .priority(1)
          .submit();
    wait_all();
    EXPECT_EQ(ran, 40);
  });
}

TEST_P(engine, a_late_failure_is_told_after_many_known_ones) {
  run([] {
    for (int i = 0; i < 100; ++i) {
      hetero_task t([] { throw std::runtime_error("known"); });
      t.submit();
      EXPECT_THROW(t.wait(), std::runtime_error);
    }
    submit([] { throw std::range_error("unknown"); });
    EXPECT_THROW(wait_all(), std::range_error);
  });
}

TEST(engine_after, handles_may_outlive_their_scheduler) {
  hetero_task t, never;
  std::unique_ptr<hetero_object<int>> o; // g++ 12 warns of an optional without cause
  on({}, [&] {
    o = std::make_unique<hetero_object<int>>(10, 1);
    t = hetero_task([](int* v) { v[0] = 2; }, reduce(*o, std::plus<>(), 0));
    t.submit().wait();
    never = hetero_task([](int*) {}, read_write(*o));
  });
  o.reset();
}

TEST(engine_texts, wrong_use_is_told) {
  EXPECT_THAT(text_of_error([] { hetero_object<int> x(3); }),
              HasSubstr("hetero_object was called on a thread that is no worker; call it from inside tern::run or "
                        "scheduler::run [invalid_state"));
  on({}, [] {
    hetero_object<float, 2> x({3, 4});
    x.name("field");
    EXPECT_THAT(text_of_error([] { hetero_object<int> bad(0); }),
                HasSubstr("hetero_object<int>: extent 0 is 0; each extent is from 1 to 2147483647"));
    EXPECT_THAT(text_of_error([&] {
                  x.part({0, 2}, {1, 5});
                }),
                HasSubstr("there is no part [2, 5) in dimension 1 of hetero_object<float> 'field' of 3 x 4; a part has "
                          "at least one element and lies in [0, 4)"));
    EXPECT_THAT(text_of_error([&] { x.host(access_mode::read).get(); }),
                HasSubstr("task 'host access' reads hetero_object<float> 'field' of 3 x 4, which nothing has written "
                          "yet; write it first, or give the object a value when it is made"));
    EXPECT_THAT(text_of_error([&] { x.halo(-1); }),
                HasSubstr("a halo of -1 around hetero_object<float> 'field' of 3 x 4"));
    EXPECT_THAT(text_of_error([] {
                  hetero_object<double, 3> huge({2'000'000'000, 2'000'000'000, 2'000'000'000});
                }),
                HasSubstr("hetero_object<double> of 2000000000 x 2000000000 x 2000000000 elements is too large"));
    EXPECT_THAT(text_of_error([&] { x.tiles({0, 2}); }), HasSubstr("tiles with an extent of 0"));
    EXPECT_THAT(text_of_error([&] { x.prefetch("opencl7"); }),
                HasSubstr("there is no device 'opencl7'; there are: host"));
    EXPECT_THAT(text_of_error([] { hetero_object<int>::adopt(nullptr, {3}); }), HasSubstr("null pointer"));
    hetero_task none;
    EXPECT_THAT(text_of_error([&] { none.wait(); }), HasSubstr("hetero_task::wait: there is no task in this handle"));
    hetero_task idle([] {});
    EXPECT_THAT(text_of_error([&] { idle.wait(); }), HasSubstr("was not submitted; call submit() first"));
    EXPECT_THAT(text_of_error([&] { idle.after(idle); }), HasSubstr("cannot come after itself"));
  });
}

} // namespace
} // namespace tern::hetero
