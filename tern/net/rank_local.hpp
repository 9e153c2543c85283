// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Which rank the calling thread works for, and objects of which each rank has one.

#include <cstddef>

#include <tern/base/options.hpp>

namespace tern {

namespace net {
std::size_t new_local_slot() noexcept;
std::size_t local_slot_count() noexcept;
void* local_slot(std::size_t index, void* (*make)(), void (*destroy)(void*));
} // namespace net

/// The calling rank's number, 0 … size()-1. \throws error(invalid_state) on a thread that is no
/// worker of a rank.
int rank();
/// The number of ranks of the job. \throws as `rank`.
int size();
/// The options that this rank was started with. \throws as `rank`.
const options& run_options();

/// A variable of which every rank has its own: ranks may share a process, and then they share plain
/// globals. Make it a static object; each rank's value is default-constructed when first used, and
/// destroyed when the rank ends. Threads: getting the value is thread-safe; using it is as safe as
/// `T` is.
template <class T> class rank_local {
public:
  rank_local() : index_(net::new_local_slot()) {}
  rank_local(const rank_local&) = delete;
  rank_local& operator=(const rank_local&) = delete;
  /// \throws error(invalid_state) on a thread that is no worker of a rank.
  T& get() const { return *static_cast<T*>(net::local_slot(index_, make, destroy)); }
  /// The value of another rank. \param rank its net::node.
  template <class Node> T& of(Node& rank) const { return *static_cast<T*>(rank.local(index_, make, destroy)); }
  /// The same if it has ever been asked for; else null.
  template <class Node> T* if_made(Node& rank) const noexcept { return static_cast<T*>(rank.local_if_made(index_)); }
  T& operator*() const { return get(); }
  T* operator->() const { return &get(); }

private:
  static void* make() { return new T(); }
  static void destroy(void* p) { delete static_cast<T*>(p); }
  std::size_t index_;
};

} // namespace tern
