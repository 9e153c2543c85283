// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The calls of a rank that wait for their answers.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <span>
#include <vector>

#include <tern/net/call/id_table.hpp>
#include <tern/task/wait/waiting.hpp>

namespace tern::net {

/// What a caller on this rank uses to wait for the answer to a call.
class pending_reply {
public:
  virtual ~pending_reply() = default;
  /// \throws error(invalid_data) if the bytes are no such value.
  virtual void value(std::span<const std::byte> bytes) = 0;
  virtual void failed(std::exception_ptr e) = 0;
  /// Values that came with the answer go back to where they belong, though the caller waits no
  /// more. Must not throw.
  using discard_function = void (*)(std::span<const std::byte>) noexcept;
  /// What to do with an answer that comes when this is gone; null: nothing.
  virtual discard_function discards() const noexcept { return nullptr; }
  /// Must `value` be called in a fiber of the rank's?
  virtual bool needs_fiber() const noexcept { return false; }

  struct goes {
    void operator()(pending_reply* who) const noexcept { who->let_go(); }
  };

private:
  /// Neither will be called any more.
  virtual void let_go() noexcept { delete this; }
};
using reply_ref = std::unique_ptr<pending_reply, pending_reply::goes>;

namespace detail {

/// A rank's calls without answer. Each call is answered once: one that its caller has given up
/// stays until then, so that the late answer is known for what it is, and a second one, or one to
/// no call, is an error. Takes no memory as long as there are no more calls at a time than there
/// were before. Thread-safe.
class pending_calls {
public:
  pending_calls() = default;
  pending_calls(const pending_calls&) = delete;
  pending_calls& operator=(const pending_calls&) = delete;
  /// Destroys the replies that still wait: their promises break.
  ~pending_calls();

  /// Enters a caller that waits for an answer of rank `from`. \return the number to send along;
  /// never 0.
  std::uint64_t expect(reply_ref who, int from);
  /// There will be no answer: the call was not sent.
  void forget(std::uint64_t number) noexcept;
  /// The answer of rank `source` has come. \return the reply that takes it; null if no caller waits
  /// for it any more: then `*late` is what to do with a value, or null.
  /// \throws error(invalid_data) if this call was never made or has been answered.
  reply_ref take(std::uint64_t number, int source, pending_reply::discard_function* late = nullptr);
  /// The caller waits no more; the answer will be dropped. \return the reply that waited; null if
  /// the call has been answered, given up or forgotten.
  reply_ref give_up(std::uint64_t number) noexcept;

  /// No call will be answered: all that wait fail with it, and `expect` throws it until `go_on`.
  /// Where messages arrive.
  void abandon(const std::exception_ptr& why);
  void go_on() noexcept;

  /// Calls without answer, those given up included.
  std::size_t size() const noexcept;
  /// Answers that came too late.
  std::uint64_t late() const noexcept { return late_.load(std::memory_order_relaxed); }

  struct entry {
    std::uint64_t number;
    int from;
    std::int64_t since; ///< ticks
    bool given_up;
  };
  /// For reports, which must not wait for ever: the lock, and under it all calls, the oldest first.
  tern::detail::spin_lock& guard() noexcept { return guard_; }
  std::vector<entry> list();

private:
  struct call {
    reply_ref who; // null: given up
    pending_reply::discard_function late = nullptr;
    int from = 0;
    std::int64_t since = 0;
  };
  mutable tern::detail::spin_lock guard_;
  id_table<call> calls_;
  std::exception_ptr abandoned_;
  std::atomic<std::uint64_t> late_{0};
};

} // namespace detail
} // namespace tern::net
