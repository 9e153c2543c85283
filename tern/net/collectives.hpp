// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Operations that all ranks of the job take part in: those of `communicator::world()`
/// (communicator.hpp, which says more of each), and `quiesce`. Every rank calls the same ones in
/// the same order, from one fiber at a time; while a rank waits, its handlers go on running.

#include <cstdint>
#include <source_location>
#include <utility>
#include <vector>

#include <tern/net/communicator.hpp>
#include <tern/net/message.hpp>

namespace tern {

/// Returns when all ranks have called it.
void barrier(std::source_location where = std::source_location::current());

/// What `quiesce` waits for. Each includes those above it.
enum class quiescence : std::uint8_t {
  messages, ///< none is under way, and no handler runs
  fibers,   ///< no fiber or tasklet runs or could: each waits for another, or for a moment in time
  timers,   ///< nor does any wait for a moment in time, as in a sleep or with a limit: nothing will ever happen again
            ///< unless the callers do something
};

/// Returns when nothing goes on any more, anywhere, counting everything that was caused before and
/// all that it caused. Collective; all ranks ask for the same. The fibers that call it do not
/// count. It comes at some moment after that: with `fibers`, a timer may have begun something by
/// then. What foreign threads do is not seen. A fiber that yields again and again never comes to
/// rest. \throws error(invalid_state) if the ranks ask for different ones.
void quiesce(quiescence of = quiescence::messages, std::source_location where = std::source_location::current());

/// Gives `value` of rank `root` to all ranks. \throws error(invalid_argument) for a root that is no
/// rank.
template <class T> T broadcast(T value, int root = 0, std::source_location where = std::source_location::current()) {
  return communicator::world().broadcast(std::move(value), root, where);
}

/// Combines all ranks' values with `op` (associative, need not be commutative; applied in rank
/// order, in an order that depends on the number of ranks only). The result is on every rank.
template <class T, class Op> T allreduce(T value, Op op, std::source_location where = std::source_location::current()) {
  return communicator::world().allreduce(std::move(value), std::move(op), where);
}

namespace net::detail {
/// Objects with copies on devices, and views of them: `tern::reduce` of those is an access of a
/// task's (tern/hetero/hetero_task.hpp), whose third argument is a number too.
template <class T>
concept device_data = requires(const T& x) {
  x.inside_part();
};
} // namespace net::detail

/// As `allreduce`, with the result on rank `root` only; the others get back a part that means
/// nothing.
/// \throws error(invalid_argument) for a root that is no rank.
template <class T, class Op>
requires(!net::detail::device_data<T>) T
    reduce(T value, Op op, int root = 0, std::source_location where = std::source_location::current()) {
  return communicator::world().reduce(std::move(value), std::move(op), root, where);
}

/// All ranks' values in rank order on rank `root`; empty elsewhere. \throws error(invalid_argument)
/// for a root that is no rank.
template <class T>
std::vector<T> gather(T value, int root = 0, std::source_location where = std::source_location::current()) {
  return communicator::world().gather(std::move(value), root, where);
}

} // namespace tern
