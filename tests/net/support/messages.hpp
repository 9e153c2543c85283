// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What the tests of messages send, and how they know it again.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

#include <tern/net/message.hpp>
#include <tern/net/runtime.hpp>
#include <tern/task/fiber/sanitizer.hpp>
#include <tern/task/scheduler.hpp>
#include <tern/task/sim.hpp>

namespace messages_test {
struct alignas(16) wide {
  double a = 0, b = 0;
  bool operator==(const wide&) const = default;
};
} // namespace messages_test
template <> inline constexpr bool tern::is_bitwise<messages_test::wide> = true;

namespace messages_test {

using tern::buffer;
using tern::call;
using tern::lend;
using tern::rank;
using tern::send;
using tern::shared_buffer;
using tern::size;

using tern::detail::sanitized;

inline bool simulated() { return tern::sim::active(); }
// Simulations and sanitizers do less; so do many ranks, which share a process or a core.
inline int some(int plain) {
  const int slow = simulated() || sanitized ? 20 : 1;
  return std::max(3, plain / slow / std::max(1, size() / 4));
}
inline int next_rank() { return (rank() + 1) % size(); }
inline std::vector<int> destinations() { return size() == 1 ? std::vector{0} : std::vector{next_rank(), rank()}; }
inline bool starts_are_seen() { // a handler that has started gets to its first statement before the next one starts
  return simulated() || tern::scheduler::current()->workers() == 1;
}

// What is sent can be told from what is not

template <class T> T element(std::uint64_t salt, std::size_t i) {
  const std::uint64_t x = (salt + 1) * 7919 + i * 31 + (i >> 8);
  if constexpr (std::is_same_v<T, wide>)
    return {static_cast<double>(x % 65521), static_cast<double>(i)};
  else
    return static_cast<T>(x % 65521);
}
template <class T> std::vector<T> made(std::uint64_t salt, std::size_t n) {
  std::vector<T> v(n);
  for (std::size_t i = 0; i < n; ++i) v[i] = element<T>(salt, i);
  return v;
}
/// \return the number of elements; -1 if one is wrong, -2 if they are not aligned.
template <class T> std::int64_t look(std::uint64_t salt, std::span<const T> v) {
  if (reinterpret_cast<std::uintptr_t>(v.data()) % alignof(T) != 0) return -2; // address: tests its alignment
  for (std::size_t i = 0; i < v.size(); ++i)
    if (v[i] != element<T>(salt, i)) return -1;
  return static_cast<std::int64_t>(v.size());
}
template <class T> std::int64_t take(std::uint64_t salt, buffer<T> b) {
  const std::int64_t n = look<T>(salt, std::span<const T>(b));
  for (T& x : b) x = T(); // it is the handler's own
  return n;
}

} // namespace messages_test
