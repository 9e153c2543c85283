// SPDX-License-Identifier: Apache-2.0
/// \file
/// The policy `greedy`: all objects dealt out anew, the heaviest first (Graham 1969; Charm++'s
/// GreedyLB). The best balance, with many moves. Parameter, besides `by` and those of all policies
/// that work in rounds: `keep`, of which detail::assign_greedy tells.
#include <tern/balance/policies/shared/central.hpp>
#include <tern/balance/policy/builtin.hpp>

namespace tern::balance {
namespace {

class greedy final : public detail::central_policy {
public:
  greedy(policy_context& h, parameters& p)
      : central_policy(h, p, detail::by_parameter(p)), keep_(p.number("keep", 0.1, 0, 1)) {}

private:
  decision decide(const detail::assignment_problem& p, const detail::talk_report&, const hints& h) const override {
    return judge(p, detail::assign_greedy(p, keep_), h);
  }

  double keep_;
};

} // namespace

namespace detail {
policy_kind greedy_kind() {
  return kind_of<greedy>("greedy",
                         "rank 0 assigns all objects anew, the heaviest first, to the rank that ends soonest");
}
} // namespace detail

} // namespace tern::balance
