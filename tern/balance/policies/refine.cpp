// SPDX-License-Identifier: Apache-2.0
/// \file
/// The policy `refine`: as few moves as possible from ranks that are too full to those that are not
/// (Charm++'s RefineLB), until nearly nothing is left between them. Parameter, besides `by` and
/// those of all policies that work in rounds: `tolerance`, how full the fullest may be, compared
/// with the mean, before anything is done.
#include <tern/balance/policies/shared/central.hpp>
#include <tern/balance/policy/builtin.hpp>

#include <algorithm>
#include <utility>

namespace tern::balance {
namespace {

/// Once something must be moved, ranks are evened out to this: it costs little more than stopping
/// at the tolerance.
constexpr double exact = 0.003;

class refine final : public detail::central_policy {
public:
  refine(policy_context& h, parameters& p)
      : central_policy(h, p, detail::by_parameter(p)), tolerance_(p.number("tolerance", 1.02, 1, 100)) {}

private:
  decision decide(const detail::assignment_problem& p, const detail::talk_report&, const hints& h) const override {
    std::vector<std::int32_t> where = p.now();
    const std::vector<double> ends = detail::ends_of(p, where);
    if (*std::max_element(ends.begin(), ends.end()) <= tolerance_ * detail::level_of(p)) return {};
    detail::assign_refine(p, std::min(exact, tolerance_ - 1), where);
    return judge(p, std::move(where), h);
  }

  double tolerance_;
};

} // namespace

namespace detail {
policy_kind refine_kind() {
  return kind_of<refine>("refine", "rank 0 moves as few objects as possible from full ranks to empty ones");
}
} // namespace detail

} // namespace tern::balance
