// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Places in an array in the order of a space-filling curve, and the curve cut into a piece for
/// each rank. Elements that follow each other on the curve are neighbours, so a piece is a compact
/// part of the array (Aluru & Sevilgen 1997).

#include <cstdint>
#include <span>
#include <vector>

#include <tern/balance/policies/shared/assignment.hpp>
#include <tern/balance/policy.hpp>

namespace tern::balance::detail {

/// Where the place is on Hilbert's curve in as many dimensions as the array has (Skilling 2004).
/// The longest dimension is the curve's whole side, so places of arrays of the same shape lie side
/// by side. Below 2^63.
std::uint64_t curve_position(const array_place& at) noexcept;

/// Cuts the order of `along` into a piece for each rank, in the ranks' order, such that the rank
/// that ends last ends as early as it can (chains on chains: Pinar & Aykanat 2004), and each piece
/// is as near to its rank's share as that allows. Loads are poured: what several workers of a rank
/// cannot share is not looked at. \param along by object; equal ones stay in their order. \return
/// by object: its rank; where it is, if no rank takes objects.
std::vector<std::int32_t> assign_along(const assignment_problem& p, std::span<const std::uint64_t> along);

} // namespace tern::balance::detail
