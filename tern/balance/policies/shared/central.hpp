// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Policies in which rank 0 sees all objects and says where each one goes.

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
  rank_state state;
  std::int32_t rank = 0;
  std::uint32_t objects = 0;
  std::uint32_t fixed_parts = 0;
  std::int32_t unused = 0; // all bytes have a value
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
  std::vector<float> loads;         ///< of their objects
  std::vector<float> fixed;         ///< loads of what stays, the heaviest of a rank first
  std::vector<std::uint64_t> along; ///< by object: its position on a curve; empty if the policy needs none
  talk_report talk;                 ///< empty if the policy does not look at it, or a phase is under way
  template <class A> void serialize(A& ar) { ar(number, ranks, loads, fixed, along, talk); }
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
  std::vector<central_order> orders; ///< by rank
  template <class A> void serialize(A& ar) { ar(number, level, grain, any, orders); }
};

/// One round goes: reports up the tree, orders down, and word that the moves are done up again.
class central_policy : public round_policy {
protected:
  central_policy(policy_context& h, parameters& p);

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
    assignment_problem problem;
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
  void find(solution& s) const;
  void tell(const solution& s);
  void carry_out(std::span<const central_order> orders);

  gathering<central_report> reports_;
  rank_state own_;
  std::vector<object_id> reported_;
  std::vector<float> reported_load_;
  std::uint32_t moves_left_ = 0, moved_ = 0, failed_ = 0;
};

} // namespace tern::balance::detail

template <> inline constexpr bool tern::is_bitwise<tern::balance::detail::central_rank> = true;
template <> inline constexpr bool tern::is_bitwise<tern::balance::detail::central_order> = true;
