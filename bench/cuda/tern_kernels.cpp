// SPDX-License-Identifier: Apache-2.0
/// \file
/// The dialect's kernels as tasks on the device, with data that lie there.

#include "bench/cuda/problems.hpp"
#include "bench/cuda/tern.hpp"
#include "bench/hetero/kernels.hpp"

#include <algorithm>
#include <cstring>
#include <memory>

#include <tern/hetero/hetero_task.hpp>

namespace tern::bench::cuda {

namespace {

using tern::hetero_object;
using tern::hetero_task;
using tern::items;

/// An object with what the problem has.
template <class To, class T> hetero_object<To> object(const memory<T>& m) {
  static_assert(sizeof(To) == sizeof(T));
  const hetero_object<To> o({static_cast<std::int64_t>(m.size())});
  std::memcpy(o.host(tern::access_mode::write).get().data(), m.data(), m.size() * sizeof(T));
  return o;
}
template <class T> hetero_object<T> object(const memory<T>& m) { return object<T, T>(m); }
template <class T> void fetch(const memory<T>& m, const hetero_object<T>& from) {
  std::memcpy(m.data(), from.host(tern::access_mode::read).get().data(), m.size() * sizeof(T));
}

measurement smooth(const job& j) {
  auto p = std::make_shared<hetero::seven_points>(j.size);
  const auto in = object(p->in), out = object(p->out);
  const auto run = [=, on = device(), n = p->n] {
    hetero_task t(bench_kernels::smooth, items(n - 2, n - 2, n - 2).group(64, 4), n, hetero::seven_points::centre,
                  hetero::seven_points::side, tern::read(in), tern::write(out));
    t.on(on).submit().wait();
  };
  run(); // compiles it, and brings the data
  return [=] {
    p->prepare();
    const double taken = seconds(run);
    fetch(p->out, out);
    p->check();
    return taken;
  };
}

measurement attract(const job& j) {
  auto p = std::make_shared<hetero::pull>(j.size);
  const auto bodies = object<bench_kernels::body>(p->bodies);
  const auto ax = object(p->ax), ay = object(p->ay), az = object(p->az);
  const auto run = [=, on = device(), n = p->n] {
    hetero_task t(bench_kernels::attract_tiles, items(n), n, hetero::pull::softening, tern::read(bodies),
                  tern::write(ax), tern::write(ay), tern::write(az));
    t.on(on).submit().wait();
  };
  run();
  return [=] {
    p->prepare();
    const double taken = seconds(run);
    fetch(p->ax, ax);
    fetch(p->ay, ay);
    fetch(p->az, az);
    p->check();
    return taken;
  };
}

measurement add(const job& j) {
  auto p = std::make_shared<hetero::adding>(j.size);
  const auto groups = static_cast<int>(std::min<std::size_t>(1024, j.size / 512 + 1));
  const auto in = object(p->in);
  const hetero_object<double> parts({groups});
  const auto run = [=, on = device(), n = p->n] {
    hetero_task t(bench_kernels::add, items(std::int64_t{512} * groups).group(512), n, tern::read(in),
                  tern::write(parts));
    t.on(on).submit();
    for (const double part : parts.host(tern::access_mode::read).get()) p->sum += part;
  };
  run();
  return [=] {
    p->prepare();
    const double taken = seconds(run);
    p->check();
    return taken;
  };
}

} // namespace

measurement kernels(const job& j) {
  if (j.benchmark == "smooth") return smooth(j);
  if (j.benchmark == "attract") return attract(j);
  if (j.benchmark == "add") return add(j);
  return {};
}

} // namespace tern::bench::cuda
