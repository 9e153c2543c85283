// SPDX-License-Identifier: Apache-2.0
// How a rank deals with what arrives: on networks that never run dry.
#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <memory>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <tern/net/job/rank_life.hpp>
#include <tern/net/message.hpp>
#include <tern/net/message/batch.hpp>
#include <tern/task/barrier.hpp>
#include <tern/task/fiber.hpp>
#include <tern/task/scheduler/scheduler_core.hpp>

namespace tern::net {
namespace {

std::atomic<std::uint64_t> drops{0};
struct visitor {
  std::uint64_t number;
  std::uint64_t fiber;
};
std::vector<visitor> began;
int ended = 0;
bool visitors_wait = false;
latch* all_began = nullptr; // some wait until the last one is there
fiber_local<int> seen_here;
void visit(std::uint64_t number) {
  began.push_back({number, this_fiber::id()});
  all_began->count_down();
  EXPECT_EQ((*seen_here)++, 0) << "each has fiber_locals of its own";
  if (number % 11 == 4) throw std::runtime_error("number " + std::to_string(number));
  if (visitors_wait && number % 7 == 3) all_began->wait();
  if (visitors_wait && number % 7 == 5) this_fiber::yield();
  EXPECT_EQ(began[number].number, number);
  EXPECT_EQ(began[number].fiber, this_fiber::id()) << "it is the same from beginning to end";
  ++ended;
}

std::atomic<int> ticked{0};
void tick() { ticked.fetch_add(1, std::memory_order_relaxed); }
std::uint64_t ask() { return 0; }
void drop(const std::array<std::uint64_t, 3>& n) { drops.fetch_add(n[0], std::memory_order_relaxed); }

/// Each keeps its worker until its partner is there too, or long enough to show that it never
/// comes. All are so long that none is kept where it has arrived.
constexpr int guests = 16;
std::atomic<int> arrived{0}, together{0};
std::array<std::atomic<int>, guests / 2> pairs{};
latch* all_left = nullptr;
void meet() {
  std::atomic<int>& pair = pairs[static_cast<std::size_t>(arrived.fetch_add(1) / 2)];
  ++pair;
  const auto begun = std::chrono::steady_clock::now();
  const auto took = [begun] { return std::chrono::steady_clock::now() - begun; };
  while (took() < std::chrono::microseconds(200) || (pair.load() < 2 && took() < std::chrono::seconds(10))) {
  }
  together += pair.load() == 2;
  all_left->count_down();
}

std::uint32_t number_of_batches() {
  handler_table::freeze();
  for (const handler_record* h : handler_table::all())
    if (h->name() == "tern batch") return h->id();
  throw std::logic_error("the runtime's handler of batches has another name now: change delivery_test.cpp");
}

/// Rank 0's end of a transport for two ranks, of which only rank 0 exists.
class lonely : public transport {
public:
  int rank() const noexcept override { return 0; }
  int size() const noexcept override { return 2; }
  int host_rank() const noexcept override { return 0; }
  int host_size() const noexcept override { return 1; }
  std::string describe() const override { return "lonely"; }
  std::size_t head_limit() const noexcept override { return 4096; }
  bool any_thread_sends() const noexcept override { return false; }
  void wait(std::chrono::microseconds) override {}
  void wake() noexcept override {}
  void finish() override {}
  [[noreturn]] void abort(int) noexcept override { std::abort(); }
};

/// Rank 1 sends batch after batch.
class flood final : public lonely {
public:
  explicit flood(std::uint64_t records) : most(messages / records), batch_(4096) {
    batch_writer writer(batch_.data(), batch_.size(), number_of_batches());
    struct {
      wire_header header{detail::function_handler<&drop>.id(), flag_uncounted, 0};
      std::array<std::uint64_t, 3> arguments{1, 2, 3};
    } message;
    for (std::uint64_t i = 0; i < records; ++i) writer.add(std::as_bytes(std::span(&message, 1)));
    batch_.resize(writer.finish().size());
  }
  bool send(int, std::span<const std::byte>, byte_buffer& body, bool) override {
    body = {};
    return true;
  }
  bool receive(arrival& into) override {
    if (dry || given == most) return false;
    ++given;
    into.source = 1;
    into.head = batch_.copy();
    return true;
  }

  static constexpr std::uint64_t messages = 5'000'000; // a tenth of a second, in batches
  const std::uint64_t most;                            // batches
  bool dry = false;
  std::uint64_t given = 0;

private:
  byte_buffer batch_;
};

/// Rank 1 sends one batch of `numbers` messages for `visit`.
class bundle final : public lonely {
public:
  static constexpr std::uint64_t numbers = 84;
  bundle() : batch_(4096) {
    batch_writer writer(batch_.data(), batch_.size(), number_of_batches());
    for (std::uint64_t i = 0; i < numbers; ++i) {
      struct {
        wire_header header{detail::function_handler<&visit>.id(), 0, 0};
        std::uint64_t number;
      } message{.number = i};
      if (i % 7 == 3) message.header.flags = flag_joined; // says nothing without a body
      writer.add(std::as_bytes(std::span(&message, 1)));
    }
    batch_.resize(writer.finish().size());
  }
  bool send(int, std::span<const std::byte>, byte_buffer& body, bool) override {
    body = {};
    return true;
  }
  bool receive(arrival& into) override {
    if (batch_.empty()) return false;
    into.source = 1;
    into.head = std::exchange(batch_, {});
    return true;
  }

private:
  byte_buffer batch_;
};

/// Rank 1 has sent so many messages for `meet`.
class crowd final : public lonely {
public:
  crowd() { handler_table::freeze(); }
  bool send(int, std::span<const std::byte>, byte_buffer& body, bool) override {
    body = {};
    return true;
  }
  bool receive(arrival& into) override {
    if (sent_ == guests) return false;
    ++sent_;
    const wire_header h{detail::function_handler<&meet>.id(), flag_uncounted, 0};
    into.source = 1;
    into.head = byte_buffer::copy_of(std::as_bytes(std::span(&h, 1)));
    return true;
  }

private:
  int sent_ = 0;
};

/// Rank 1 has answered each call by the time that rank 0 looks, and sends a message between any
/// `every` answers.
class oracle final : public lonely {
public:
  explicit oracle(int every) : every_(every) { handler_table::freeze(); }
  bool send(int, std::span<const std::byte> head, byte_buffer& body, bool) override {
    wire_header h;
    std::memcpy(&h, head.data(), sizeof h);
    struct {
      wire_header header{tern::net::detail::reply_handler(), flag_uncounted, 0};
      std::uint64_t value = 42;
    } answer;
    answer.header.reply = h.reply;
    if (h.reply != 0) answer_ = byte_buffer::copy_of(std::as_bytes(std::span(&answer, 1)));
    body = {};
    return true;
  }
  bool receive(arrival& into) override {
    if (answer_.empty()) return false;
    into.source = 1;
    if (every_ > 0 && ++looks_ % every_ == 0) {
      const wire_header h{detail::function_handler<&tick>.id(), flag_uncounted, 0};
      into.head = byte_buffer::copy_of(std::as_bytes(std::span(&h, 1)));
    } else {
      into.head = std::exchange(answer_, {});
    }
    return true;
  }

private:
  const int every_;
  int looks_ = 0;
  byte_buffer answer_;
};

std::shared_ptr<const options> alone(const char* more = "--tern-stats=off", const char* workers = "--tern-workers=1") {
  std::string words[] = {"test", workers, "--tern-bind=none", "--tern-log-level=error", "--tern-spin-us=100", more};
  char* argv[std::size(words) + 1] = {};
  for (std::size_t i = 0; i < std::size(words); ++i) argv[i] = words[i].data();
  int argc = static_cast<int>(std::size(words));
  return std::make_shared<const options>(options::parse(argc, argv));
}

class delivery : public testing::TestWithParam<std::uint64_t> {};
// By the number of messages in a batch: whatever a rank counts to, its looks at the clock fall
// inside of batches.
INSTANTIATE_TEST_SUITE_P(records, delivery, testing::Values(1, 4, 8, 64, 84));

TEST_P(delivery, timers_ring_and_fibers_take_turns_while_messages_never_end) {
  auto wire = std::make_unique<flood>(GetParam());
  flood& water = *wire;
  const std::uint64_t most = wire->most;
  rank_life life(alone(), std::move(wire));
  node& here = life.here();
  here.fibers().run([&] {
    this_fiber::sleep_for(std::chrono::milliseconds(1));
    for (int i = 0; i < 10; ++i) this_fiber::yield();
    water.dry = true;
  });
  EXPECT_GT(water.given, 0u);
  EXPECT_LT(water.given, most / 4); // it needs a twentieth; without turns all
}

TEST(delivery, messages_of_a_batch_begin_in_order_each_in_a_fiber_of_its_own) {
  for (const bool wait : {false, true}) {
    visitors_wait = wait;
    began.clear();
    ended = 0;
    rank_life life(alone("--tern-unhandled=report"), std::make_unique<bundle>());
    node& here = life.here();
    testing::internal::CaptureStderr();
    latch last(bundle::numbers);
    all_began = &last;
    here.fibers().run([&] { last.wait(); });
    const std::string said = testing::internal::GetCapturedStderr();
    ASSERT_EQ(began.size(), bundle::numbers);
    std::set<std::uint64_t> fibers;
    for (std::uint64_t i = 0; i < bundle::numbers; ++i) {
      EXPECT_EQ(began[i].number, i);
      fibers.insert(began[i].fiber);
    }
    EXPECT_EQ(fibers.size(), bundle::numbers);
    EXPECT_EQ(ended, 76) << "of 84, of which 8 throw";
    const auto at = said.find("number 37 (in handler '");
    EXPECT_NE(at, std::string::npos) << said;
    EXPECT_NE(said.find("visit' on rank 0, for rank 1)", at), std::string::npos) << said;
  }
}

// The worker that receives goes on receiving while others have nothing to do.
TEST(delivery, long_handlers_run_on_all_workers) {
  rank_life life(alone("--tern-stats=off", "--tern-workers=2"), std::make_unique<crowd>());
  arrived = together = 0;
  for (auto& pair : pairs) pair = 0;
  latch last(guests);
  all_left = &last;
  life.here().fibers().run([&] { last.wait(); });
  EXPECT_EQ(together.load(), guests);
}

// A caller whose answers are there at once waits for none. Yet others have their turns, handlers
// run, and timers ring.
TEST(delivery, answers_come_to_those_who_wait_and_others_have_their_turn) {
  for (const int every : {0, 7}) {
    constexpr int most = 2'000'000;
    rank_life life(alone(), std::make_unique<oracle>(every));
    node& here = life.here();
    ticked = 0;
    int calls = 0;
    bool rung = false;
    std::uint64_t entered = 0;
    here.fibers().run([&] {
      fiber sleeper([&] {
        this_fiber::sleep_for(std::chrono::milliseconds(2));
        rung = true;
      });
      this_fiber::yield();
      const std::uint64_t before = here.fibers().inside().parking.entered();
      for (; !rung && calls < most; ++calls) EXPECT_EQ(call<&ask>(1).get(), 42u);
      entered = here.fibers().inside().parking.entered() - before;
      sleeper.join();
    });
    EXPECT_LT(calls, most) << "the timer has not rung meanwhile";
    EXPECT_GT(calls, 0);
    if (every > 0) {
      EXPECT_GE(ticked.load(), calls / every);
    } else if (calls > 1000) { // under a sanitizer each takes longer than a caller polls
      EXPECT_LT(entered, static_cast<std::uint64_t>(calls) / 8) << "of " << calls;
    }
  }
}

} // namespace
} // namespace tern::net
