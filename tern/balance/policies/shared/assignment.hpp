// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Objects assigned to ranks where all of both are known: the arithmetic of the central policies,
/// without any messages. Nothing here is random.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace tern::balance::detail {

/// All ranks and the objects that may move. Those of rank r are numbers first[r] to first[r + 1] -
/// 1.
struct assignment_problem {
  std::vector<double> fixed;              ///< by rank: load that stays there; not negative
  std::vector<double> speed;              ///< by rank: load it gets done in a second; 0: it takes no objects
  std::vector<std::int32_t> workers;      ///< by rank: that share the load, but not an object
  std::vector<std::uint32_t> first;       ///< by rank, and one more for the end
  std::vector<float> load;                ///< by object; not negative
  std::vector<std::uint32_t> first_fixed; ///< as `first`, in `fixed_parts`
  std::vector<float> fixed_parts;         ///< loads of the objects that stay: their sums are in `fixed`
  std::vector<std::uint64_t> along;       ///< by object: its position on a curve; empty if the policy needs none

  std::size_t ranks() const noexcept { return fixed.size(); }
  /// Of each object: the rank where it is now.
  std::vector<std::int32_t> now() const;
};

/// The time by which all would end if load could be poured from rank to rank; fixed load cannot, so
/// ranks that have more of that than fits end later, and do not count.
double level_of(const assignment_problem& p);
/// Sixteen classes for each octave of speeds: speeds are measured, so hardly two ranks' are the
/// same. \pre above 0.
int speed_class(double speed);

/// Seconds that one object takes, on average; 0 if there are none that take any.
double grain_of(const assignment_problem& p);

/// What one rank's workers, none of which can help another, do until when.
struct rank_plan {
  std::vector<double> workers; ///< when each ends
  double ends = 0;             ///< the last of them
};
/// Deals a rank's objects out well: a rank of only heavy ones ends late, though it may have no more
/// load than others. Above 64 for each worker that is not looked at, and `workers` is empty. \param
/// loads the heaviest first.
/// \param speed of all workers together; if it is 0, and there is any load, it ends at infinity.
rank_plan plan_rank(std::span<const float> fixed_parts, std::span<const double> loads, int workers, double speed);
/// By rank: when it ends if the objects are on those ranks and each deals its own out well.
std::vector<double> ends_of(const assignment_problem& p, std::span<const std::int32_t> where);

/// The heaviest first, each to the worker that ends soonest with it (Graham 1969: longest
/// processing time first; Charm++'s GreedyLB). An object stays where it is if that rank ends later
/// by no more than the share `keep` of what the other still lacks to the level. Takes O(objects *
/// (log(objects) + workers of a rank)).
std::vector<std::int32_t> assign_greedy(const assignment_problem& p, double keep);

/// Changes as little as it can (Charm++'s RefineLB): the fullest rank gives the object that fits
/// best into the emptiest, or exchanges two if that fits better by far, until no rank is above the
/// level by more than the share `exact`, or none of those above can be helped. If a rank's objects
/// cannot be shared evenly among its workers, the rank is then treated as slower, some times, and
/// gaps on its workers are filled. \param where of each object, from which it starts; the result.
void assign_refine(const assignment_problem& p, double exact, std::vector<std::int32_t>& where);

/// The largest of many numbers, of which one at a time changes.
class winner_tree {
public:
  /// \param size at least 1. All numbers are minus infinity.
  explicit winner_tree(std::size_t size);
  void set(std::size_t place, double value);
  double value(std::size_t place) const noexcept { return values_[place]; }
  /// The place of the largest; of equal ones the first.
  std::size_t top() const noexcept { return winner_[1]; }

private:
  std::size_t leaves_ = 1;
  std::vector<double> values_;
  std::vector<std::uint32_t> winner_; ///< of each match: a binary tree whose root is 1
};

} // namespace tern::balance::detail
