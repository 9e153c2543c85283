// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What the policies that work in rounds have in common: when a round is worth its while, how ranks
/// agree on it, and that there is an end to it.
///
/// All ranks are a tree with rank 0 at its root. A rank that wants a round asks the next above;
/// each rank passes on one such wish for each round. Rank 0 begins it when the last one has ended
/// and some time has passed since. A round that has moved nothing doubles that time, so that where
/// nothing can be gained hardly anything is spent. At the end of a phase rank 0 begins one unasked.
/// A round ends when each rank has said that its moves are done; one that does not end, because a
/// rank no longer answers, is given up when the next is wanted and it has had much time: what still
/// comes of it is known by its number, and ignored.

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include <tern/balance/policies/resources/resources.hpp>
#include <tern/balance/policy.hpp>

namespace tern::balance::detail {

/// Ranks first to last - 1, of which the first is nearest to the root.
struct branch {
  int first = 0, last = 0;
};

/// What a rank sees of a tree of all ranks in which each branch is a range of ranks: what is
/// gathered in the tree's order is in the order of ranks.
struct tree_view {
  int parent = -1; ///< of rank 0
  std::vector<branch> children;
  /// Which child is `rank`, counted from 1; \throws error(invalid_data) for another rank.
  std::size_t place_of(int rank) const;
};
tree_view view_tree(int rank, int size, int arity);

/// One part from each child and one of the rank's own.
template <class T> class gathering {
public:
  void begin(const tree_view& tree) {
    parts_.clear();
    parts_.resize(tree.children.size() + 1);
    missing_ = parts_.size();
  }
  /// \param place 0: the own. \return whether this was the last.
  bool add(std::size_t place, T part) {
    if (place >= parts_.size() || parts_[place]) return false;
    parts_[place] = std::move(part);
    return --missing_ == 0;
  }
  /// Own first, then the children's in the order of ranks.
  std::vector<std::optional<T>>& parts() noexcept { return parts_; }

private:
  std::vector<std::optional<T>> parts_;
  std::size_t missing_ = 0;
};

struct round_wish {
  std::uint32_t after = 0; ///< the last round that the asking rank has heard of
  template <class A> void serialize(A& ar) { ar(after); }
};
struct round_begin {
  std::uint32_t number = 0;
  bool at_phase = false;
  template <class A> void serialize(A& ar) { ar(number, at_phase); }
};
struct round_end {
  std::uint32_t number = 0, moved = 0, failed = 0;
  template <class A> void serialize(A& ar) { ar(number, moved, failed); }
};

/// What a rank knows of its objects when a round begins; of its workers, or of its devices.
struct rank_state {
  double fixed = 0; ///< load that cannot leave
  double speed = 0; ///< load done in a second; below 0: not known, as nothing has run there
  std::int32_t workers = 1;
  std::int32_t unused = 0; ///< all bytes have a value
};
/// Of ranks whose speed is not known it is taken to be that of the others, on average.
/// \param speed, \param workers of those that know it, in all.
inline void guess_speed(rank_state& s, double speed, double workers) noexcept {
  if (s.speed < 0) s.speed = workers > 0 ? speed / workers * s.workers : 0;
}

/// What a rank has that may move, and what is fixed.
struct movable_work {
  std::vector<object_info> objects;        ///< with what is left of their loads
  std::array<rank_state, 2> states;        ///< by resource
  std::array<std::vector<float>, 2> fixed; ///< likewise: parts of the load that cannot leave, the heaviest first
};

/// An object that is to leave.
struct departure {
  object_id id;
  float load = 0;
  int to = 0;
};

/// The parameters of all these policies: `arity` of the tree; `distance`, the least between rounds,
/// in seconds; `gain`, how much sooner all must end, as a share of what is left to do; `inside=no`:
/// in programs that mark phases no rounds but at their ends. Of some, `by` (resources.hpp).
class round_policy : public policy {
public:
  void dist_balance(trigger why) final;
  void notify(object_id) final;

protected:
  /// Reads the parameters `arity`, `distance`, `gain` and `inside`.
  round_policy(policy_context& h, parameters& p, counted by);

  /// On each rank: the round has begun, and this rank's objects may be looked at.
  virtual void begin() = 0;

  std::uint32_t number() const noexcept { return number_; }
  const tree_view& tree() const noexcept { return tree_; }
  bool root() const noexcept { return tree_.parent < 0; }
  /// A phase is under way, as opposed to over; false if the program marks none.
  bool within_phase() const noexcept { return phases_ && !at_phase_; }
  template <class M> void send_down(const M& message) {
    for (const branch& b : tree_.children) send(b.first, message);
  }

  /// The objects that may move and have something to do, those that load workers most first; what
  /// else there is to do is fixed. Or all objects, and nothing fixed. Of a resource that does not
  /// count, loads are 0.
  movable_work look(bool all = false);
  /// What has begun to run since it was reported is replaced by something of about the same load
  /// that still waits, if there is any.
  /// \param free of those reported: what has not been decided.
  /// \param of which their loads are.
  void replace_begun(std::vector<departure>& leaving, const std::vector<object_id>& free, resource of) const;
  const resources& counting() const noexcept { return counting_; }
  /// How much sooner all must end for a move to be made at all.
  /// \param grain as for `expect`: what a few objects could do is not looked at too closely.
  /// \param caution what `caution` says.
  double least_gain(double level, double grain, double caution) const noexcept;
  /// On rank 0: 1, and more with each round that moves something although no work has come since
  /// the one before: such rounds mend what has not come as it was foreseen, and could do so for
  /// ever.
  double caution() const noexcept { return caution_; }

  /// On each rank, when it knows how a round comes out. \param level seconds from now until all
  /// should end.
  /// \param own until this rank does. \param grain seconds that one of the objects takes that may
  /// move, on average; 0: there are none.
  void expect(double level, double own, double grain);
  /// On rank 0, before the round ends: so much sooner all will end. Rounds at the ends of phases
  /// that gain less than they cost are left out more and more often.
  void gains(double seconds) noexcept { gained_ = seconds; }
  /// On rank 0: seconds since the round has begun.
  double lasts() const noexcept { return here.now() - opened_; }
  /// On rank 0: nothing is to be moved, and no rank calls `ended`.
  void close_unchanged();
  /// On each rank, once: the moves that it was to see to have been made, or have failed.
  void ended(std::uint32_t moved, std::uint32_t failed);

private:
  void wish();
  void consider();
  void open(bool at_phase);
  void start();
  void close(std::uint32_t moved);
  bool worth_a_wish() const;
  void take_wish(int from, const round_wish& m);
  void take_begin(int from, const round_begin& m);
  void take_end(int from, const round_end& m);

  const resources counting_;
  tree_view tree_;
  double least_distance_, gain_;
  bool inside_;

  std::uint32_t number_ = 0;
  std::uint32_t wished_ = 0; // the number of the round that this rank has asked for
  bool at_phase_ = false;    // the round that is under way
  bool phases_ = false;      // the program marks them
  bool ready_ = false;       // this rank knows that a phase has ended
  bool begun_ = false;       // and has heard that a round has begun for it
  gathering<round_end> ends_;
  double until_ = 0; // when this rank should have nothing to do any more
  double level_ = 0, grain_ = 0;
  bool nothing_waits_ = false; // on any rank, when a round was held last
  std::uint32_t changes_ = 0;  // of loads, since they were last looked at

  // Rank 0 alone.
  bool open_ = false, wanted_ = false;
  double timer_ = 0; // when it rings; 0: there is none
  double gained_ = 0, caution_ = 1;
  struct skipping {
    int due = 0, done = 0; // phases: so many are left out, and so many have been
  };
  std::map<std::uint64_t, skipping> skips_; // by array; 0: phases of all objects
  double opened_ = 0, closed_ = 0, distance_ = 0, backed_off_ = 1, patience_;
};

} // namespace tern::balance::detail
