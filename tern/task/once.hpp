// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Calling a function once, by the first context that comes; included by sync.hpp.

#include <atomic>
#include <cstdint>
#include <functional>
#include <utility>

#include <tern/task/wait/wait_list.hpp>

namespace tern {

/// As std::once_flag: for `call_once`.
class once_flag {
public:
  constexpr once_flag() noexcept = default;
  ~once_flag();
  once_flag(const once_flag&) = delete;
  once_flag& operator=(const once_flag&) = delete;

private:
  template <class F, class... Args> friend void call_once(once_flag& flag, F&& f, Args&&... args);
  bool begin();
  void end(bool done) noexcept;

  std::atomic<bool> done_{false};
  std::atomic<std::uintptr_t> runner_{0}; // the context that calls the function at present
  bool running_ = false;
  detail::spin_lock guard_;
  detail::waiter_list waiters_;
};

/// Calls `f(args...)` unless a call through this flag has returned before; while another is at it,
/// a fiber suspends and a foreign thread sleeps. What `f` throws comes out, and the next that waits
/// or comes calls again. Any thread, inside fibers and out.
/// \throws error(deadlock) if the caller is inside that call already.
template <class F, class... Args> void call_once(once_flag& flag, F&& f, Args&&... args) {
  // acquire: what the call has done is visible; pairs with the release in end.
  if (flag.done_.load(std::memory_order_acquire) || !flag.begin()) return;
  try {
    std::invoke(std::forward<F>(f), std::forward<Args>(args)...);
  } catch (...) {
    flag.end(false);
    throw;
  }
  flag.end(true);
}

} // namespace tern
