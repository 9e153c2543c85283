// SPDX-License-Identifier: Apache-2.0
/// \file
/// The policy `curve`: elements of arrays in the order of Hilbert's curve, which is cut into a
/// piece for each rank, so that elements next to each other come to the same rank (Aluru & Sevilgen
/// 1997). It needs no count of what objects say to each other. Objects that are no elements follow
/// in the order in which they were made. Parameters: those of all policies that work in rounds.
#include <tern/balance/policies/shared/central.hpp>
#include <tern/balance/policies/shared/curve_order.hpp>
#include <tern/balance/policy/builtin.hpp>

namespace tern::balance {
namespace {

class curve final : public detail::central_policy {
public:
  curve(policy_context& h, parameters& p) : central_policy(h, p) {}

private:
  bool wants_positions() const noexcept override { return true; }
  decision decide(const detail::assignment_problem& p, const detail::talk_report&, const hints& h) const override {
    return judge(p, detail::assign_along(p, p.along), h);
  }
};

} // namespace

namespace detail {
policy_kind curve_kind() {
  return kind_of<curve>("curve", "rank 0 cuts arrays along a space-filling curve, so neighbours stay together");
}
} // namespace detail

} // namespace tern::balance
