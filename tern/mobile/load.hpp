// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What there is to do for the objects of a rank, and what it costs to move one: for code that
/// decides where objects live. A class may say it itself:
///
///     class domain {
///     public:
///       double workload(std::size_t pending) const { return cells() * pending; } // in units of its own
///       double migration_cost() const { return 8.0 * cells(); }                  // likewise
///       …
///
/// `workload` is called by the fiber that has access to the object, with the number of its
/// invocations that wait or run; a `static constexpr double workload` is what each of those counts.
/// Else an invocation counts as many seconds as the last few of the object ran, without what they
/// waited and without outliers; as those of its class, if it is new. Neither may throw or wait.

#include <cstddef>
#include <vector>

#include <tern/mobile/object.hpp>

namespace tern::mobile {

namespace detail {

template <class T> double cost_of(const T& object) {
  if constexpr (requires { static_cast<double>(object.migration_cost()); })
    return static_cast<double>(object.migration_cost());
  else if constexpr (can_move<T>)
    return static_cast<double>(packed_size(object));
  else
    throw error(errc::unsupported, "objects of class " + tern::detail::type_name(typeid(T)) + " cannot move",
                "give the class a serialize function, or a migration_cost");
}

} // namespace detail

/// From now on the calling rank keeps count of loads, or no longer, which costs each invocation
/// some time. Off at the beginning. Any worker thread of a rank, as the rest.
inline void watch_loads(bool on) { directory::here().watch_loads(on); }

/// Of all objects that are on the calling rank, at this moment. It grows as soon as an invocation
/// arrives.
inline double load() { return directory::here().load(); }

/// Each object that is on the calling rank.
inline std::vector<object_load> loads() { return directory::here().loads(); }

} // namespace tern::mobile

namespace tern {

/// What it costs to move the object, at the moment when those invocations have run that were sent
/// before: what its class says, else the bytes that it would be packed to. The future throws
/// error(not_found) if it is gone, and error(unsupported) if it cannot move.
template <class T> future<double> migration_cost(mobile_ptr<T> object) {
  return call<&mobile::detail::cost_of<T>>(object);
}

} // namespace tern
