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
/// The same program runs alone (one rank), with `TERN_RANKS=4` (four ranks as threads of one
/// process), and under an MPI launcher (each process a rank); `tern run -n 4 -- ./app` starts
/// either.

#include <functional>
#include <type_traits>
#include <utility>

#include <tern/net/rank_local.hpp>

namespace tern {

namespace net {
int run_job(int& argc, char** argv, const std::function<int()>& main);
} // namespace net

/// Runs `main` as the main fiber of every rank: a function that takes nothing, or `(int argc,
/// char** argv)` as left after Tern's own arguments (`--tern-…`) have been removed, and returns an
/// exit code or nothing. With several ranks in one process `main` is called once for each, at the
/// same time.
///
/// Returns when all ranks' main fibers have returned and every message sent has been handled.
/// Fibers that `main` started with `async` should be waited for: those still running then are
/// finished, but what they send is refused.
/// \return the largest of the ranks' exit codes, on every rank; 2 after a start that failed (a bad
/// option, no such transport), whose reason is on standard error; 0 for `--tern-help`. Tern's own
/// arguments are removed from `argv`, so a second run in the same program sees the environment and
/// the options file only. An exception out of `main` on any rank ends all ranks with exit code 1
/// and the exception's text on standard error.
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

} // namespace tern
