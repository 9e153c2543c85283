// SPDX-License-Identifier: Apache-2.0
// How a rank deals with what arrives: on a network that never runs dry.
#include <tern/net/node.hpp>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <iterator>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include <tern/net/detail/batch.hpp>
#include <tern/net/message.hpp>
#include <tern/task/fiber.hpp>

namespace tern::net {
namespace {

std::atomic<std::uint64_t> drops{0};
void drop(const std::array<std::uint64_t, 3>& n) { drops.fetch_add(n[0], std::memory_order_relaxed); }

/// Rank 1 of two sends batch after batch.
class flood final : public transport {
public:
  explicit flood(std::uint64_t records) : most(messages / records), batch_(4096) {
    handler_table::freeze();
    std::uint32_t batches = 0;
    for (const handler_record* h : handler_table::all())
      if (h->name() == "tern batch") batches = h->id();
    batch_writer writer(batch_.data(), batch_.size(), batches);
    struct {
      wire_header header{detail::function_handler<&drop>.id(), flag_uncounted, 0};
      std::array<std::uint64_t, 3> arguments{1, 2, 3};
    } message;
    for (std::uint64_t i = 0; i < records; ++i) writer.add(std::as_bytes(std::span(&message, 1)));
    batch_.resize(writer.finish().size());
  }
  int rank() const noexcept override { return 0; }
  int size() const noexcept override { return 2; }
  int host_rank() const noexcept override { return 0; }
  int host_size() const noexcept override { return 1; }
  std::string describe() const override { return "flood"; }
  std::size_t head_limit() const noexcept override { return 4096; }
  bool any_thread_sends() const noexcept override { return false; }
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
  void wait(std::chrono::microseconds) override {}
  void wake() noexcept override {}
  void finish() override {}
  [[noreturn]] void abort(int) noexcept override { std::abort(); }

  static constexpr std::uint64_t messages = 5'000'000; // a tenth of a second, in batches
  const std::uint64_t most;                            // batches
  bool dry = false;
  std::uint64_t given = 0;

private:
  byte_buffer batch_;
};

class delivery : public testing::TestWithParam<std::uint64_t> {};
// By the number of messages in a batch: whatever a rank counts to, its looks at the clock fall inside of batches.
INSTANTIATE_TEST_SUITE_P(records, delivery, testing::Values(1, 4, 8, 64, 84));

TEST_P(delivery, timers_ring_and_fibers_take_turns_while_messages_never_end) {
  std::string words[] = {"test", "--tern-workers=1", "--tern-bind=none", "--tern-log-level=error"};
  char* argv[std::size(words) + 1] = {};
  for (std::size_t i = 0; i < std::size(words); ++i) argv[i] = words[i].data();
  int argc = static_cast<int>(std::size(words));
  auto settings = std::make_shared<const options>(options::parse(argc, argv));
  auto wire = std::make_unique<flood>(GetParam());
  flood& water = *wire;
  const std::uint64_t most = wire->most;
  node here(std::move(settings), std::move(wire));
  here.fibers().run([&] {
    this_fiber::sleep_for(std::chrono::milliseconds(1));
    for (int i = 0; i < 10; ++i) this_fiber::yield();
    water.dry = true;
  });
  EXPECT_GT(water.given, 0u);
  EXPECT_LT(water.given, most / 4); // it needs a twentieth; without turns all
}

} // namespace
} // namespace tern::net
