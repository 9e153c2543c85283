// SPDX-License-Identifier: Apache-2.0
/// \file
/// The application's own pieces: one rank, as many workers as wanted. `force`: forces on all
/// bodies, once; trees are there. `trees`: these.

#include "bench/harness/contestant.hpp"
#include "bench/nbody/problem.hpp"

#include <functional>
#include <string>

#include "apps/nbody/job/rank_state.hpp"
#include "apps/nbody/job/step.hpp"

#include <tern/mobile/array.hpp>
#include <tern/net/runtime.hpp>

namespace {

using namespace tern::bench::contest;

measurement make(const job& j) {
  ::nbody::settings wanted;
  wanted.softening = tern::bench::nbody::softening;
  ::nbody::make_pieces(tern::bench::nbody::problem(j.size), wanted);
  ::nbody::make_trees();
  if (j.benchmark == "trees") return [] { return seconds(::nbody::make_trees); };
  if (j.benchmark != "force") unknown(j);
  return [n = j.size] {
    const double taken = seconds([] { ::nbody::attract_all(0); });
    const auto sum = tern::reduce<&::nbody::piece::totals>(::nbody::here().pieces, std::plus<>()).get();
    tern::bench::nbody::check(n, sum.potential, sum.interactions);
    return taken;
  };
}

} // namespace

int main(int argc, char** argv) {
  return contestant_main(argc, argv, [&](const job& j) {
    std::string workers = "--tern-workers=" + std::to_string(j.workers), level = "--tern-log-level=error";
    char* arguments[] = {argv[0], workers.data(), level.data(), nullptr};
    int count = 3;
    tern::run(count, arguments, [&] { answer_requests(j, make); });
  });
}
