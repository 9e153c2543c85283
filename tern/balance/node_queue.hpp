// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The lower of the two levels: which of the objects that wait runs next, and on which worker of
/// the rank.

#include <cstddef>
#include <memory>
#include <string_view>

#include <tern/balance/policy.hpp>

namespace tern::balance {

/// Objects that wait for a worker. More urgent ones always come first. Objects that have left or
/// need no worker any more may still be in it: the caller of `pop` finds out. Thread-safe; a call
/// takes a lock for a moment. Workers are numbered from 0; a push for one that there is not throws
/// error(invalid_argument).
class node_queue {
public:
  virtual ~node_queue() = default;
  /// \param worker that made it ready; -1: none. \param wants the worker on which it should run;
  /// -1: any.
  virtual void push(int worker, const ready_object& object, int wants = -1) = 0;
  /// \return null if it is empty.
  virtual object_id pop(int worker) = 0;
  /// A hint: the object has left, or will be pushed again. A plan is wrong that counts on it; other
  /// orders need not know.
  virtual void gone(object_id /*object*/) {}
  /// `worker` has begun what takes so long (as loads count), or has become idle: 0.
  virtual void begun(int worker, double load) = 0;
  virtual std::size_t size() const noexcept = 0;
};

/// `fifo`, `lifo`; `heavy`: the heaviest first, which leaves the small ones for the end (Graham
/// 1969: longest processing time first); `locality`: those that last became ready on the same
/// worker, else the oldest of the worker that has most; `plan`: heaviest first, but while a worker
/// has few objects to come they are dealt out to the workers so that all will end at the same time
/// (longest first, then exchanges), anew whenever something has come that was not expected. \throws
/// error(invalid_option) for another.
std::unique_ptr<node_queue> make_node_queue(std::string_view order, int workers);
/// "fifo|lifo|…"
extern const char* const node_orders;

} // namespace tern::balance
