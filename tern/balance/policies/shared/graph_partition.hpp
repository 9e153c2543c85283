// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Objects that talk to each other, dealt out to ranks so that little of it crosses from one to
/// another.

#include <cstddef>
#include <cstdint>
#include <vector>

#include <tern/balance/policies/shared/assignment.hpp>
#include <tern/balance/policies/shared/central.hpp>

namespace tern::balance::detail {

/// Which objects talk to each other: the partners of object i are in places first[i] to first[i +
/// 1] - 1. Each pair is there from both sides.
struct talk_graph {
  std::vector<std::uint32_t> first, with;
  std::vector<float> seconds; ///< that the two spend on it if they are on different ranks
};
/// \param byte seconds for each byte. \param message seconds for each message. Messages to objects
/// that no rank has reported are left out.
talk_graph graph_of(const talk_report& talk, double byte, double message);

/// As `p`, but the loads hold what each object spends on talking to others of other ranks.
assignment_problem with_talk(const assignment_problem& p, const talk_graph& talk,
                             const std::vector<std::int32_t>& where);

/// Seconds that a worker spends on talking to other ranks, on average.
double talk_of(const assignment_problem& p, const talk_graph& talk, const std::vector<std::int32_t>& where);

/// The objects cut into a part for each rank, as large as the rank is quick, with few seconds
/// between parts (METIS: Karypis and Kumar 1998, multilevel k-way), the parts given to ranks so
/// that little moves.
/// \param cost of moving each object. \param stays which ones cannot. \param random for the seed.
/// \return by object: its rank; empty if there is nothing to cut, or METIS cannot.
/// METIS draws from the C library's `rand`, and so changes what a program gets from it.
std::vector<std::int32_t> cut(const assignment_problem& p, const talk_graph& talk, const std::vector<float>& cost,
                              const std::vector<std::uint8_t>& stays, std::uint64_t random);

/// Moves objects to ranks of others that they talk to, from ranks that end later than the level by
/// more than the share `exact`, and wherever it saves talk and makes none end as late; then evens
/// out what is left, talk included, as `assign_refine` does.
void even_out(const assignment_problem& p, const talk_graph& talk, const std::vector<std::uint8_t>& stays, double exact,
              std::vector<std::int32_t>& where);

} // namespace tern::balance::detail
