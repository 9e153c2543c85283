// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Operations that all ranks take part in. Every rank calls the same ones in the same order, from one fiber at a time
/// (the main fiber, usually); while a rank waits, its handlers go on running. A mismatch (one rank broadcasts while
/// another reduces, or other types) is an error that names both calls.

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <tern/base/archive.hpp>
#include <tern/net/detail/same_bytes.hpp>
#include <tern/net/message.hpp>
#include <tern/net/node.hpp>

namespace tern {

namespace net::detail {

/// What a collective call is, in words and as a number to compare.
struct collective_name {
  std::string what;
  std::uint64_t signature;
};
collective_name name_collective(const char* operation, const std::type_info& type, int root);

void broadcast_bytes(node& here, byte_buffer& bytes, int root, const collective_name& name);
/// Binomial tree over ranks 0 … size-1: `absorb` is given the packed value of the ranks just above those already held,
/// so that values combine in rank order. \return true on rank 0, which ends with the result.
bool reduce_up(node& here, const collective_name& name, const std::function<byte_buffer()>& mine,
               const std::function<void(std::span<const std::byte>)>& absorb);

} // namespace net::detail

/// Returns when all ranks have called it.
void barrier();

/// Returns when no message is under way and no handler runs, anywhere, counting everything that was sent before and all
/// that its handlers sent. Collective. Fibers started with `async` or `scheduler::spawn` are not counted, only
/// handlers.
void quiesce();

/// Gives `value` of rank `root` to all ranks. \throws error(invalid_argument) for a root that is no rank.
template <class T> T broadcast(T value, int root = 0) {
  net::node& here = net::node::here();
  here.check_rank(root);
  byte_buffer bytes;
  if (here.rank() == root) {
    const net::detail::same_bytes_for_many told;
    bytes = pack(value);
  }
  net::detail::broadcast_bytes(here, bytes, root, net::detail::name_collective("broadcast", typeid(T), root));
  if (here.rank() != root) unpack_into(std::span<const std::byte>(bytes.data(), bytes.size()), value);
  return value;
}

/// Combines all ranks' values with `op` (associative, need not be commutative; applied in rank order, in an order that
/// depends on the number of ranks only). The result is on every rank.
template <class T, class Op> T allreduce(T value, Op op) {
  net::node& here = net::node::here();
  const auto name = net::detail::name_collective("allreduce", typeid(T), 0);
  net::detail::reduce_up(
      here, name, [&] { return pack(value); },
      [&](std::span<const std::byte> bytes) {
        T other{};
        unpack_into(bytes, other);
        value = op(std::move(value), std::move(other));
      });
  byte_buffer bytes;
  if (here.rank() == 0) {
    const net::detail::same_bytes_for_many told;
    bytes = pack(value);
  }
  net::detail::broadcast_bytes(here, bytes, 0, name);
  if (here.rank() != 0) unpack_into(std::span<const std::byte>(bytes.data(), bytes.size()), value);
  return value;
}

/// As `allreduce`, with the result on rank 0 only; the others get back a part that means nothing.
template <class T, class Op> T reduce(T value, Op op) {
  net::detail::reduce_up(
      net::node::here(), net::detail::name_collective("reduce", typeid(T), 0), [&] { return pack(value); },
      [&](std::span<const std::byte> bytes) {
        T other{};
        unpack_into(bytes, other);
        value = op(std::move(value), std::move(other));
      });
  return value;
}

/// All ranks' values in rank order on rank 0; empty elsewhere.
template <class T> std::vector<T> gather(T value) {
  std::vector<T> all;
  all.push_back(std::move(value));
  const bool root = net::detail::reduce_up(
      net::node::here(), net::detail::name_collective("gather", typeid(T), 0), [&] { return pack(all); },
      [&](std::span<const std::byte> bytes) {
        std::vector<T> more;
        unpack_into(bytes, more);
        for (auto& m : more) all.push_back(std::move(m));
      });
  if (!root) all.clear();
  return all;
}

} // namespace tern
