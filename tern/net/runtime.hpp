// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Starting a job and asking where one is.
///
///     int main(int argc, char** argv) {
///       return tern::run(argc, argv, [] {
///         std::printf("rank %d of %d\n", tern::rank(), tern::size());
///       });
///     }
///
/// The same program runs alone (one rank), with `TERN_RANKS=4` (four ranks as threads of one process), and under an MPI
/// launcher (each process a rank); `tern run -n 4 -- ./app` starts either.

#include <functional>
#include <type_traits>
#include <utility>

#include <tern/base/options.hpp>

namespace tern {

namespace net {
int run_job(int& argc, char** argv, const std::function<int()>& main);
std::size_t new_local_slot() noexcept;
std::size_t local_slot_count() noexcept;
void* local_slot(std::size_t index, void* (*make)(), void (*destroy)(void*));
} // namespace net

/// Runs `main` as the main fiber of every rank: a function that takes nothing, or `(int argc, char** argv)` as left
/// after Tern's own arguments (`--tern-…`) have been removed, and returns an exit code or nothing. With several ranks
/// in one process `main` is called once for each, at the same time.
///
/// Returns when all ranks' main fibers have returned and every message sent has been handled. Fibers that `main`
/// started with `async` should be waited for: those still running then are finished, but what they send is refused.
/// \return the largest of the ranks' exit codes, on every rank; 2 after a start that failed (a bad option, no such
/// transport), whose reason is on standard error; 0 for `--tern-help`. Tern's own arguments are removed from `argv`, so
/// a second run in the same program sees the environment and the options file only. An exception out of `main` on any
/// rank ends all ranks with exit code 1 and the exception's text on standard error.
template <class F> int run(int& argc, char** argv, F main) {
  return net::run_job(argc, argv, [&]() -> int {
    const auto invoke = [&]() -> decltype(auto) {
      if constexpr (std::is_invocable_v<F&>)
        return main();
      else
        return main(argc, argv);
    };
    if constexpr (std::is_void_v<decltype(invoke())>) {
      invoke();
      return 0;
    } else {
      return invoke();
    }
  });
}

/// The calling rank's number, 0 … size()-1. \throws error(invalid_state) on a thread that is no worker of a rank.
int rank();
/// The number of ranks of the job. \throws as `rank`.
int size();
/// The options that this rank was started with. \throws as `rank`.
const options& run_options();

/// A variable of which every rank has its own: ranks may share a process, and then they share plain globals. Make it a
/// static object; each rank's value is default-constructed when first used, and destroyed when the rank ends.
/// Threads: getting the value is thread-safe; using it is as safe as `T` is.
template <class T> class rank_local {
public:
  rank_local() : index_(net::new_local_slot()) {}
  rank_local(const rank_local&) = delete;
  rank_local& operator=(const rank_local&) = delete;
  /// \throws error(invalid_state) on a thread that is no worker of a rank.
  T& get() const { return *static_cast<T*>(net::local_slot(index_, make, destroy)); }
  /// A rank's whose net::node is at hand.
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
