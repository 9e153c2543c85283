// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// A job that goes on after ranks have died: what the layers above need to go on too. Internal.
///
/// The *generation* of a rank is the number of ranks whose death its present work takes into
/// account. Each message carries its sender's. A rank that is *guarded* and learns of a death
/// *abandons* its generation, at once and where messages arrive:
/// - what waits for other ranks fails with error(rank_lost), which names the dead: calls, remote
///   promises, collectives, `quiesce`, epochs; and so does what begins now: `send`, `call`, …;
/// - what is queued to be sent is dropped, so are handlers that have not begun, and messages that
///   arrive of this generation and older ones: none of them is counted. Messages of later ones are
///   kept;
/// - `post` and what stands on it drops messages silently: the runtime's own code need not ask.
///
/// `recover` begins the next generation on all survivors together. Ranks keep their numbers; the
/// world is made of the survivors. A rank that dies meanwhile, or later, starts all this again.

#include <cstdint>
#include <optional>
#include <vector>

#include <tern/base/error.hpp>
#include <tern/net/rank/abandon_hook.hpp>

namespace tern::net {

class node;

namespace detail {

/// Can a job go on without one of its ranks, on this transport? Any thread.
bool survives(node& here) noexcept;
/// From now on, until the job's end, a death that this rank learns of abandons its generation. In a
/// fiber. Local: all ranks must call it, and a death before all have may leave others waiting, as
/// without it. Twice does no harm. \pre `survives`.
void guard(node& here);

/// For tests: a rank of this job dies now. \throws error(unsupported) unless `survives`.
void kill_for_test(node& here, int rank);

/// Of this rank; 0 as long as no `recover` has returned. Any thread.
int generation_of(const node& here) noexcept;
/// Between a death and the end of `recover`. Any thread.
bool abandoned(const node& here) noexcept;
/// The ranks that are not known to be dead, ascending. Any thread.
std::vector<int> living(const node& here);
/// error(rank_lost) that names all ranks that are known to be dead. \param what failed, with its
/// object: "call of 'f' on rank 3".
error rank_lost_error(const node& here, const std::string& what);
/// \throws `rank_lost_error` if the generation is abandoned, or `rank` is dead. Any thread.
void check_living(const node& here, int rank, const char* what);

/// What the survivors have agreed on.
struct recovery {
  int generation = 0;
  std::vector<int> living; ///< ascending
  std::int64_t copy = -1;  ///< the largest number that a survivor gave
  bool finished = false;   ///< a survivor gave `finished_copy`: it has left the work that is protected
};
/// For a rank that takes part in recoveries, and has nothing to do any more. `recovery::copy` does
/// not count it.
inline constexpr std::int64_t finished_copy = INT64_MAX;

/// Waits until all handlers of this rank that belong to the abandoned generation have ended; then
/// until all survivors have come so far and know of the same deaths; then begins the next
/// generation: counters, the world, epochs and calls are new, and messages of it that have come
/// are delivered. When it returns on this rank, another one may already have sent in the new
/// generation.
/// \param copy of this rank, complete on all ranks; -1: none. \return at once, with the present
/// state, if nothing was abandoned. In one fiber at a time, which is no handler that counts.
/// \throws error(rank_lost) if this rank itself is taken for dead (test switch of inproc).
recovery recover(node& here, std::int64_t copy);
/// The same; nothing if another rank has come to the end of the job meanwhile: then all have done
/// what the job is for.
std::optional<recovery> recover_unless_over(node& here, std::int64_t copy);

} // namespace detail
} // namespace tern::net
