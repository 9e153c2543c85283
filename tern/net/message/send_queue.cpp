// SPDX-License-Identifier: Apache-2.0
#include <tern/net/message/send_queue.hpp>

#include <algorithm>
#include <mutex>
#include <utility>
#include <vector>

#include <tern/net/memory/lent_buffer.hpp>
#include <tern/task/scheduler.hpp>

namespace tern::net {

send_queue::send_queue(transport& wire, aggregation mode, std::uint32_t batches, std::int64_t patience)
    : wire_(wire), owner_(this_thread_id()), any_sends_(wire.any_thread_sends()), mode_(mode), batches_(batches),
      patience_(patience) {}
send_queue::~send_queue() = default;

// Gathering -----------------------------------------------------------------------------------------------------------

void send_queue::gather(int destination, std::span<const std::byte> head) {
  auto hold = lock_slots();
  if (destination != own_ && static_cast<std::size_t>(destination) >= batch_slots_.size()) [[unlikely]]
    batch_slots_.resize(static_cast<std::size_t>(wire_.size()));
  batch_slot& p = slot_of(destination);
  if (!p.batch) [[unlikely]] {
    p.memory = byte_buffer(batch_bytes());
    p.batch.emplace(p.memory.data(), p.memory.size(), batches_);
  }
  if (!p.batch->has_space(head.size())) [[unlikely]]
    send_slot(destination, p);
  const bool first = p.batch->empty();
  if (first) {
    p.since = tern::detail::ticks();
    fill(destination);
  }
  p.batch->add(head);
  // Of a fiber that sends a little now and then and does not let the owner poll.
  if (destination != own_ && ++p.messages % looked_at == 0 && tern::detail::ticks() - p.since > patience_)
    send_slot(destination, p);
  if (first && filled_.size() == 1 && !alone_) {
    hold.unlock();
    wire_.wake(); // or the owner would not poll: it may be asleep
  }
}

void send_queue::fill(int destination) {
  filled_.push_back(destination);
  gathered_.store(filled_.size(), std::memory_order_relaxed);
}

// Where the first message of the next batch is to be written at once.
bool send_queue::begin_own() noexcept {
  if (!gathers_own_ || filled_.size() == filled_.capacity()) return false;
  fill(own_);
  return true;
}

void send_queue::send_slot(int destination, batch_slot& p) {
  const std::span<const std::byte> batch = p.batch->finish();
  std::erase(filled_, destination);
  byte_buffer none;
  if (kept_.load(std::memory_order_acquire) != 0 || !may_send() || !wire_.send(destination, batch, none, false))
    keep(destination, batch, {}, false, true);
  // After it has gone, or is kept: a sender that finds nothing gathered may send at once what comes
  // after it.
  gathered_.store(filled_.size(), std::memory_order_release);
}

void send_queue::send_gathered(int destination) {
  if (gathered_.load(std::memory_order_acquire) == 0) return;
  const auto hold = lock_slots();
  batch_slot& p = slot_of(destination);
  if (p.batch && !p.batch->empty()) send_slot(destination, p);
}

// Keeping -------------------------------------------------------------------------------------------------------------

// As the last queued_message of the queue, or in it.
void send_queue::join(destination_queue& q, std::span<const std::byte> head) {
  if (!q.usual.empty() && q.usual.back().batch && q.usual.back().batch->has_space(head.size())) {
    q.usual.back().batch->add(head);
    return;
  }
  queued_message next;
  if (spare_.empty()) {
    next.head = byte_buffer(batch_bytes());
  } else {
    next.head = std::move(spare_.back());
    spare_.pop_back();
    next.head.resize(batch_bytes());
  }
  next.batch.emplace(next.head.data(), next.head.size(), batches_);
  next.batch->add(head);
  q.bytes += next.bytes();
  q.usual.push(std::move(next)); // its memory stays where it is
  kept_.fetch_add(1, std::memory_order_release);
}

void send_queue::keep(int destination, std::span<const std::byte> head, byte_buffer body, bool urgent, bool is_batch) {
  const detail::deferred_releases after_the_lock;
  std::unique_lock hold(lock_);
  destination_queue& q = queues_[destination];
  auto& messages = urgent ? q.urgent : q.usual;
  // Something may be kept for another destination only.
  if (may_send() && messages.empty() && (urgent || q.urgent.empty()) && wire_.send(destination, head, body, urgent))
    return;
  if (mode_ == aggregation::automatic && !is_batch && !urgent && body.empty() && head.size() <= most_gathered) {
    join(q, head);
  } else {
    queued_message next;
    next.body = std::move(body);
    if (head.size() <= next.near.size()) {
      next.near_size = static_cast<std::uint8_t>(head.size());
      std::copy(head.begin(), head.end(), next.near.begin());
    } else {
      next.head = byte_buffer::copy_of(head);
    }
    messages.push(std::move(next));
    q.bytes += messages.back().bytes();
    kept_.fetch_add(1, std::memory_order_release);
  }
  if (!q.over_limit && q.full()) {
    q.over_limit = true;
    over_limit_.fetch_add(1, std::memory_order_relaxed);
  }
  hold.unlock();
  // If the owner has been notified since its last look, this thread need not notify it: the owner's
  // next look sees what is kept by now.
  if (!may_send() && !owner_notified_.exchange(true, std::memory_order_acq_rel)) wire_.wake();
}

bool send_queue::send_some(int destination, destination_queue& q, bool urgent) {
  auto& messages = urgent ? q.urgent : q.usual;
  bool any = false;
  while (!messages.empty()) {
    queued_message& next = messages.front();
    if (next.batch) { // from now on no message joins it, whether it finds space or not
      const std::size_t used = next.batch->finish().size();
      q.bytes -= next.head.size() - used;
      next.head.resize(used);
      next.batch.reset();
    }
    const std::size_t bytes = next.bytes(); // before its body is taken
    if (!wire_.send(destination, next.first_part(), next.body, urgent)) break;
    q.bytes -= bytes;
    queued_message gone = messages.pop();
    if (gone.head.capacity() == batch_bytes() && spare_.size() < most_spare) spare_.push_back(std::move(gone.head));
    kept_.fetch_sub(1, std::memory_order_release);
    any = true;
  }
  return any;
}

bool send_queue::flush_all(bool more) {
  bool any = false;
  if (gathered_.load(std::memory_order_relaxed) > 0) {
    const auto hold = lock_slots();
    const std::int64_t old = tern::detail::ticks() - patience_;
    for (std::size_t i = filled_.size(); i-- > 0;) { // `send_slot` takes it out
      batch_slot& p = slot_of(filled_[i]);
      // Others rely on having woken the owner.
      if (more && alone_ && filled_[i] != own_ && p.since > old) continue;
      send_slot(filled_[i], p);
      any = true;
    }
  }
  if (kept_.load(std::memory_order_relaxed) == 0) return any;
  std::vector<tern::detail::waiter*> woken;
  const detail::deferred_releases after_the_lock;
  {
    std::lock_guard hold(lock_);
    for (auto& [destination, q] : queues_) {
      any = send_some(destination, q, true) || any;
      if (q.urgent.empty()) any = send_some(destination, q, false) || any;
      if (!q.over_limit || !q.has_space()) continue;
      q.over_limit = false;
      over_limit_.fetch_sub(1, std::memory_order_relaxed);
      if (!q.waiting.empty()) woken.push_back(q.waiting.take());
    }
  }
  for (auto* all : woken) tern::detail::waiter_list::wake_all(all);
  return any;
}

void send_queue::drop(int destination, bool (*gone)(std::span<const std::byte> head)) {
  const auto meant = [&](int to) { return destination < 0 || to == destination; };
  std::vector<queued_message> dropped; // after the locks: giving back memory may run any code
  {
    const auto hold = lock_slots();
    for (std::size_t i = filled_.size(); i-- > 0;)
      if (meant(filled_[i])) {
        static_cast<void>(slot_of(filled_[i]).batch->finish());
        filled_.erase(filled_.begin() + static_cast<std::ptrdiff_t>(i));
      }
    gathered_.store(filled_.size(), std::memory_order_release);
  }
  std::vector<tern::detail::waiter*> woken;
  const detail::deferred_releases after_the_lock;
  {
    const std::lock_guard hold(lock_);
    for (auto& [to, q] : queues_) {
      if (!meant(to)) continue;
      for (auto* const messages : {&q.urgent, &q.usual}) {
        fifo<queued_message> stay;
        while (!messages->empty()) {
          queued_message next = messages->pop();
          if (next.batch || gone(next.first_part())) {
            q.bytes -= next.bytes();
            kept_.fetch_sub(1, std::memory_order_release);
            dropped.push_back(std::move(next));
          } else {
            stay.push(std::move(next));
          }
        }
        *messages = std::move(stay);
      }
      if (!q.over_limit || !q.has_space()) continue;
      q.over_limit = false;
      over_limit_.fetch_sub(1, std::memory_order_relaxed);
      if (!q.waiting.empty()) woken.push_back(q.waiting.take());
    }
  }
  for (auto* all : woken) tern::detail::waiter_list::wake_all(all);
}

void send_queue::wait_for_space(int destination) {
  if (!scheduler::in_fiber() || detail::releasing())
    return; // the polling context must not wait, least of all for itself
  lock_.lock();
  destination_queue& q = queues_[destination];
  while (q.over_limit) {
    tern::detail::waiter self({tern::detail::wait_kind::capacity, this});
    q.waiting.push(self);
    self.wait(lock_);
    lock_.lock();
  }
  lock_.unlock();
}

} // namespace tern::net
