// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// How ranks reach each other. A transport moves messages between the ranks of a job; everything
/// above it (handlers, counting, what waits for space, collectives) is the same whatever the
/// transport. It is chosen when the program starts, never when it is built.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include <tern/base/bytes.hpp>
#include <tern/base/language/durations.hpp>

namespace tern::net {

/// A message that has arrived.
struct arrival {
  int source = -1;
  byte_buffer head; ///< perhaps the transport's own memory, lent: it is given back when the buffer is destroyed
  byte_buffer body; ///< empty if there was none
};

/// Memory that the ranks of a host share, a little for each; all zero at the start.
struct host_memory {
  static constexpr std::size_t bytes = 56; ///< for each rank, aligned to 8
  std::byte* first = nullptr;              ///< null: they share none
  std::size_t stride = 0;
  int mine = 0, ranks = 0; ///< the transport does not say which rank has which part
};

/// A rank that has failed while the job goes on.
struct lost_rank {
  int rank = -1;
  std::int64_t when = 0; ///< nanoseconds of `fiber_clock`
  std::string host, text;
  bool left = false; ///< it has not failed: it has come to the end of the job (transport::leave)
};

/// One rank's end of the network. It moves messages of two parts: a *head*, small and copied, and a
/// *body* of any size or none, whose memory is handed over and not copied by the sender.
///
/// Threads: one thread of the rank, the *owner*, calls `receive`, `wait`, `finish`, and `send`
/// unless `any_thread_sends`; any thread may call `wake` and destroy what `receive` gave. Nothing
/// here blocks but `wait` and `finish`. Order: messages between one pair of ranks arrive, whole, in
/// the order of the calls of `send` that took them. Space: a receiver has space for so many
/// messages of each sender that it has not received; a message that finds none is refused, and the
/// caller tries again later. So a fast sender cannot exhaust a slow receiver's memory.
class transport {
public:
  virtual ~transport() = default;
  virtual int rank() const noexcept = 0;
  virtual int size() const noexcept = 0;
  /// This rank among the ranks on the same host, and their number.
  virtual int host_rank() const noexcept = 0;
  virtual int host_size() const noexcept = 0;
  /// The ranks of this host that may run on some CPU of this rank: its place among them, and their
  /// number. A launcher that binds each rank to CPUs of its own leaves each rank alone.
  struct cpu_sharers {
    int rank, ranks;
  };
  virtual cpu_sharers sharers() const noexcept { return {host_rank(), host_size()}; }
  /// What names the host: the same for two ranks if and only if they are on one.
  virtual std::string host() const;
  /// For the start-up line and `tern info`: "inproc", "mpi (Open MPI 4.1.4, funneled, rings)", ….
  virtual std::string describe() const = 0;
  /// The most bytes of a head; at least 96, the same on all ranks of a job.
  virtual std::size_t head_limit() const noexcept = 0;
  /// Whether `send` may be called by any thread, by several at once.
  virtual bool any_thread_sends() const noexcept = 0;

  /// Sends a message: `head` is copied before this returns; `body` is taken over and left empty. A
  /// rank may send to itself.
  /// \param urgent may use the space that is kept for such messages, of which there are few: the
  /// runtime's own, which must get through while others wait for space.
  /// \return false if there is no space: nothing was sent or taken. Later calls of `receive` by the
  /// owner may make space, and a `wait` ends when there is some again. \throws
  /// error(invalid_argument) for a destination that is no rank or a head above `head_limit`,
  /// error(transport) if the network fails.
  virtual bool send(int destination, std::span<const std::byte> head, byte_buffer& body, bool urgent = false) = 0;
  /// Makes progress, and gives the next message that has arrived whole. \return false if there is
  /// none.
  /// \throws error(transport), error(out_of_memory).
  virtual bool receive(arrival& into) = 0;
  /// Sleeps until something may have arrived or may have space, `wake` is called, or the time is
  /// over. Returns at once if `wake` was called since the last `wait` returned, so that a wake-up
  /// between "nothing to do" and `wait` is not lost.
  virtual void wait(std::chrono::microseconds at_most) = 0;
  /// Ends a present or the next `wait`. Any thread.
  virtual void wake() noexcept = 0;
  /// Collective: completes every send, meets all ranks. No message may be sent or expected any
  /// more.
  virtual void finish() = 0;
  /// Ends all ranks of the job with `code`, without running destructors; buffered output is flushed
  /// first.
  [[noreturn]] virtual void abort(int code) noexcept = 0;

  /// May something have arrived that `receive` has not given? The owner; or any thread, while the
  /// owner does nothing. A transport that only its owner may ask says "yes" to other threads.
  virtual bool may_have_input() const noexcept { return true; }
  /// If each rank is a process: what those of this host share, until the process ends.
  virtual std::optional<host_memory> processes() const noexcept { return std::nullopt; }
  /// Calls `f` with each rank that fails, once, also with those that have already; within
  /// `receive`. Only transports that outlive it do. In a fiber, once.
  virtual void tell_failures(std::function<void(const lost_rank&)> f) { static_cast<void>(f); }
  /// Can the others go on when a rank fails? Then all of them are told, and what is sent to it is
  /// lost.
  virtual bool outlives_ranks() const noexcept { return false; }
  /// For tests of that: a rank fails now, whatever it does. Any fiber. \throws error(unsupported).
  virtual void kill_for_test(int rank);
  /// This rank needs no other one any more, in a job whose ranks may fail: those that wait for it
  /// because one has are told so, by what `tell_failures` was given. In a fiber.
  virtual void leave() {}
};

} // namespace tern::net
