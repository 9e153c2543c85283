// SPDX-License-Identifier: Apache-2.0
/// \file
/// Policies in a job that has lost ranks: they count those that are left, from 0, and begin anew.
#include <tern/balance/runtime/balancer.hpp>

#include <algorithm>
#include <mutex>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <tern/base/error.hpp>
#include <tern/net/collectives.hpp>
#include <tern/net/communicator.hpp>

namespace tern::balance::detail {

int balancer::job_rank(int place) const {
  if (living_.empty()) {
    node_.check_rank(place);
    return place;
  }
  if (place < 0 || place >= size())
    throw error(errc::invalid_argument,
                "a policy named rank " + std::to_string(place) + ", and " + std::to_string(size()) + " ranks are left");
  return living_[static_cast<std::size_t>(place)];
}

int balancer::place_of(int job_rank) const noexcept {
  const auto at = std::lower_bound(living_.begin(), living_.end(), job_rank);
  return at != living_.end() && *at == job_rank ? static_cast<int>(at - living_.begin()) : -1;
}

void balancer::abandon() {
  happen({.is = event::kind::call, .call = [this] { drop_policy(); }});
}

// A death may have come between two ranks' changes: the latest counts.
void balancer::gone_back(bool all) {
  if (!all) return use(generation_.load(std::memory_order_relaxed) + 1, "none");
  using choice = std::tuple<std::uint32_t, bool, std::string>; // number, enabled, policy
  const communicator world = communicator::world();
  std::vector<choice> known =
      world.allgather(choice{generation_.load(std::memory_order_relaxed), enabled_.load(), in_use()});
  const auto& [generation, on, name] = *std::max_element(
      known.begin(), known.end(), [](const choice& a, const choice& b) { return std::get<0>(a) < std::get<0>(b); });
  std::vector<int> living;
  for (int place = 0; place < world.size(); ++place) living.push_back(world.job_rank(place));
  end_round();
  happen({.is = event::kind::call, .call = [this, living = std::move(living)] {
            drop_policy();
            living_ = living;
            contacts_.clear();
            const std::lock_guard hold(guard_);
            histories_.clear();
            talks_.clear();
            unmovable_.clear();
          }});
  go_on_from(generation + 1);
  use(generation + 1, name);
  enable(on);
  catch_up();
}

// As a policy counts. Of what was on a rank that has died: here.
int balancer::where_is(object_id object) const {
  const int known = objects_.last_known(object);
  if (living_.empty()) return known;
  const int place = place_of(known);
  return place >= 0 ? place : rank();
}

} // namespace tern::balance::detail
