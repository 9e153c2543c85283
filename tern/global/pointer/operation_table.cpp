// SPDX-License-Identifier: Apache-2.0
#include <tern/global/pointer/operation_table.hpp>

#include <mutex>

#include <tern/base/error.hpp>
#include <tern/base/log.hpp>

namespace tern::global::detail {

// operation ------------------------------------------------------------------------------------------------------------

shared_future<void> operation::done() {
  std::optional<promise<void>> at_once;
  std::exception_ptr why;
  shared_future<void> result;
  {
    promise<void> fresh; // memory is taken outside of the lock
    shared_future<void> of_fresh = fresh.get_future();
    const std::lock_guard hold(guard_);
    seen_ = true;
    if (future_.valid()) return future_;
    future_ = result = std::move(of_fresh);
    (over_ ? at_once : promise_) = std::move(fresh);
    why = failure_;
  }
  if (at_once) {
    if (why)
      at_once->set_exception(why);
    else
      at_once->set_value();
  }
  return result;
}

void operation::end(std::exception_ptr why) noexcept {
  std::optional<promise<void>> tells;
  {
    const std::lock_guard hold(guard_);
    over_ = true;
    failure_ = why;
    tells = std::move(promise_);
    promise_.reset();
  }
  if (!tells) return;
  if (why)
    tells->set_exception(std::move(why));
  else
    tells->set_value();
}

void operation::mark_seen() noexcept {
  const std::lock_guard hold(guard_);
  seen_ = true;
}

bool operation::seen() const noexcept {
  const std::lock_guard hold(guard_);
  return seen_;
}

// operation_table ------------------------------------------------------------------------------------------------------

/// Of one call of `fence`, for one rank or all.
class operation_table::fence_wait {
public:
  explicit fence_wait(int ranks) noexcept : left_(ranks) {}
  future<void> get_future() { return over_.get_future(); }
  /// One rank's part is over.
  void arrive(const std::exception_ptr& why) noexcept {
    if (why) {
      const std::lock_guard hold(guard_);
      if (!failure_) failure_ = why;
    }
    if (left_.fetch_sub(1, std::memory_order_acq_rel) != 1) return; // the last one sees what the others wrote
    if (failure_)
      over_.set_exception(failure_);
    else
      over_.set_value();
  }

private:
  std::atomic<int> left_;
  tern::detail::spin_lock guard_;
  std::exception_ptr failure_;
  promise<void> over_;
};

operation_table::~operation_table() {
  std::size_t n = 0;
  std::exception_ptr first;
  for (auto& [rank, l] : lines_)
    for (failure& f : l.unseen)
      if (!f.of->seen()) {
        if (n++ == 0) first = f.why;
      }
  if (n == 0) return;
  try {
    std::rethrow_exception(first);
  } catch (const std::exception& e) {
    log_warning(
        std::to_string(n) + (n == 1 ? " operation" : " operations") +
        " on global pointers failed, and the program did not look: call done() or fence(). The first: " + e.what());
  } catch (...) { // there are no others
  }
}

std::pair<std::uint64_t, std::shared_ptr<operation>> operation_table::begin(int owner) {
  auto of = std::make_shared<operation>();
  std::unique_lock hold(guard_);
  while (entries_.full()) {
    const std::uint32_t capacity = entries_.capacity();
    hold.unlock();
    auto more = entries_.make(capacity);
    hold.lock();
    entries_.grow(capacity, more);
  }
  line& l = lines_[owner];
  if (l.groups.empty()) l.groups.emplace_back();
  ++l.groups.back().left;
  auto [number, place] = entries_.take();
  place = {of, owner, l.first + l.groups.size() - 1};
  announced_.fetch_add(1, std::memory_order_relaxed);
  return {number, std::move(of)};
}

operation_table::entry operation_table::take(std::uint64_t number, int owner) noexcept {
  entry* const found = entries_.find(number);
  if (!found || found->owner != owner) return {};
  entry e = std::move(*found);
  *found = {};
  entries_.free(number);
  return e;
}

std::exception_ptr operation_table::take_unseen(line& l, std::uint64_t up_to) noexcept {
  std::exception_ptr first;
  std::size_t kept = 0;
  for (failure& f : l.unseen) {
    if (f.group > up_to) {
      std::swap(l.unseen[kept++], f);
    } else if (!first && !f.of->seen()) {
      first = f.why;
    }
  }
  l.unseen.resize(kept);
  return first;
}

void operation_table::leave(line& l, std::uint64_t of, finished_fences& over) {
  --l.groups[static_cast<std::size_t>(of - l.first)].left;
  while (l.groups.size() > 1 && l.groups.front().left == 0) {
    const std::exception_ptr why = take_unseen(l, l.first);
    for (const auto& w : l.groups.front().waiters) over.emplace_back(w, why);
    l.groups.pop_front();
    ++l.first;
  }
}

void operation_table::finish(finished_fences over) noexcept {
  for (const auto& [w, why] : over) w->arrive(why);
}

bool operation_table::end(std::uint64_t number, int owner, const std::exception_ptr& why) noexcept {
  finished_fences over;
  entry e;
  {
    const std::lock_guard hold(guard_);
    e = take(number, owner);
    if (!e.of) return false;
  }
  finished_.fetch_add(1, std::memory_order_relaxed);
  if (why) failed_.fetch_add(1, std::memory_order_relaxed);
  e.of->end(why); // before a fence says so
  {
    const std::lock_guard hold(guard_);
    line& l = lines_[owner];
    if (why && !e.of->seen()) l.unseen.push_back({e.of, e.group, why});
    leave(l, e.group, over);
  }
  finish(std::move(over));
  return true;
}

void operation_table::forget(std::uint64_t number, int owner) noexcept {
  finished_fences over;
  {
    const std::lock_guard hold(guard_);
    const entry e = take(number, owner);
    if (!e.of) return;
    announced_.fetch_sub(1, std::memory_order_relaxed);
    leave(lines_[owner], e.group, over);
  }
  finish(std::move(over));
}

void operation_table::join(line& l, const std::shared_ptr<fence_wait>& w, finished_fences& over) {
  const std::uint64_t last = l.first + (l.groups.empty() ? 0 : l.groups.size() - 1);
  if (l.groups.empty() || (l.groups.size() == 1 && l.groups.front().left == 0)) {
    over.emplace_back(w, take_unseen(l, last));
    return;
  }
  l.groups.back().waiters.push_back(w);
  l.groups.emplace_back();
}

future<void> operation_table::fence(int rank) {
  const auto w = std::make_shared<fence_wait>(1);
  future<void> result = w->get_future();
  finished_fences over;
  {
    const std::lock_guard hold(guard_);
    join(lines_[rank], w, over);
  }
  finish(std::move(over));
  return result;
}

future<void> operation_table::fence() {
  finished_fences over;
  std::unique_lock hold(guard_);
  const auto w = std::make_shared<fence_wait>(static_cast<int>(lines_.size()) + 1);
  for (auto& [rank, l] : lines_) join(l, w, over);
  hold.unlock();
  future<void> result = w->get_future();
  over.emplace_back(w, nullptr); // for no rank at all
  finish(std::move(over));
  return result;
}

void operation_table::abandon(const std::exception_ptr& why) noexcept {
  std::vector<std::pair<std::uint64_t, int>> all;
  {
    const std::lock_guard hold(guard_);
    entries_.for_each([&](std::uint64_t number, entry& e) { all.emplace_back(number, e.owner); });
  }
  for (const auto& [number, owner] : all) end(number, owner, why);
  const std::lock_guard hold(guard_);
  for (auto& [rank, l] : lines_) l.unseen.clear(); // fences of the next generation are not about them
}

} // namespace tern::global::detail
