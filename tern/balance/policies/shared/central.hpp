// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Policies in which rank 0 sees all objects and says where each one goes.

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include <tern/balance/policies/shared/assignment.hpp>
#include <tern/balance/policies/shared/round.hpp>

namespace tern::balance::detail {

/// A rank in a report.
struct central_rank {
  std::array<rank_state, 2> states; ///< by resource
  std::int32_t rank = 0;
  std::uint32_t objects = 0;
  std::array<std::uint32_t, 2> fixed_parts{}; ///< by resource
};

/// What one resource has to do.
struct resource_report {
  std::vector<float> loads; ///< of objects; empty: none is above 0
  std::vector<float> fixed; ///< loads of what stays, the heaviest of a rank first
  template <class A> void serialize(A& ar) { ar(loads, fixed); }
};

/// Objects that talk to each other: what rank 0 must know of them besides their loads.
struct talk_report {
  std::vector<std::uint64_t> ids;      ///< by object
  std::vector<float> cost;             ///< by object: to move it
  std::vector<std::uint8_t> stays;     ///< by object: cannot move
  std::vector<std::uint32_t> contacts; ///< by object: how many it has
  std::vector<std::uint64_t> with;     ///< by contact
  std::vector<float> bytes, messages;  ///< by contact
  template <class A> void serialize(A& ar) { ar(ids, cost, stays, contacts, with, bytes, messages); }
};

/// Of a branch of the tree, by rank.
struct central_report {
  std::uint32_t number = 0;
  std::vector<central_rank> ranks;
  std::array<resource_report, 2> of; ///< by resource; of workers all objects' loads stand there
  std::vector<std::uint64_t> along;  ///< by object: its position on a curve; empty if the policy needs none
  talk_report talk;                  ///< empty if the policy does not look at it, or a phase is under way
  template <class A> void serialize(A& ar) { ar(number, ranks, of, along, talk); }
};

/// The object that `from` has reported as its number `index` is to go to `to`.
struct central_order {
  std::int32_t from = 0;
  std::uint32_t index = 0;
  std::int32_t to = 0;
};
struct central_orders {
  std::uint32_t number = 0;
  double level = 0, grain = 0;       ///< as for round_policy::expect
  bool any = false;                  ///< on any rank
  resource by = resource::worker;    ///< that which ends last
  std::vector<central_order> orders; ///< by rank
  template <class A> void serialize(A& ar) { ar(number, level, grain, any, by, orders); }
};

/// One round goes: reports up the tree, orders down, and word that the moves are done up again. If
/// workers and devices both count, those are evened out of which the last rank ends later; and only
/// if with both all end sooner.
class central_policy : public round_policy {
protected:
  central_policy(policy_context& h, parameters& p, counted by = counted::worker);

  struct hints {
    std::uint64_t random = 0; ///< from the job's seed
    double caution = 1;
  };
  /// Where each object goes.
  struct decision {
    std::vector<std::int32_t> where;
    double gain = 0; ///< so many seconds sooner all end; 0: it is not worth its moves
  };
  /// Does `decide` look at `assignment_problem::along`?
  virtual bool wants_positions() const noexcept { return false; }
  /// A function of its arguments and of the policy's parameters alone, since it may be called
  /// outside of the policy's turn.
  virtual decision decide(const assignment_problem& p, const talk_report& talk, const hints& h) const = 0;
  /// With the gain that counts if no objects talk: is the last rank done sooner by enough?
  decision judge(const assignment_problem& p, std::vector<std::int32_t> where, const hints& h) const;

private:
  struct solution {
    std::uint32_t number = 0;
    hints known;
    std::array<assignment_problem, 2> problems; ///< by resource
    resource by = resource::worker;             ///< which is evened out
    const assignment_problem& problem() const { return problems[static_cast<std::size_t>(by)]; }
    talk_report talk;
    decision is;
    double level = 0, grain = 0;
  };
  void begin() final;
  void take_report(int from, const central_report& m);
  void take_orders(int from, const central_orders& m);
  std::uint64_t position_of(object_id object) const;
  void describe_talk(const std::vector<object_info>& objects, talk_report& talk) const;
  void solve(std::vector<std::optional<central_report>>& parts);
  static void set_up(solution& s, const central_report& all, resource r);
  void find(solution& s) const;
  void tell(const solution& s);
  void carry_out(std::span<const central_order> orders);

  gathering<central_report> reports_;
  std::array<rank_state, 2> own_;
  std::vector<object_id> reported_;
  std::array<std::vector<float>, 2> reported_load_;
  resource by_ = resource::worker; // of the round's orders
  std::uint32_t moves_left_ = 0, moved_ = 0, failed_ = 0;
};

} // namespace tern::balance::detail

template <> inline constexpr bool tern::is_bitwise<tern::balance::detail::central_rank> = true;
template <> inline constexpr bool tern::is_bitwise<tern::balance::detail::central_order> = true;
