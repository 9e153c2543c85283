// SPDX-License-Identifier: Apache-2.0
#include "apps/nbody/job/rank_state.hpp"

#include <utility>

namespace nbody {
namespace {

const tern::rank_local<rank_state> state_of_rank;

} // namespace

rank_state& here() { return *state_of_rank; }

void rank_state::add_busy(double seconds) {
  const std::lock_guard hold(lock_);
  busy_ += seconds;
}

double rank_state::take_busy() {
  const std::lock_guard hold(lock_);
  return std::exchange(busy_, 0);
}

std::unique_ptr<group_force> rank_state::borrow_space() {
  {
    const std::lock_guard hold(lock_);
    if (!spaces_.empty()) {
      auto space = std::move(spaces_.back());
      spaces_.pop_back();
      return space;
    }
  }
  force_settings how = fixed.force;
  how.length = plan.length;
  return std::make_unique<group_force>(how);
}

void rank_state::give_back(std::unique_ptr<group_force> space) {
  const std::lock_guard hold(lock_);
  spaces_.push_back(std::move(space));
}

void rank_state::drop_spaces() {
  const std::lock_guard hold(lock_);
  spaces_.clear();
}

} // namespace nbody
