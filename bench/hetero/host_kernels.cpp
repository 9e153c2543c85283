// SPDX-License-Identifier: Apache-2.0
/// \file
/// Kernels on the host: their groups are spread over the workers.

#include "bench/hetero/kernels.hpp"
#include "bench/hetero/problems.hpp"
#include "bench/hetero/tern.hpp"

#include <array>
#include <type_traits>
#include <vector>

#include <tern/hetero/kernel/host_groups.hpp>
#include <tern/task/parallel_for.hpp>

namespace tern::bench::hetero {

namespace {

using tern::hetero::detail::grid;

template <class Group, class... Params>
void launch(const tern::hetero::kernel<Group, Params...>& k, const grid& shape, std::type_identity_t<Params>... args) {
  tern::parallel_for(std::int64_t{0}, shape.count(), [&](tern::range<std::int64_t> r) {
    tern::hetero::detail::run_groups(k, shape, r.first(), r.last(), nullptr, args...);
  });
}

/// As many groups of `items` as `of` items need.
grid covering(std::array<int, 3> of, std::array<int, 3> items) {
  grid g{{1, 1, 1}, items};
  for (std::size_t d = 0; d < 3; ++d) g.groups[d] = (of[d] + items[d] - 1) / items[d];
  return g;
}

void multiply(multiplication& m) {
  launch(bench_kernels::multiply, covering({m.n, m.n, 1}, {512, 2, 1}), m.n, m.a.data(), m.b.data(), m.c.data());
}

void multiply_tiles(multiplication& m) {
  launch(bench_kernels::multiply_tiles, covering({m.n, m.n, 1}, bench_kernels::multiply_tiles.fixed_size), m.n,
         m.a.data(), m.b.data(), m.c.data());
}

void smooth(seven_points& s) {
  launch(bench_kernels::smooth, covering({s.n - 2, s.n - 2, s.n - 2}, {256, 4, 1}), s.n, seven_points::centre,
         seven_points::side, s.in.data(), s.out.data());
}

void attract(pull& p) {
  // The kernel's body is C's; it is the same thing.
  static_assert(sizeof(bench_kernels::body) == sizeof(pull::body));
  launch(bench_kernels::attract, covering({p.n, 1, 1}, {128, 1, 1}), p.n, pull::softening,
         reinterpret_cast<const bench_kernels::body*>(p.bodies.data()), p.ax.data(), p.ay.data(), p.az.data());
}

void add(adding& a) {
  std::array<double, 64> parts;
  launch(bench_kernels::add, {{static_cast<int>(parts.size()), 1, 1}, {1, 1, 1}}, a.n, a.in.data(), parts.data());
  for (const double part : parts) a.sum += part;
}

template <class Problem, class Kernel> measurement timed(const job& j, Kernel kernel) {
  return measure<Problem>(j, [kernel](Problem& p) { return seconds([&] { kernel(p); }); });
}

} // namespace

measurement host_kernels(const job& j) {
  if (j.benchmark == "multiply") return timed<multiplication>(j, multiply);
  if (j.benchmark == "tiles") return timed<multiplication>(j, multiply_tiles);
  if (j.benchmark == "smooth") return timed<seven_points>(j, smooth);
  if (j.benchmark == "attract") return timed<pull>(j, attract);
  if (j.benchmark == "add") return timed<adding>(j, add);
  return {};
}

} // namespace tern::bench::hetero
