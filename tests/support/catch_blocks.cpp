// SPDX-License-Identifier: Apache-2.0
// What the thread sanitizer must see of exceptions, and what it must not (tsan_exceptions.cpp).
// `catch_blocks race` has a data race between catch blocks of two threads, each with an exception
// of its own. `catch_blocks shared` has none: threads share an exception, copies of one, and
// pointers to one, and the last thread frees it.
#include <atomic>
#include <cstdio>
#include <exception>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

namespace {

// Steps in time that order no memory: relaxed, so that the sanitizer takes nothing from them.
std::atomic<int> step{0};
void wait_for(int n) {
  while (step.load(std::memory_order_relaxed) != n) std::this_thread::yield();
}
void next_step() { step.fetch_add(1, std::memory_order_relaxed); }

struct with_text : std::runtime_error {
  with_text(const std::string& what, std::string more) : std::runtime_error(what), note(std::move(more)) {}
  std::string note; // memory of its own, which the last owner frees
};

const std::string long_text(100, 'x'); // longer than what a string holds within itself

int noted = 0;

void race() {
  std::thread first([] {
    try {
      throw 1;
    } catch (int) {
      noted = 1;
    }
    next_step();
  });
  std::thread second([] {
    wait_for(1);
    try {
      throw 2; // the end of this block must not come after the end of the other thread's
    } catch (int) {
    }
    try {
      throw 3;
    } catch (int) {
      noted += 1;
    }
  });
  first.join();
  second.join();
}

std::size_t read(const with_text& e) { return std::string_view(e.what()).size() + e.note.size(); }

// The first thread looks at the exception and lets go of it, the second one is the last and frees
// it.
template <class F, class G> void one_after_another(F&& first, G&& last) {
  step.store(0, std::memory_order_relaxed);
  std::thread a([&] {
    first();
    next_step();
  });
  std::thread b([&] {
    wait_for(1);
    last();
  });
  a.join();
  b.join();
}

std::exception_ptr make() { return std::make_exception_ptr(with_text(long_text, long_text)); }

void shared() {
  std::atomic<std::size_t> seen{0};
  const auto rethrow = [&](std::exception_ptr& e) {
    try {
      std::rethrow_exception(std::move(e)); // the block that catches it is the owner now
    } catch (const with_text& what) {
      seen.fetch_add(read(what), std::memory_order_relaxed);
    }
  };
  std::exception_ptr one = make(), two = one;
  one_after_another([&, e = std::move(one)]() mutable { rethrow(e); },
                    [&, e = std::move(two)]() mutable { rethrow(e); });

  std::exception_ptr kept = make(), other = kept;
  one_after_another([&] { rethrow(kept); }, [&] { other = nullptr; });

  auto* original = new with_text(long_text, long_text);
  auto* copy = new with_text(*original); // shares the text
  one_after_another(
      [&] {
        seen.fetch_add(read(*original), std::memory_order_relaxed);
        delete original;
      },
      [&] { delete copy; });
  std::printf("%zu bytes were read\n", seen.load());
}

} // namespace

int main(int argc, char** argv) {
  const std::string_view what = argc > 1 ? argv[1] : "";
  if (what == "race")
    race();
  else if (what == "shared")
    shared();
  else
    return 2;
}
