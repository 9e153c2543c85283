// SPDX-License-Identifier: Apache-2.0
// A job that saves itself again and again: checkpoint_program FOLDER ROUNDS [BYTES]. For tests that
// end it, fill its disk, or go on from what it has written. Each page must have been advanced as
// often as the step says.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <vector>

#include <tern/mobile/array.hpp>
#include <tern/mobile/checkpoint.hpp>
#include <tern/mobile/event.hpp>
#include <tern/net/collectives.hpp>
#include <tern/net/runtime.hpp>

namespace {

class page {
public:
  page() = default;
  explicit page(std::size_t numbers) : numbers_(numbers, 0) {}
  void advance() {
    for (std::int64_t& n : numbers_) ++n;
  }
  std::int64_t least() const {
    std::int64_t n = numbers_.front();
    for (const std::int64_t other : numbers_) n = other == numbers_.front() ? n : -1;
    return n;
  }
  template <class A> void serialize(A& ar) { ar(numbers_); }

private:
  std::vector<std::int64_t> numbers_;
};

/// Rings when both its ends have been pulled, again and again.
class bell {
public:
  void ring(const tern::signals& in) {
    ++rung_;
    tern::rearm(in.of());
  }
  std::int64_t rung() const { return rung_; }
  template <class A> void serialize(A& ar) { ar(rung_); }

private:
  std::int64_t rung_ = 0;
};

struct same {
  std::int64_t operator()(std::int64_t a, std::int64_t b) const { return a == b ? a : -1; }
};

} // namespace

int main(int argc, char** argv) {
  const std::string folder = argc > 1 ? argv[1] : "checkpoints";
  const std::int64_t rounds = argc > 2 ? std::atoll(argv[2]) : 10;
  const std::size_t bytes = argc > 3 ? std::strtoull(argv[3], nullptr, 10) : 8192;
  return tern::run(argc, argv, [&] {
    tern::mobile_array<page> pages;
    tern::mobile_ptr<bell> tower;
    tern::event both;
    std::int64_t step = 0;
    const bool again = tern::restored(pages, tower, both, step);
    if (!again) {
      if (tern::rank() == 0) {
        pages = tern::mobile_array<page>({20}, bytes / sizeof(std::int64_t));
        tower = tern::create<bell>();
        both = tern::make_event<&bell::ring>(tower, 2);
      }
      pages = tern::broadcast(pages);
      tower = tern::broadcast(tower);
      both = tern::broadcast(both);
    }
    bool right = true;
    const auto look = [&](const char* what) {
      if (tern::rank() == 0) {
        const std::int64_t found = tern::reduce<&page::least>(pages, same()).get();
        const std::int64_t rung = tern::call<&bell::rung>(tower).get();
        right = right && found == step && rung == step;
        std::printf("%s at step %lld, pages at %lld\n", what, static_cast<long long>(step),
                    static_cast<long long>(found));
        if (rung != step) std::printf("the bell has rung %lld times\n", static_cast<long long>(rung));
        std::fflush(stdout);
      }
      tern::barrier();
    };
    if (again) look("restored");
    while (step < rounds) {
      if (tern::rank() == 0) {
        tern::call<&page::advance>(pages).get();
        tern::migrate(pages(step % 20), static_cast<int>(step) % tern::size()).get();
        tern::migrate(tower, static_cast<int>(step + 1) % tern::size()).get();
        tern::signal(both, 0);
      }
      if (tern::rank() == tern::size() - 1) tern::signal(both, 1);
      both = both.next_round();
      ++step;
      try {
        tern::checkpoint(folder, pages, tower, both, step);
        if (tern::rank() == 0) std::printf("saved\n"), std::fflush(stdout);
      } catch (const tern::error& e) {
        if (tern::rank() == 0) std::printf("not saved: %s\n", e.what()), std::fflush(stdout);
      }
    }
    look("done");
    return right ? 0 : 1;
  });
}
