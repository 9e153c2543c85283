// SPDX-License-Identifier: Apache-2.0
/// \file
/// The policy `communication`: objects that talk to each other come together on a rank, as far as
/// its load allows. Rank 0 gathers the graph of objects that talk to each other, cuts it anew
/// (METIS) and, for comparison, mends the placement that there is; whichever saves more than its
/// moves cost is carried out, if any does. Within a phase it does as `refine`.
///
/// Parameters, besides those of all policies that work in rounds: `byte` and `message`, seconds
/// that each takes between ranks; `phases`, in how many of them moves may pay off.
#include <tern/balance/policies/shared/graph_partition.hpp>
#include <tern/balance/policy/builtin.hpp>

#include <algorithm>
#include <utility>

namespace tern::balance {
namespace {

/// Ranks are evened out to this: as in `refine`.
constexpr double exact = 0.003;
/// A move takes so many messages.
constexpr double messages_of_move = 10;
/// Talk must be less by such a share of what it was, and what that gains must be more than the
/// other of what there is to do, or it cannot be told from chance.
constexpr double less = 0.1, least_share = 1e-4;

class communication final : public detail::central_policy {
public:
  communication(policy_context& h, parameters& p)
      : central_policy(h, p), byte_(p.seconds("byte", 1e-9)), message_(p.seconds("message", 2e-6)),
        phases_(p.number("phases", 10, 1, 1e6)) {}
  bool wants_contacts() const noexcept override { return true; }

private:
  decision decide(const detail::assignment_problem& p, const detail::talk_report& talk, const hints& h) const override {
    const std::vector<std::int32_t> now = p.now();
    std::vector<std::int32_t> best = now;
    if (talk.ids.empty()) {
      detail::assign_refine(p, exact, best);
      return judge(p, std::move(best), h);
    }
    const detail::talk_graph graph = detail::graph_of(talk, byte_, message_);
    const double present = price(p, talk, graph, now, now);
    double least = present;
    const auto compare = [&](std::vector<std::int32_t> where) {
      detail::even_out(p, graph, talk.stays, exact, where);
      const double all = price(p, talk, graph, now, where);
      if (all >= least) return;
      least = all;
      best = std::move(where);
    };
    compare(now);
    // When most is done, what is left is better mended.
    const auto left = std::count_if(p.load.begin(), p.load.end(), [](float load) { return load > 0; });
    if (2 * static_cast<std::size_t>(left) >= p.load.size())
      if (auto anew = detail::cut(p, graph, talk.cost, talk.stays, h.random); !anew.empty()) compare(std::move(anew));
    // Little is enough if it comes from less talk: that does not come and go as loads do.
    const double gain = present - least, before = detail::talk_of(p, graph, now);
    const bool quieter = detail::talk_of(p, graph, best) < (1 - less * h.caution) * before;
    const double enough = least_gain(detail::level_of(p), detail::grain_of(p), h.caution);
    return {std::move(best), gain > (quieter ? least_share * detail::level_of(p) : enough) ? gain * phases_ : 0};
  }

  // Seconds that a phase takes, with a share of what it costs to get there. What is said counts
  // twice: for the rank that ends last, and for the network, which all share.
  double price(const detail::assignment_problem& p, const detail::talk_report& talk, const detail::talk_graph& graph,
               const std::vector<std::int32_t>& now, const std::vector<std::int32_t>& where) const {
    std::vector<double> moving(p.ranks());
    for (std::size_t i = 0; i < where.size(); ++i) {
      if (where[i] == now[i]) continue;
      const double seconds = talk.cost[i] * byte_ + messages_of_move * message_;
      moving[static_cast<std::size_t>(now[i])] += seconds;
      moving[static_cast<std::size_t>(where[i])] += seconds;
    }
    const detail::assignment_problem all = detail::with_talk(p, graph, where);
    const std::vector<double> ends = detail::ends_of(all, where);
    const double last = *std::max_element(ends.begin(), ends.end());
    return std::max(last, detail::level_of(all) * (1 + exact)) + detail::talk_of(p, graph, where) +
           *std::max_element(moving.begin(), moving.end()) / phases_;
  }

  double byte_, message_, phases_;
};

} // namespace

namespace detail {
policy_kind communication_kind() {
  return kind_of<communication>("communication",
                                "rank 0 brings objects together that talk to each other (METIS), loads permitting");
}
} // namespace detail

} // namespace tern::balance
