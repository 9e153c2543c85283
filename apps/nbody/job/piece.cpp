// SPDX-License-Identifier: Apache-2.0
#include "apps/nbody/job/piece.hpp"

#include "apps/nbody/job/rank_state.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <numeric>
#include <utility>

#include <tern/base/clock.hpp>
#include <tern/net/runtime.hpp>
#include <tern/task/parallel_for.hpp>

namespace nbody {

totals totals::operator+(const totals& other) const noexcept {
  totals sum = *this;
  sum.bodies += other.bodies;
  sum.interactions += other.interactions;
  sum.hash += other.hash;
  sum.mass += other.mass;
  sum.kinetic += other.kinetic;
  sum.potential += other.potential;
  for (std::size_t d = 0; d < 3; ++d) {
    sum.momentum[d] += other.momentum[d];
    sum.angular[d] += other.angular[d];
  }
  sum.speed += other.speed;
  return sum;
}

void piece::take(const bodies& arrived) { arrived_.append(arrived); }

void piece::kick(double dt) {
  for (std::size_t i = 0; i < all_.size(); ++i) {
    all_.vx[i] += dt * pull_.x[i];
    all_.vy[i] += dt * pull_.y[i];
    all_.vz[i] += dt * pull_.z[i];
  }
}

void piece::advance(double dt) {
  kick(dt / 2);
  for (std::size_t i = 0; i < all_.size(); ++i) {
    all_.x[i] += dt * all_.vx[i];
    all_.y[i] += dt * all_.vy[i];
    all_.z[i] += dt * all_.vz[i];
  }
  const piece_plan& plan = here().plan;
  bodies stay;
  std::map<std::uint32_t, bodies> leave;
  stay.reserve(all_.size());
  for (std::size_t i = 0; i < all_.size(); ++i) {
    const std::uint32_t to = plan.piece_of(morton_key(plan.space, all_.x[i], all_.y[i], all_.z[i]));
    (to == number_ ? stay : leave[to]).push(all_, i);
  }
  all_ = std::move(stay);
  const auto& pieces = here().pieces;
  for (auto& [to, some] : leave) tern::send<&piece::take>(pieces(to), some);
}

void piece::settle() {
  rank_state& mine = here();
  all_.append(arrived_);
  arrived_ = {};
  const std::size_t n = all_.size();
  struct place {
    std::uint64_t key;
    std::uint32_t id, at;
    bool operator<(const place& other) const { return key != other.key ? key < other.key : id < other.id; }
  };
  std::vector<place> places(n);
  for (std::size_t i = 0; i < n; ++i)
    places[i] = {morton_key(mine.plan.space, all_.x[i], all_.y[i], all_.z[i]), all_.id[i],
                 static_cast<std::uint32_t>(i)};
  std::sort(places.begin(), places.end());
  std::vector<std::uint64_t> keys(n);
  std::vector<std::uint32_t> order(n);
  for (std::size_t i = 0; i < n; ++i) {
    keys[i] = places[i].key;
    order[i] = places[i].at;
  }
  all_.reorder(order);
  auto tree = std::make_shared<octree>(build_tree(all_, keys, mine.fixed.tree));
  groups_ = groups_of(*tree, mine.fixed.tree);
  around_ = n ? tree->cells.front().around : box();
  mine.trees.publish(number_, std::move(tree));
}

void piece::attract(double dt) {
  rank_state& mine = here();
  pull_.resize(all_.size());
  interactions_ = 0;
  if (all_.empty()) return;
  const forest& all = mine.trees.all();
  const forest::opening opens = all.open_for(all_, around_, groups_);
  const auto whole = mine.trees.get(opens.trees); // its own is among them
  const octree& own = *whole.find(number_);
  const std::vector<body_group>& groups = opens.groups;
  std::vector<std::uint64_t> done(groups.size());
  tern::parallel_for(std::size_t{0}, groups.size(), [&](tern::range<std::size_t> some) {
    const tern::stopwatch clock;
    auto space = mine.borrow_space();
    for (const std::size_t g : some) done[g] = space->attract(all, whole, own, groups[g], pull_);
    mine.give_back(std::move(space));
    mine.add_busy(clock.seconds());
  });
  interactions_ = std::accumulate(done.begin(), done.end(), std::uint64_t{0});
  kick(dt);
}

nbody::totals piece::totals() const {
  nbody::totals sum;
  sum.bodies = all_.size();
  sum.interactions = interactions_;
  sum.hash = hash_of(all_);
  for (std::size_t i = 0; i < all_.size(); ++i) {
    const double m = all_.mass[i], x[3] = {all_.x[i], all_.y[i], all_.z[i]},
                 v[3] = {all_.vx[i], all_.vy[i], all_.vz[i]};
    const double v2 = v[0] * v[0] + v[1] * v[1] + v[2] * v[2];
    sum.mass += m;
    sum.kinetic += m * v2 / 2;
    sum.potential += m * pull_.potential[i] / 2;
    sum.speed += m * std::sqrt(v2);
    for (std::size_t d = 0; d < 3; ++d) {
      sum.momentum[d] += m * v[d];
      sum.angular[d] += m * (x[(d + 1) % 3] * v[(d + 2) % 3] - x[(d + 2) % 3] * v[(d + 1) % 3]);
    }
  }
  return sum;
}

nbody::sample piece::sample() const {
  nbody::sample mine;
  mine.add(all_, here().fixed.stride);
  return mine;
}

nbody::snapshot piece::snapshot() const {
  return {{all_.x.begin(), all_.x.end()}, {all_.y.begin(), all_.y.end()}, {all_.z.begin(), all_.z.end()}, all_.label};
}

nbody::extract piece::extract() const { return {all_, pull_, tern::rank()}; }

} // namespace nbody
