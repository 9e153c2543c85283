// SPDX-License-Identifier: Apache-2.0
#include <tern/net/call/pending_calls.hpp>

#include <algorithm>
#include <mutex>
#include <string>
#include <utility>

#include <tern/base/error.hpp>

namespace tern::net::detail {

pending_calls::~pending_calls() {
  // Out of the table first: what destroying them does may look into it.
  std::vector<reply_ref> left;
  {
    const std::lock_guard hold(guard_);
    calls_.for_each([&](std::uint64_t, call& c) { left.push_back(std::move(c.who)); });
  }
  left.clear();
}

std::uint64_t pending_calls::expect(reply_ref who, int from) {
  const std::int64_t now = tern::detail::ticks();
  std::unique_lock hold(guard_);
  if (abandoned_) [[unlikely]] {
    const std::exception_ptr why = abandoned_;
    hold.unlock(); // before `who` is destroyed
    std::rethrow_exception(why);
  }
  while (calls_.full()) {
    const std::uint32_t capacity = calls_.capacity();
    hold.unlock(); // others need not wait for memory
    auto more = calls_.make(capacity);
    hold.lock();
    calls_.grow(capacity, more);
  }
  auto [number, c] = calls_.take();
  c.who = std::move(who);
  c.from = from;
  c.since = now;
  return number;
}

void pending_calls::forget(std::uint64_t number) noexcept {
  reply_ref who; // destroyed without the lock
  const std::lock_guard hold(guard_);
  if (call* c = calls_.find(number)) {
    who = std::move(c->who);
    c->late = nullptr;
    calls_.free(number);
  }
}

reply_ref pending_calls::take(std::uint64_t number, int source, pending_reply::discard_function* late) {
  reply_ref who;
  {
    const std::lock_guard hold(guard_);
    call* c = calls_.find(number);
    if (!c)
      throw error(errc::invalid_data, "rank " + std::to_string(source) + " answered call " + std::to_string(number) +
                                          ", which was not made or has ended");
    who = std::move(c->who);
    const auto discard = std::exchange(c->late, nullptr);
    if (late) *late = discard;
    calls_.free(number);
  }
  if (!who) late_.fetch_add(1, std::memory_order_relaxed);
  return who;
}

reply_ref pending_calls::give_up(std::uint64_t number) noexcept {
  const std::lock_guard hold(guard_);
  call* c = calls_.find(number);
  if (!c) return nullptr;
  if (c->who) c->late = c->who->discards();
  return std::move(c->who);
}

void pending_calls::abandon(const std::exception_ptr& why) {
  std::vector<reply_ref> left; // failed and destroyed without the lock
  {
    const std::lock_guard hold(guard_);
    abandoned_ = why;
    std::vector<std::uint64_t> numbers;
    calls_.for_each([&](std::uint64_t number, call& c) {
      left.push_back(std::move(c.who));
      numbers.push_back(number);
    });
    for (const std::uint64_t number : numbers) calls_.free(number);
  }
  for (const reply_ref& who : left)
    if (who) who->failed(why);
}

void pending_calls::go_on() noexcept {
  const std::lock_guard hold(guard_);
  abandoned_ = nullptr;
}

std::size_t pending_calls::size() const noexcept {
  const std::lock_guard hold(guard_);
  return calls_.size();
}

std::vector<pending_calls::entry> pending_calls::list() {
  std::vector<entry> all;
  calls_.for_each([&](std::uint64_t number, const call& c) { all.push_back({number, c.from, c.since, !c.who}); });
  std::sort(all.begin(), all.end(), [](const entry& a, const entry& b) {
    return a.since != b.since ? a.since < b.since : a.number < b.number;
  });
  return all;
}

} // namespace tern::net::detail
