// SPDX-License-Identifier: Apache-2.0
#include "apps/nbody/job/step.hpp"

#include "apps/nbody/job/rank_state.hpp"

#include <algorithm>
#include <utility>

#include <tern/net/collectives.hpp>
#include <tern/net/communicator.hpp>
#include <tern/net/epoch.hpp>

namespace nbody {
namespace {

constexpr std::uint64_t samples_a_piece = 64;

/// Calls F on each piece, from rank 0, and waits for all that this causes. Collective. The barrier:
/// each rank has what it was given before (a plan, crowns) when F runs there.
template <auto F, class... A> void on_each_piece(const char* name, A... arguments) {
  tern::barrier();
  tern::finish(
      tern::communicator::world(),
      [&] {
        if (tern::rank() == 0) tern::send<F>(here().pieces, arguments...);
      },
      name);
}

void agree_on_plan(piece_plan plan) {
  here().plan = tern::broadcast(std::move(plan));
  here().drop_spaces();
}

/// Gives rank 0's bodies to the pieces.
void distribute(const bodies& all, std::uint32_t pieces) {
  piece_plan plan;
  if (tern::rank() == 0) {
    sample everything;
    everything.add(all, 1);
    plan = plan_pieces(everything, pieces);
  }
  agree_on_plan(std::move(plan));
  tern::barrier();
  tern::finish(
      tern::communicator::world(),
      [&] {
        const piece_plan& to = here().plan;
        std::vector<bodies> parts(tern::rank() == 0 ? pieces : 0);
        for (std::size_t i = 0; i < all.size(); ++i)
          parts[to.piece_of(morton_key(to.space, all.x[i], all.y[i], all.z[i]))].push(all, i);
        for (std::uint32_t p = 0; p < parts.size(); ++p) tern::send<&piece::take>(here().pieces(p), parts[p]);
      },
      "bodies to their pieces");
}

constants constants_of(const settings& wanted, const initial& start, double softening, std::uint32_t pieces) {
  constants fixed;
  fixed.tree = wanted.tree;
  fixed.force.softening = softening;
  fixed.force.gravity = wanted.gravity;
  fixed.force.quadrupole = wanted.order == 2;
  double mass = 0;
  for (const double m : start.all.mass) mass += m;
  fixed.force.mass = power_of_two(mass);
  fixed.stride = static_cast<std::uint32_t>(std::max<std::uint64_t>(1, start.all.size() / (samples_a_piece * pieces)));
  return fixed;
}

} // namespace

void make_pieces(const initial& start, const settings& wanted) {
  rank_state& mine = here();
  constants fixed;
  if (tern::rank() == 0) {
    const std::uint32_t pieces = wanted.pieces_for(start.all.size());
    fixed = constants_of(wanted, start, wanted.softening.value_or(start.softening), pieces);
    mine.pieces = tern::mobile_array<piece>({.name = "pieces"}, {static_cast<std::int64_t>(pieces)});
  }
  mine.fixed = tern::broadcast(fixed);
  mine.pieces = tern::broadcast(mine.pieces);
  distribute(start.all, static_cast<std::uint32_t>(mine.pieces.size()[0]));
}

void plan_again() {
  rank_state& mine = here();
  piece_plan plan;
  if (tern::rank() == 0)
    plan = plan_pieces(tern::reduce<&piece::sample>(mine.pieces, join_samples()).get(),
                       static_cast<std::uint32_t>(mine.pieces.size()[0]));
  agree_on_plan(std::move(plan));
}

void advance_all(double dt) { on_each_piece<&piece::advance>("drift", dt); }

void make_trees() {
  rank_state& mine = here();
  on_each_piece<&piece::settle>("trees");
  mine.trees.exchange(static_cast<std::uint32_t>(mine.pieces.size()[0]), mine.fixed.tree.theta);
}

void attract_all(double dt) { on_each_piece<&piece::attract>("forces", dt); }

} // namespace nbody
