// SPDX-License-Identifier: Apache-2.0
/// \file
/// What belongs to a fiber and follows it: exceptions in flight, the floating-point environment,
/// fiber_local.
#include <tern/task/fiber.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cfenv>
#include <exception>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/task/support/executors.hpp"
#include <tern/task/fiber/sanitizer.hpp>
#include <tern/task/future.hpp>
#include <tern/task/sync.hpp>

namespace tern {
namespace {

using test_support::everywhere_briefly;
using test_support::on_workers;
using testing::ElementsAre;

/// The calling fiber goes on on that worker: the worker that ends a fiber goes on in the one that
/// joins it. (In a simulation chance decides.)
void go_to(int worker) {
  do fiber([] {}, {.worker = worker}).join();
  while (scheduler::current_worker() != worker && !sim::active());
}

/// Suspends in one way or another, and comes back on any worker.
void suspend(int how) {
  switch (how % 4) {
  case 0:
    this_fiber::yield();
    break;
  case 1:
    this_fiber::sleep_for(std::chrono::nanoseconds(1));
    break;
  case 2:
    fiber([] { this_fiber::yield(); }).join();
    break;
  default:
    go_to(how / 4 % scheduler::current()->workers());
    break;
  }
}

// Exceptions ----------------------------------------------------------------------------------------------------------

std::string caught() {
  try {
    throw;
  } catch (const std::exception& e) {
    return e.what();
  }
}

TEST(fiber_state, exceptions_nest_across_suspensions) {
  everywhere_briefly([] {
    std::vector<fiber> all;
    for (int i = 0; i < 8; ++i)
      all.emplace_back([i] {
        const auto text = [i](const char* which) { return std::to_string(i) + which; };
        EXPECT_FALSE(std::current_exception());
        try {
          try {
            suspend(i);
            throw std::runtime_error(text("outer"));
          } catch (const std::runtime_error& outer) {
            suspend(i + 1); // inside a handler
            EXPECT_EQ(caught(), text("outer"));
            try {
              suspend(i + 2);
              throw std::logic_error(text("inner"));
            } catch (const std::logic_error& inner) {
              suspend(i + 3); // inside two
              EXPECT_EQ(caught(), text("inner"));
              EXPECT_EQ(inner.what(), text("inner"));
            }
            suspend(i + 4);
            EXPECT_EQ(outer.what(), text("outer"));
            EXPECT_EQ(caught(), text("outer")); // the inner one is over
            throw;
          }
        } catch (const std::exception& again) {
          suspend(i + 5);
          EXPECT_EQ(again.what(), text("outer"));
        }
        EXPECT_FALSE(std::current_exception());
      });
    for (auto& f : all) f.join();
  });
}

TEST(fiber_state, handlers_suspended_on_one_worker_end_on_another) {
  constexpr int workers = 4;
  for (int i = 0; i < 20; ++i)
    on_workers(workers, [] {
      std::vector<fiber> all;
      for (int f = 0; f < 8; ++f)
        all.emplace_back([f] {
          for (int k = 0; k < 20; ++k) {
            go_to(k % workers);
            try {
              throw f * 1000 + k;
            } catch (int n) {
              go_to((k + 1) % workers);
              EXPECT_EQ(scheduler::current_worker(), (k + 1) % workers);
              EXPECT_EQ(n, f * 1000 + k);
              try {
                throw;
              } catch (int again) {
                go_to((k + 2) % workers);
                EXPECT_EQ(again, f * 1000 + k);
              }
            }
            EXPECT_FALSE(std::current_exception());
          }
        });
      for (auto& f : all) f.join();
    });
}

TEST(fiber_state, destructors_may_suspend_while_an_exception_flies) {
  struct suspends {
    int how, *right;
    ~suspends() {
      if (std::uncaught_exceptions() == 1) ++*right;
      suspend(how);
      if (std::uncaught_exceptions() == 1) ++*right;
      try { // an exception within
        throw std::logic_error("within");
      } catch (const std::logic_error&) {
        suspend(how + 1);
        if (std::uncaught_exceptions() == 1) ++*right;
      }
    }
  };
  everywhere_briefly([] {
    std::vector<fiber> all;
    for (int i = 0; i < 8; ++i)
      all.emplace_back([i] {
        int right = 0;
        EXPECT_EQ(std::uncaught_exceptions(), 0);
        try {
          const suspends a{i, &right};
          const suspends b{i + 1, &right};
          suspend(i);
          throw std::runtime_error(std::to_string(i));
        } catch (const std::runtime_error& e) {
          EXPECT_EQ(e.what(), std::to_string(i));
        }
        EXPECT_EQ(right, 6);
        EXPECT_EQ(std::uncaught_exceptions(), 0);
      });
    for (auto& f : all) f.join();
  });
}

TEST(fiber_state, exceptions_travel_between_fibers) {
  everywhere_briefly([] {
    // Through ten fibers that join each other, each rethrowing in a handler that has suspended.
    const std::function<void(int)> depth = [&](int n) {
      if (n == 0) throw std::domain_error("from below");
      fiber f([&, n] { depth(n - 1); });
      try {
        f.join();
      } catch (...) {
        suspend(n);
        throw;
      }
    };
    EXPECT_THROW(depth(10), std::domain_error);
    EXPECT_FALSE(std::current_exception());
    // One exception that many handle at once.
    std::exception_ptr one;
    try {
      throw std::domain_error("shared");
    } catch (...) {
      one = std::current_exception();
    }
    std::vector<fiber> all;
    for (int i = 0; i < 5; ++i)
      all.emplace_back([&, i] {
        try {
          std::rethrow_exception(one);
        } catch (const std::domain_error& e) {
          suspend(i);
          EXPECT_STREQ(e.what(), "shared");
          EXPECT_EQ(caught(), "shared");
        }
      });
    for (auto& f : all) f.join();
  });
}

TEST(fiber_state, a_new_fiber_is_in_no_handler) {
  everywhere_briefly([] {
    try {
      throw std::runtime_error("mine");
    } catch (const std::runtime_error&) {
      fiber f([] { EXPECT_FALSE(std::current_exception()); });
      f.join();
      EXPECT_EQ(caught(), "mine");
      EXPECT_FALSE(async([] { return std::current_exception() != nullptr; }).get());
      EXPECT_EQ(caught(), "mine");
    }
  });
}

// errno ---------------------------------------------------------------------------------------------------------------

TEST(fiber_state, errno_of_a_pinned_fiber) {
  for (const int workers : {1, 3})
    for (int i = 0; i < 20; ++i)
      on_workers(workers, [workers] {
        std::vector<fiber> all;
        for (int f = 0; f < 9; ++f)
          all.emplace_back(
              [f] {
                EXPECT_EQ(errno, 0); // a new one
                for (int k = 0; k < 10; ++k) {
                  errno = f * 100 + k;
                  suspend(k % 3);
                  EXPECT_EQ(errno, f * 100 + k);
                }
              },
              fiber_options{.worker = f % workers});
        for (auto& f : all) f.join();
      });
}

// Arithmetic ----------------------------------------------------------------------------------------------------------

#ifndef TERN_TSAN

/// What 1/3 and -1/3 are rounded to tells the mode that is really in force.
int rounds_now() {
  volatile double one = 1, three = 3;
  const double up = one / three, down = -one / three;
  const bool above = up > 0x1.5555555555555p-2, lower = down < -0x1.5555555555555p-2;
  return above ? FE_UPWARD : lower ? FE_DOWNWARD : FE_TONEAREST;
}

TEST(fiber_state, rounding_modes) {
  everywhere_briefly([] {
    const std::array modes = {FE_TONEAREST, FE_UPWARD, FE_DOWNWARD};
    std::vector<fiber> all;
    for (int i = 0; i < 9; ++i)
      all.emplace_back([&, i] {
        for (int k = 0; k < 4; ++k) {
          const int mode = modes[static_cast<std::size_t>(i + k) % modes.size()];
          std::fesetround(mode);
          suspend(i + k);
          EXPECT_EQ(std::fegetround(), mode);
          EXPECT_EQ(rounds_now(), mode);
          fiber child([&] {
            EXPECT_EQ(rounds_now(), mode); // a new fiber begins as its maker was
            std::fesetround(FE_UPWARD);
            suspend(k);
            EXPECT_EQ(rounds_now(), FE_UPWARD);
          });
          child.join();
          EXPECT_EQ(std::fegetround(), mode);
          EXPECT_EQ(rounds_now(), mode);
        }
      });
    for (auto& f : all) {
      f.join();
      EXPECT_EQ(rounds_now(), FE_TONEAREST);
    }
  });
  EXPECT_EQ(rounds_now(), FE_TONEAREST); // the thread's, which they ran on
  EXPECT_EQ(std::fegetround(), FE_TONEAREST);
}

TEST(fiber_state, rounding_modes_follow_from_worker_to_worker) {
  constexpr int workers = 4;
  for (int i = 0; i < 20; ++i)
    on_workers(workers, [] {
      std::vector<fiber> all;
      for (const int mode : {FE_UPWARD, FE_DOWNWARD, FE_TONEAREST})
        all.emplace_back([mode] {
          std::fesetround(mode);
          for (int k = 0; k < 20; ++k) {
            go_to(k % workers);
            EXPECT_EQ(rounds_now(), mode);
            EXPECT_EQ(std::fegetround(), mode);
          }
        });
      for (auto& f : all) f.join();
    });
}

#ifdef __GLIBC__
TEST(fiber_state, exception_masks) {
  everywhere_briefly([] {
    std::vector<fiber> all;
    for (const int mask : {FE_DIVBYZERO, FE_OVERFLOW | FE_INVALID, 0})
      all.emplace_back([mask] {
        feenableexcept(mask);
        for (int k = 0; k < 5; ++k) {
          suspend(k);
          EXPECT_EQ(fegetexcept(), mask);
        }
      });
    for (auto& f : all) f.join();
    EXPECT_EQ(fegetexcept(), 0);
  });
}
#endif

#if defined(__x86_64__)

TEST(fiber_state, denormals_may_be_zero) {
  constexpr unsigned flush = 0x8040; // FTZ, DAZ
  const auto denormal_survives = [] {
    volatile double tiny = 0x1p-1022;
    volatile double half = 0.5;
    return tiny * half != 0;
  };
  everywhere_briefly([&] {
    std::vector<fiber> all;
    for (int i = 0; i < 6; ++i)
      all.emplace_back([&, i] {
        if (i % 2 == 0) _mm_setcsr(_mm_getcsr() | flush);
        for (int k = 0; k < 4; ++k) {
          suspend(i + k);
          EXPECT_EQ(denormal_survives(), i % 2 == 1);
        }
      });
    for (auto& f : all) f.join();
    EXPECT_TRUE(denormal_survives());
  });
}

std::uint16_t x87_word() {
  std::uint16_t word = 0;
  asm volatile("fnstcw %0" : "=m"(word));
  return word;
}
void set_x87_word(std::uint16_t word) { asm volatile("fldcw %0" : : "m"(word)); }

TEST(fiber_state, x87_precision) {
  constexpr std::uint16_t usual = 0x037f, doubles = 0x027f, singles = 0x007f;
  everywhere_briefly([&] {
    std::vector<fiber> all;
    for (const std::uint16_t word : {doubles, singles, usual})
      for (int i = 0; i < 2; ++i)
        all.emplace_back([&, word, i] {
          set_x87_word(word);
          for (int k = 0; k < 4; ++k) {
            suspend(i + k);
            EXPECT_EQ(x87_word(), word);
            volatile long double one = 1, small = 0x1p-60L;
            EXPECT_EQ(one + small != one, word == usual);
          }
        });
    for (int i = 0; i < 3; ++i)
      all.emplace_back([&, i] { // which do not care
        for (int k = 0; k < 4; ++k) {
          suspend(i + k);
          EXPECT_EQ(x87_word(), usual);
        }
      });
    for (auto& f : all) f.join();
    EXPECT_EQ(x87_word(), usual);
  });
  EXPECT_EQ(x87_word(), usual);
}

TEST(fiber_state, sticky_flags_do_not_matter) {
  everywhere_briefly(
      [] {
        fiber divides([] {
          volatile double zero = 0, one = 1;
          for (int k = 0; k < 5; ++k) {
            volatile double infinite = one / zero; // sets a flag
            (void)infinite;
            suspend(k);
            EXPECT_EQ(std::fegetround(), FE_TONEAREST);
          }
        });
        for (int k = 0; k < 5; ++k) {
          std::feclearexcept(FE_ALL_EXCEPT);
          suspend(k);
          EXPECT_EQ(rounds_now(), FE_TONEAREST);
        }
        divides.join();
      },
      5, 100);
}

#endif
#endif

// fiber_local ---------------------------------------------------------------------------------------------------------

TEST(fiber_local_variable, each_fiber_has_its_own) {
  static const fiber_local<int> number([] { return 7; });
  static const fiber_local<std::string> text;
  everywhere_briefly([] {
    EXPECT_EQ(*number, 7);
    std::vector<fiber> all;
    for (int i = 0; i < 6; ++i)
      all.emplace_back([i] {
        EXPECT_EQ(*number, 7); // also if the stack was another's
        EXPECT_EQ(text->size(), 0u);
        int* const mine = &*number;
        for (int k = 0; k < 4; ++k) {
          *number = i * 10 + k;
          *text += static_cast<char>('a' + k);
          suspend(i + k);
          EXPECT_EQ(*number, i * 10 + k);
        }
        EXPECT_EQ(&*number, mine);
        EXPECT_EQ(*text, "abcd");
      });
    for (auto& f : all) f.join();
    EXPECT_EQ(*number, 7);
    EXPECT_EQ(*text, "");
  });
}

TEST(fiber_local_variable, follows_its_fiber) {
  static const fiber_local<int> number;
  constexpr int workers = 4;
  on_workers(workers, [] {
    std::vector<fiber> all;
    for (int f = 0; f < 8; ++f)
      all.emplace_back([f] {
        int* const mine = &*number;
        for (int k = 0; k < 20; ++k) {
          *number = f * 100 + k;
          go_to((f + k) % workers);
          EXPECT_EQ(*mine, f * 100 + k);
          EXPECT_EQ(&*number, mine);
        }
      });
    for (auto& f : all) f.join();
  });
}

TEST(fiber_local_variable, foreign_threads_have_theirs) {
  static const fiber_local<int> number([] { return 1; });
  *number = 5;
  std::thread([] {
    EXPECT_EQ(*number, 1);
    *number = 6;
  }).join();
  on_workers(1, [] { EXPECT_EQ(*number, 1); }); // the main fiber runs on this thread, but is not it
  EXPECT_EQ(*number, 5);
}

struct noted {
  std::vector<int>* gone;
  int which;
  std::function<void()> last = {};
  noted(std::vector<int>* g, int w) : gone(g), which(w) {}
  noted(const noted&) = delete;
  ~noted() {
    if (last) last();
    gone->push_back(which);
  }
};

std::unique_ptr<noted> none() { return nullptr; }

TEST(fiber_local_variable, is_destroyed_at_the_end_last_made_first) {
  static const fiber_local<std::unique_ptr<noted>> a(none), b(none), c(none);
  everywhere_briefly([] {
    std::vector<int> gone;
    fiber f([&] {
      *b = std::make_unique<noted>(&gone, 2);
      suspend(1);
      *a = std::make_unique<noted>(&gone, 1);
      suspend(2);
      *c = std::make_unique<noted>(&gone, 3);
      (*b)->which = 20;
      EXPECT_THAT(gone, ElementsAre());
    });
    f.join();
    EXPECT_THAT(gone, ElementsAre(3, 1, 20)); // before join returns
  });
}

TEST(fiber_local_variable, destructors_may_suspend_and_use_others) {
  static const fiber_local<std::unique_ptr<noted>> a(none), b(none), c(none);
  everywhere_briefly([] {
    std::vector<int> gone;
    std::uint64_t id = 0, id_at_end = 0;
    fiber f([&] {
      id = this_fiber::id();
      *a = std::make_unique<noted>(&gone, 1);
      *b = std::make_unique<noted>(&gone, 2);
      (*b)->last = [&] {
        suspend(0);
        EXPECT_EQ((*a)->which, 1);              // not yet gone
        *c = std::make_unique<noted>(&gone, 3); // made anew, and gone before `a`
        suspend(2);
        id_at_end = this_fiber::id();
      };
      throw std::runtime_error("also then");
    });
    EXPECT_THROW(f.join(), std::runtime_error);
    EXPECT_THAT(gone, ElementsAre(2, 3, 1));
    EXPECT_EQ(id, id_at_end);
  });
}

TEST(fiber_local_variable, of_fibers_that_never_end_go_with_the_scheduler) {
  static const fiber_local<std::unique_ptr<noted>> a(none);
  std::vector<int> gone;
  promise<void> never;
  {
    scheduler s({.workers = 2, .name = "test"});
    EXPECT_EQ(s.run([&] {
      s.spawn([&, f = std::make_shared<future<void>>(never.get_future())] {
        *a = std::make_unique<noted>(&gone, 1);
        f->wait();
      });
    }),
              1u);
    EXPECT_THAT(gone, ElementsAre());
    never.set_value(); // too late; but a waiting fiber must not outlive its stack
  }
  EXPECT_THAT(gone, ElementsAre(1));
}

} // namespace
} // namespace tern
