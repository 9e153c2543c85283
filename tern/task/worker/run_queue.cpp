// SPDX-License-Identifier: Apache-2.0
#include <tern/task/worker/run_queue.hpp>

#include <algorithm>

namespace tern::detail {
namespace {

runnable* take_from(runnable_queue (&queues)[run_queue::kind_count], std::atomic<unsigned>& mask,
                    unsigned kinds) noexcept {
  const unsigned there = mask.load(std::memory_order_relaxed) & kinds;
  if (there == 0) return nullptr;
  const int kind = __builtin_ctz(there);
  runnable* x = queues[kind].pop();
  if (queues[kind].empty()) mask.store(mask.load(std::memory_order_relaxed) & ~(1u << kind), std::memory_order_release);
  return x;
}

void add_to(runnable_queue (&queues)[run_queue::kind_count], std::atomic<unsigned>& mask, int kind,
            runnable* x) noexcept {
  queues[kind].push(x);
  mask.store(mask.load(std::memory_order_relaxed) | 1u << kind, std::memory_order_release);
}

} // namespace

void run_queue::enter_slowly() noexcept {
  busy_.store(false, std::memory_order_release);
  lock_.lock();
}

unsigned run_queue::move_to_public(unsigned kinds, unsigned most) noexcept {
  unsigned n = 0;
  for (; n < most; ++n) {
    const unsigned there = mask_.load(std::memory_order_relaxed) & kinds;
    if (there == 0) break;
    runnable* x = queues_[__builtin_ctz(there)].front();
    const int kind = x->kind;
    remove(x);
    add_to(public_, public_mask_, kind, x);
  }
  public_count_.store(public_count() + n, std::memory_order_relaxed);
  return n;
}

bool run_queue::publish() noexcept {
  std::lock_guard hold(lock_);
  const std::uint32_t want = want_.load(std::memory_order_relaxed);
  if ((want & 1) == 0) return false; // a thread has forced it
  // Under the lock and with `want_` odd the private half is ours, as it is the owner that calls.
  if (move_to_public(all, count() / 2) == 0) return false;
  if (!keep_want_) want_.store(want + 1, std::memory_order_release);
  return true;
}

runnable* run_queue::take_public(unsigned kinds) noexcept {
  if (!has_public(kinds)) return nullptr;
  std::lock_guard hold(lock_);
  runnable* x = take_from(public_, public_mask_, kinds);
  if (x) public_count_.store(public_count() - 1, std::memory_order_relaxed);
  return x;
}

runnable* run_queue::pop_bound(unsigned kinds) noexcept {
  if (inbox_.load(std::memory_order_relaxed)) {
    // acquire: the fibers as their senders left them.
    runnable *chain = inbox_.exchange(nullptr, std::memory_order_acquire), *in_order = nullptr;
    while (chain) {
      runnable* const next = chain->next;
      chain->next = in_order;
      in_order = chain;
      chain = next;
    }
    while (in_order) {
      runnable* const next = in_order->next;
      push_bound(in_order->kind, in_order);
      in_order = next;
    }
  }
  const unsigned there = bound_mask_.load(std::memory_order_relaxed) & kinds;
  if (there == 0) return nullptr;
  const int kind = __builtin_ctz(there);
  runnable* x = bound_[kind].pop();
  if (bound_[kind].empty())
    bound_mask_.store(bound_mask_.load(std::memory_order_relaxed) & ~(1u << kind), std::memory_order_relaxed);
  return x;
}

void run_queue::push_spawner(fiber* f) noexcept {
  std::lock_guard hold(lock_);
  spawners_.push(f);
  spawner_count_.store(spawner_count_.load(std::memory_order_relaxed) + 1, std::memory_order_release);
}

fiber* run_queue::take_spawner() noexcept {
  if (!has_spawner()) return nullptr;
  std::lock_guard hold(lock_);
  auto* f = static_cast<fiber*>(spawners_.pop());
  if (f) spawner_count_.store(spawner_count_.load(std::memory_order_relaxed) - 1, std::memory_order_release);
  return f;
}

std::uint32_t run_queue::prepare_force() noexcept {
  std::lock_guard hold(lock_);
  const std::uint32_t want = want_.load(std::memory_order_relaxed) | 1;
  want_.store(want, std::memory_order_relaxed);
  return want;
}

bool run_queue::force(std::uint32_t prepared, unsigned kinds) noexcept {
  std::lock_guard hold(lock_);
  if (want_.load(std::memory_order_relaxed) != prepared) return false;
  // The owner may be inside since before it could know, for a few instructions, or preempted there.
  for (int tries = 0; busy_.load(std::memory_order_acquire); ++tries) spin_lock::back_off(tries);
  const unsigned moved = move_to_public(kinds, (count() + 1) / 2);
  if (moved > 0 && !keep_want_) want_.store(prepared + 1, std::memory_order_release);
  return moved > 0;
}

} // namespace tern::detail
