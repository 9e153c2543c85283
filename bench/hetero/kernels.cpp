// SPDX-License-Identifier: Apache-2.0
/// \file
/// The kernels (kernels.hpp) as tasks on the host, which checks their accesses where it is told to
/// (hetero-checked), and on the OpenCL device, in the same groups where that is good for both.
/// Without copies: the device works in the problems' memory.

#include "bench/hetero/kernels.hpp"
#include "bench/hetero/problems.hpp"
#include "bench/hetero/tern.hpp"

#include <memory>
#include <string>
#include <tuple>

#include <tern/hetero/hetero_task.hpp>

namespace tern::bench::hetero {

namespace {

using tern::hetero_object;
using tern::hetero_task;
using tern::items;

template <class To, class T> hetero_object<To> object(const memory<T>& m) {
  static_assert(sizeof(To) == sizeof(T)); // the kernels' body is C's; it is the same thing
  return hetero_object<To>::adopt(reinterpret_cast<To*>(m.data()), {static_cast<std::int64_t>(m.size())});
}
template <class T> hetero_object<T> object(const memory<T>& m) { return object<T, T>(m); }

/// `run` runs the task until it is done. `written` is what the host looks at before and after.
template <class Problem, class Run, class... T>
measurement timed(std::shared_ptr<Problem> p, Run run, hetero_object<T>... written) {
  run(); // compiles the kernel for groups of that size
  return [=] {
    {
      [[maybe_unused]] const auto held = std::tuple(written.host(tern::access_mode::write).get()...);
      p->prepare();
    }
    const double taken = seconds(run);
    [[maybe_unused]] const auto held = std::tuple(written.host(tern::access_mode::read).get()...);
    p->check();
    return taken;
  };
}

void wait_for(hetero_task t, const char* device) { t.on(device).submit().wait(); }

template <class Kernel>
measurement multiply(const job& j, const Kernel& kernel, items (*shape)(int n), const char* device) {
  auto p = std::make_shared<multiplication>(j.size);
  const auto a = object(p->a), b = object(p->b), c = object(p->c);
  return timed(
      p,
      [=, k = &kernel, n = p->n] {
        wait_for(hetero_task(*k, shape(n), n, tern::read(a), tern::read(b), tern::write(c)), device);
      },
      c);
}

measurement smooth(const job& j, const char* device) {
  auto p = std::make_shared<seven_points>(j.size);
  const auto in = object(p->in), out = object(p->out);
  return timed(
      p,
      [=, n = p->n] {
        wait_for(hetero_task(bench_kernels::smooth, items(n - 2, n - 2, n - 2).group(256, 4), n, seven_points::centre,
                             seven_points::side, tern::read(in), tern::write(out)),
                 device);
      },
      out);
}

measurement attract(const job& j, const char* device) {
  auto p = std::make_shared<pull>(j.size);
  const auto bodies = object<bench_kernels::body>(p->bodies);
  const auto ax = object(p->ax), ay = object(p->ay), az = object(p->az);
  return timed(
      p,
      [=, n = p->n] {
        wait_for(hetero_task(bench_kernels::attract, items(n).group(128), n, pull::softening, tern::read(bodies),
                             tern::write(ax), tern::write(ay), tern::write(az)),
                 device);
      },
      ax, ay, az);
}

/// The device's groups have items, the host's are one each, and vectorized.
measurement add(const job& j, int each, const char* device) {
  constexpr int groups = 64;
  auto p = std::make_shared<adding>(j.size);
  const auto in = object(p->in);
  const hetero_object<double> parts(tern::extents<1>{groups});
  return timed(p, [=] {
    wait_for(
        hetero_task(bench_kernels::add, items(groups * each).group(each), p->n, tern::read(in), tern::write(parts)),
        device);
    for (const double part : parts.host(tern::access_mode::read).get()) p->sum += part;
  });
}

} // namespace

measurement kernels(const job& j) {
  const bool host = j.benchmark.starts_with("host_");
  if (!host && !j.benchmark.starts_with("opencl_")) return {};
  const std::string what = j.benchmark.substr(j.benchmark.find('_') + 1);
  const auto device = [host] { return host ? "host" : opencl_device(); };
  if (what == "multiply")
    return host ? multiply(
                      j, bench_kernels::multiply, [](int n) { return items(n, n).group(512, 2); }, device())
                : multiply(
                      j, bench_kernels::multiply, [](int n) { return items(n, n).group(256, 4); }, device());
  if (what == "wide")
    return multiply(
        j, bench_kernels::multiply_wide, [](int n) { return items(n, n / 4); }, device());
  if (what == "tiles")
    return multiply(
        j, bench_kernels::multiply_tiles, [](int n) { return items(n, n); }, device());
  if (what == "smooth") return smooth(j, device());
  if (what == "attract") return attract(j, device());
  if (what == "add") return add(j, host ? 1 : 256, device());
  return {};
}

} // namespace tern::bench::hetero
