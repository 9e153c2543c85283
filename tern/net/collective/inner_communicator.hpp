// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Collective operations of the runtime itself. Internal.

#include <memory>
#include <source_location>
#include <utility>

#include <tern/net/communicator.hpp>

namespace tern::net::detail {

/// The operations of a communicator under names of the runtime's own: so a program that calls
/// others at the same time is told what the ranks do.
class inner_communicator {
public:
  explicit inner_communicator(std::shared_ptr<collective_context> c) noexcept : all_(std::move(c)) {}
  template <class T>
  T broadcast(const collective_kind& kind, T value, int root, const std::source_location& where) const {
    return all_.broadcast_as(kind, std::move(value), root, where);
  }
  template <class T, class Op>
  T allreduce(const collective_kind& kind, T value, Op op, const std::source_location& where) const {
    return all_.allreduce_as(kind, std::move(value), std::move(op), where);
  }

  /// For operations of layers above, which a communicator does not know. \throws
  /// error(invalid_state) if it has no ranks, with `what` was to be done.
  static collective_context& context_of(const communicator& c, const char* what) { return c.context(what); }

private:
  communicator all_;
};

} // namespace tern::net::detail
