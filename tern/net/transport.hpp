// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// How ranks reach each other. A transport moves whole messages between the ranks of a job; everything above it
/// (handlers, counting, collectives) is the same whatever the transport. It is chosen when the program starts, never
/// when it is built.

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <tern/base/bytes.hpp>

namespace tern {
class options;
}

namespace tern::net {

/// One rank's end of the network.
///
/// Threads: one thread of the rank, the *owner*, calls `poll`, `wait`, `finish`; any thread may call `send` and `wake`.
/// Order: messages between one pair of ranks are delivered in the order of their `send` calls (calls from different
/// threads are ordered as the caller orders them).
class transport {
public:
  /// Receives a message; runs on the owner, must not block.
  using sink = std::function<void(int source, byte_buffer message)>;

  virtual ~transport() = default;
  virtual int rank() const noexcept = 0;
  virtual int size() const noexcept = 0;
  /// This rank among the ranks on the same host, and their number; decides how many workers a rank starts by default.
  virtual int host_rank() const noexcept = 0;
  virtual int host_size() const noexcept = 0;
  /// For the start-up line and `tern info`: "inproc", "mpi (Open MPI 4.1.4, funneled)", ….
  virtual std::string describe() const = 0;

  /// Takes the message and returns at once; a rank may send to itself.
  /// \throws error(invalid_argument) for a destination that is no rank, error(transport) if the network fails.
  virtual void send(int destination, byte_buffer message) = 0;
  /// Makes progress and hands what has arrived to `receive`. \return how many events there were; 0 means idle.
  virtual std::size_t poll(const sink& receive) = 0;
  /// Sleeps until something may have arrived, `wake` is called, or the time is over. Returns at once if `wake` was
  /// called since the last `wait` returned, so that a wake-up between "nothing to do" and `wait` is not lost.
  virtual void wait(std::chrono::microseconds at_most) = 0;
  /// Ends a present or the next `wait`. Any thread.
  virtual void wake() noexcept = 0;
  /// Collective: completes every send, meets all ranks. No message may be sent or expected any more.
  virtual void finish() = 0;
  /// Ends all ranks of the job with `code`, without running destructors; buffered output is flushed first.
  [[noreturn]] virtual void abort(int code) noexcept = 0;
};

/// The ranks of one process as threads: `ranks` ends that reach each other.
/// \throws error(invalid_argument) for ranks < 1.
std::vector<std::unique_ptr<transport>> make_inproc(int ranks);

/// This process' end of an MPI job, through the plug-in named by `implementation` ("openmpi" or "mpich").
/// \param multithreaded the rank will have more than one thread.
/// \throws error(not_found) naming the folders searched, error(transport) with the library's own words.
std::unique_ptr<transport> make_mpi(const std::string& implementation, int* argc, char*** argv, bool multithreaded);

/// Which MPI this process belongs to: "openmpi", "mpich", or "" for none. Looks, in this order, at an MPI that the
/// application has loaded, at `preferred` (an option; "" for no preference), and at what launchers leave in the
/// environment. \throws error(transport) if the application's MPI and the launcher's differ.
std::string detect_mpi(const std::string& preferred);

/// Where plug-ins are looked for, best first: $TERN_PLUGIN_DIR, beside the library that holds this function (and its
/// `tern/` folder), the installed folder.
std::vector<std::string> plugin_folders();

} // namespace tern::net
