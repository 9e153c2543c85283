// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Epochs: all that something causes, and when it has ended.
///
///     tern::finish([&] { tern::send<&visit>(owner(root), root); }); // returns when the whole tree has been visited
///
/// An epoch is a set of things that go on: messages, from `send` to the return of their handlers,
/// and fibers, from their start to their end. What is sent or started by one of these belongs to it
/// too, on whatever rank; so do continuations, coroutines that wait, tasklets, and the epochs that
/// are made in it. It is over when nothing of it is left, here or anywhere, and then nothing of it
/// can begin any more. Any number may go on at the same time. How that is known, and why it is
/// true: docs/design/epochs.md.
///
/// Compare `quiesce`, which all ranks call and which waits for everything.

#include <memory>
#include <source_location>
#include <string>
#include <type_traits>
#include <utility>

#include <tern/net/communicator.hpp>
#include <tern/task/fiber/causal_context.hpp>
#include <tern/task/future.hpp>

namespace tern {

namespace net::detail {
class epoch_account;
}

/// An epoch of the rank that makes it. It can be waited for on that rank, by any fiber that does
/// not belong to it. Made within another, it belongs to that. Thread-safe, but for moving it.
class epoch {
public:
  /// Open. \param name for messages and reports. \throws error(invalid_state) outside a job.
  explicit epoch(std::string name = {}, std::source_location made = std::source_location::current());
  epoch(epoch&&) noexcept = default;
  epoch& operator=(epoch&& other) noexcept {
    close();
    account_ = std::move(other.account_);
    over_ = std::move(other.over_);
    return *this;
  }
  /// Closes it. What goes on goes on.
  ~epoch() { close(); }

  /// Calls `body` here and now; what it causes belongs to the epoch. \return what it returns.
  /// \throws what it throws; error(invalid_state) if the epoch has been closed.
  template <class F> decltype(auto) run(F&& body) {
    const presence here = enter();
    return std::forward<F>(body)();
  }
  /// From now on only what belongs to it can add to it. The two functions below call it. Again does
  /// nothing.
  void close() noexcept;
  /// Closes it. \return a future that is ready when it is over. Only code that does not belong to
  /// it may wait for that.
  shared_future<void> done();
  /// Closes it, and returns when it is over. \throws error(invalid_state) in a fiber that belongs
  /// to it, or to an epoch that does and was made on this rank, since neither could end. This rank
  /// does not know an epoch that was made on another rank: then it waits for ever, and a report
  /// shows it. error(rank_lost) if ranks have died and the job goes on.
  void wait();
  /// Is it over?
  bool finished() const { return over_.valid() && over_.ready(); }
  const std::string& name() const noexcept;

private:
  /// While it exists, its holder works for the epoch and is counted.
  struct presence {
    std::shared_ptr<net::detail::epoch_account> kept;
    tern::detail::held_context on;
    tern::detail::causal_scope in;
  };
  presence enter() const;
  std::shared_ptr<net::detail::epoch_account> account_; // null: moved from
  shared_future<void> over_;
};

/// Calls `body` in an epoch of its own and returns when that is over: when all has ended that
/// `body` has caused, directly or indirectly, anywhere. \return what `body` returns. \throws what
/// it throws, after that.
template <class F>
auto finish(F&& body, std::string name = {}, std::source_location where = std::source_location::current())
    -> std::invoke_result_t<F&&> {
  struct waits {
    epoch all;
    const int exceptions = std::uncaught_exceptions();
    ~waits() noexcept(false) {
      try {
        all.wait();
      } catch (...) { // ranks were lost; what `body` has thrown says more
        if (std::uncaught_exceptions() == exceptions) throw;
      }
    }
  } in{epoch(std::move(name), where)};
  return in.all.run(std::forward<F>(body));
}

/// The same on all ranks of a communicator: each calls it with a `body` of its own, and it returns
/// when all has ended that any of these has caused.
template <class F>
auto finish(const communicator& ranks, F&& body, std::string name = {},
            std::source_location where = std::source_location::current()) -> std::invoke_result_t<F&&> {
  struct meets {
    const communicator& ranks;
    const std::source_location& where;
    const int exceptions = std::uncaught_exceptions();
    ~meets() noexcept(false) {
      if (std::uncaught_exceptions() == exceptions) ranks.barrier(where);
    }
  } const then{ranks, where};
  return finish(std::forward<F>(body), std::move(name), where);
}

} // namespace tern
