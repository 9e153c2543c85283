// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Load balancing: mobile objects go, with the invocations that wait for them, to where workers
/// have time.
///
///     int main(int argc, char** argv) {
///       return tern::run(argc, argv, [] {
///         tern::balance::use("diffusion").get(); // or --tern-balance diffusion, with no change to the program
///         …
///
/// While a policy is in use, a long invocation waits in its object until a worker is idle, so the
/// object can still migrate with its pending work. Invocations of a few microseconds do not wait.
/// The option `balance-order` chooses which object runs next on a rank; the policy chooses which
/// goes elsewhere (policy.hpp says how to write one).
///
/// A policy that brings no gain stands aside on its rank: its invocations begin where they arrive,
/// and it is called at the end of phases only. It is tried again from time to time, and at once
/// when the load changes (option `balance-aside`).

#include <cstdint>
#include <string>

#include <tern/base/options.hpp>
#include <tern/task/future.hpp>

namespace tern {
template <class T, int N> class mobile_array;
}

namespace tern::balance {

namespace detail {
void phase_of(std::uint64_t array);
}

/// `balance`, `balance-order`, `balance-load`, `balance-period`, `balance-aside`, `record`.
extern const option<std::string> balance_option, order_option, load_option, record_option;
extern const option<double> period_option;
extern const option<bool> aside_option;

/// From now on this policy balances the job: `none`, or `NAME:PARAMETER=VALUE,…`. Objects that wait
/// stay where they are. The future is set when all ranks use it; it throws error(invalid_option)
/// for a policy or parameter that there is not, and then all stays as it was. Any fiber of any
/// rank.
future<void> use(std::string policy);
/// Rests from balancing, or goes on: policies keep what they know, but move nothing. The future is
/// set when all ranks know. Any fiber of any rank.
future<void> enable(bool on);
/// The policy of the calling rank: "diffusion:limit=2"; "none" too if it failed.
std::string in_use();

/// Marks the end of a phase, a step of the program after which much the same work comes again:
/// waits until nothing is under way any more (as `quiesce`), gives the policy its chance, and waits
/// until that has come to rest too. From the first one on loads are what each object is expected to
/// take in the next phase, as it did in the last. Collective: by one fiber of each rank.
void phase();

/// As `phase`, of one array: its elements alone are looked at and moved, by what they are expected
/// to take in the next phase of theirs. For programs whose arrays take turns: evened out together
/// they may each be uneven. All that is under way is waited for, also of other objects. Collective:
/// by one fiber of each rank, with the same array. \throws error(invalid_argument) for a null
/// array; error(not_found) for one that has been destroyed.
template <class T, int N> void phase(const mobile_array<T, N>& array) { detail::phase_of(array.id()); }

/// Within an invocation: a device has worked for it for so many seconds. Kept apart from the time
/// of workers.
/// \throws error(invalid_state) outside of one; error(invalid_argument) for a negative or infinite
/// time.
void charge_device(double seconds);

/// What has happened on the calling rank since it began.
struct counters {
  std::uint64_t moves = 0;       ///< objects that have left, and arrived
  std::uint64_t arrived = 0;     ///< objects that have come
  std::uint64_t stayed = 0;      ///< moves that a policy wanted and that could not be
  std::uint64_t messages = 0;    ///< of policies
  std::uint64_t calls = 0;       ///< of dist_balance
  std::uint32_t most_moves = 0;  ///< of one object since one of its invocations began last, or since the last phase
  std::uint64_t returns = 0;     ///< of them, those to a rank where it had been since
  std::uint64_t asides = 0;      ///< times that the policy stood aside because it brought no gain
  std::uint64_t resumptions = 0; ///< times that it acted again
};
counters count();

} // namespace tern::balance
