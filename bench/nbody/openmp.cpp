// SPDX-License-Identifier: Apache-2.0
/// \file
/// The same trees, walks and loops, without pieces that move, ranks or messages: OpenMP's loop over
/// all groups of bodies. `direct` is direct summation by the same loops: an opening angle of 0.

#include "bench/harness/contestant.hpp"
#include "bench/nbody/problem.hpp"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <numeric>
#include <vector>

#include <omp.h>

#include "apps/nbody/bodies/morton.hpp"
#include "apps/nbody/tree/forest.hpp"

namespace {

using namespace tern::bench::contest;
using namespace ::nbody;

class loops {
public:
  loops(std::size_t n, double theta) : n_(n) {
    how_.theta = theta;
    const bodies all = tern::bench::nbody::problem(n).all;
    box around;
    for (std::size_t i = 0; i < n; ++i) around.add(all.x[i], all.y[i], all.z[i]);
    cube space;
    space.side = around.longest_side() * 1.001;
    for (std::size_t d = 0; d < 3; ++d) space.low[d] = around.middle(d) - space.side / 2;
    force_.softening = tern::bench::nbody::softening;
    while (force_.length < space.side) force_.length *= 2;
    std::vector<std::pair<std::uint64_t, std::uint32_t>> keys(n);
    for (std::uint32_t i = 0; i < n; ++i) keys[i] = {morton_key(space, all.x[i], all.y[i], all.z[i]), i};
    std::sort(keys.begin(), keys.end());
    // Pieces of the application's number, so that trees and walks are the same.
    const std::size_t pieces = std::clamp<std::size_t>(n / tern::bench::nbody::bodies_a_piece, 16, 65536);
    std::vector<octree> crowns;
    for (std::size_t p = 0; p < pieces; ++p) {
      bodies part;
      std::vector<std::uint64_t> its;
      for (std::size_t i = p * n / pieces; i < (p + 1) * n / pieces; ++i) {
        part.push(all, keys[i].second);
        its.push_back(keys[i].first);
      }
      trees_.push_back(std::make_shared<octree>(build_tree(part, its, how_)));
      whole_.add(static_cast<std::uint32_t>(p), trees_.back());
      crowns.push_back(crown_of(*trees_.back(), static_cast<std::uint32_t>(p)));
      for (const body_group& g : groups_of(*trees_.back(), how_)) groups_.push_back({p, g});
      pull_.emplace_back().resize(part.size());
    }
    all_ = forest(std::move(crowns), how_.theta);
  }

  double run() {
    std::vector<std::uint64_t> done(groups_.size());
    const double taken = seconds([&] {
#pragma omp parallel
      {
        group_force space(force_);
#pragma omp for schedule(dynamic, 4)
        for (std::size_t g = 0; g < groups_.size(); ++g) {
          const auto& [piece, group] = groups_[g];
          done[g] = space.attract(all_, whole_, *trees_[piece], group, pull_[piece]);
        }
      }
    });
    double potential = 0;
    for (std::size_t p = 0; p < trees_.size(); ++p)
      for (std::size_t i = 0; i < pull_[p].x.size(); ++i) potential += trees_[p]->mass[i] * pull_[p].potential[i] / 2;
    tern::bench::nbody::check(n_, potential, std::accumulate(done.begin(), done.end(), std::uint64_t{0}));
    return taken;
  }

private:
  struct piece_group {
    std::size_t piece;
    body_group group;
  };
  std::size_t n_;
  tree_settings how_;
  force_settings force_;
  std::vector<tree_ref> trees_;
  opened_trees whole_;
  std::vector<piece_group> groups_;
  std::vector<accelerations> pull_;
  forest all_;
};

measurement make(const job& j) {
  if (j.benchmark != "force" && j.benchmark != "direct") unknown(j);
  auto kept = std::make_shared<loops>(j.size, j.benchmark == "direct" ? 0.0 : tree_settings().theta);
  return [kept] { return kept->run(); };
}

} // namespace

int main(int argc, char** argv) {
  return contestant_main(argc, argv, [](const job& j) {
    omp_set_num_threads(j.workers);
    answer_requests(j, make);
  });
}
