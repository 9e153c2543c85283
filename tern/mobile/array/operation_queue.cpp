// SPDX-License-Identifier: Apache-2.0
/// \file
/// The order of what is done with an array's elements.
#include <tern/mobile/array/operation_queue.hpp>

#include <mutex>
#include <utility>

#include <tern/net/report/reporter.hpp>

namespace tern::mobile::detail {

void operation_queue::open() { run(); }

void operation_queue::enter(int sender, std::uint64_t number, tern::detail::held_context on, operation what) {
  {
    const std::lock_guard hold(lock_);
    if (closed_) return; // what waits for it is told by its end
    sender_state& s = senders_[sender];
    if (number != s.next) {
      s.early.emplace(number, item{std::move(what), std::move(on)});
      return;
    }
    ready_.push_back({std::move(what), std::move(on)});
    ++s.next;
    for (auto at = s.early.begin(); at != s.early.end() && at->first == s.next; at = s.early.erase(at), ++s.next)
      ready_.push_back(std::move(at->second));
    if (std::exchange(running_, true)) return;
  }
  run();
}

void operation_queue::enter(tern::detail::held_context on, operation what) {
  {
    const std::lock_guard hold(lock_);
    if (closed_) return;
    ready_.push_back({std::move(what), std::move(on)});
    if (std::exchange(running_, true)) return;
  }
  run();
}

void operation_queue::run() {
  for (;;) {
    item next;
    {
      const std::lock_guard hold(lock_);
      if (ready_.empty()) {
        running_ = false;
        return;
      }
      next = std::move(ready_.front());
      ready_.pop_front();
    }
    {
      const tern::detail::causal_scope in(next.on.get());
      next.what();
      next.what.reset(); // what it holds is let go for its epoch
    }
    next.on.reset();
  }
}

void operation_queue::reopen() noexcept {
  const std::lock_guard hold(lock_);
  closed_ = running_ = false;
}

void operation_queue::close() noexcept {
  std::map<int, sender_state> waits; // go without the lock: fibers wait for them
  std::deque<item> ready;
  const std::lock_guard hold(lock_);
  closed_ = true;
  waits.swap(senders_);
  ready.swap(ready_);
}

std::string operation_queue::describe() {
  const auto hold = net::try_for_a_while(lock_);
  if (!hold) return {};
  std::string text;
  for (const auto& [sender, s] : senders_)
    if (!s.early.empty())
      text += std::string(text.empty() ? "" : ", ") + "of rank " + std::to_string(sender) + ", operation " +
              std::to_string(s.next) + " is due, and " + std::to_string(s.early.size()) + " after it have come";
  return text;
}

} // namespace tern::mobile::detail
