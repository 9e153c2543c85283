// SPDX-License-Identifier: Apache-2.0
/// \file
/// Tasks that are launched behind what they follow (hetero-ahead), on a simulated device of which
/// the host sees ends 20 us late: a chain, one that the host looks at after each kernel, one that
/// goes to and fro between two such devices, and a tiled Cholesky factorization. In virtual time.

#include "bench/hetero/tern.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <tern/hetero/dialect.hpp>
#include <tern/hetero/hetero_task.hpp>
#include <tern/hetero/policy.hpp>
#include <tern/task/fiber.hpp>
#include <tern/task/sim.hpp>

namespace tern::bench::hetero {

namespace {

using tern::hetero_object;
using tern::hetero::dialect::group_context;
using number = std::uint32_t;

constexpr double kernel_seconds = 10e-6, launch_seconds = 2e-6;
constexpr const char* words = ":launch=2us,item=10us,latency=5us,notice=20us,waits=1us"; // a kernel has one item
constexpr std::size_t tile_numbers = 64;

void add_one(group_context, number* a) { a[0] += 1; }
void factor(group_context, number* a) { a[0] = a[0] * 31 + 1; }
void solve(group_context, const number* l, number* a) { a[0] = a[0] * 31 + l[0]; }
void update(group_context, const number* a, const number* b, number* c) { c[0] = c[0] * 31 + a[0] * b[0]; }
// Without a text: simulated devices run the function itself.
constexpr tern::hetero::kernel add_kernel{"add", &add_one, nullptr, {0, 0, 0}};
constexpr tern::hetero::kernel potrf_kernel{"potrf", &factor, nullptr, {0, 0, 0}};
constexpr tern::hetero::kernel trsm_kernel{"trsm", &solve, nullptr, {0, 0, 0}};
constexpr tern::hetero::kernel gemm_kernel{"gemm", &update, nullptr, {0, 0, 0}};

double now() { return std::chrono::duration<double>(tern::fiber_clock::now().time_since_epoch()).count(); }

/// What `f` returns in a simulation, in a thread of its own.
double simulated(int ahead, const std::function<double()>& f, int devices = 1) {
  double result = 0;
  std::exception_ptr failed;
  std::thread([&] {
    try {
      tern::options opts;
      opts.set(tern::hetero::hetero_devices, "simulated");
      opts.set(tern::hetero::hetero_simulated, std::to_string(devices) + words);
      opts.set(tern::hetero::hetero_models, "read:/nowhere");
      opts.set(tern::hetero::hetero_ahead, ahead);
      opts.set(tern::hetero::hetero_policy, "locality");
      tern::sim::simulation world;
      tern::scheduler s({.workers = 2, .simulation = &world, .opts = &opts});
      s.run([&] { result = f(); });
    } catch (...) {
      failed = std::current_exception();
    }
  }).join();
  if (failed) std::rethrow_exception(failed);
  return result;
}

double chain(std::size_t n) {
  const hetero_object<number> x(tern::extents<1>{tile_numbers}, number{0});
  x.prefetch("simulated0");
  tern::wait_all();
  const double begin = now();
  for (std::size_t i = 0; i < n; ++i) tern::submit(add_kernel, tern::items(1).group(1), tern::read_write(x));
  tern::wait_all();
  const double taken = now() - begin;
  if (x.host(tern::access_mode::read).get()[0] != n) throw std::runtime_error("a task has left no trace");
  return taken;
}

/// A chain of kernels that goes to and fro between two devices.
double to_and_fro(std::size_t n) {
  const hetero_object<number> x(tern::extents<1>{tile_numbers}, number{0});
  x.prefetch("simulated0");
  tern::wait_all();
  const double begin = now();
  for (std::size_t i = 0; i < n; ++i) {
    tern::hetero_task t(add_kernel, tern::items(1).group(1), tern::read_write(x));
    t.on(i % 2 == 0 ? "simulated0" : "simulated1").submit();
  }
  tern::wait_all();
  const double taken = now() - begin;
  if (x.host(tern::access_mode::read).get()[0] != n) throw std::runtime_error("a task has left no trace");
  return taken;
}

/// A chain of kernels, after each of which a task of the host reads what it wrote.
double reads(std::size_t n) {
  const hetero_object<number> x(tern::extents<1>{tile_numbers}, number{0});
  x.prefetch("simulated0");
  tern::wait_all();
  std::size_t seen = 0;
  const double begin = now();
  for (std::size_t i = 0; i < n; ++i) {
    tern::submit(add_kernel, tern::items(1).group(1), tern::read_write(x));
    tern::submit([&seen, i](tern::host_view<const number, 1> v) { seen += v[0] == i + 1 ? 1 : 0; }, tern::read(x));
  }
  tern::wait_all();
  const double taken = now() - begin;
  if (seen != n) throw std::runtime_error("the host has not seen what a kernel wrote");
  return taken;
}

double cholesky(std::size_t n) {
  std::vector<hetero_object<number>> tiles;
  std::vector<number> expected;
  for (std::size_t i = 0; i < n * n; ++i) {
    expected.push_back(static_cast<number>(i));
    tiles.emplace_back(tern::extents<1>{tile_numbers}, expected.back());
    tiles.back().prefetch("simulated0");
  }
  tern::wait_all();
  const tern::items one = tern::items(1).group(1);
  const auto at = [n](std::size_t i, std::size_t j) { return i * n + j; };
  const auto potrf = [&](std::size_t a) {
    tern::submit(potrf_kernel, one, tern::read_write(tiles[a]));
    expected[a] = expected[a] * 31 + 1;
  };
  const auto trsm = [&](std::size_t l, std::size_t a) {
    tern::submit(trsm_kernel, one, tern::read(tiles[l]), tern::read_write(tiles[a]));
    expected[a] = expected[a] * 31 + expected[l];
  };
  const auto gemm = [&](std::size_t a, std::size_t b, std::size_t c) {
    tern::submit(gemm_kernel, one, tern::read(tiles[a]), tern::read(tiles[b]), tern::read_write(tiles[c]));
    expected[c] = expected[c] * 31 + expected[a] * expected[b];
  };
  const double begin = now();
  for (std::size_t k = 0; k < n; ++k) {
    potrf(at(k, k));
    for (std::size_t i = k + 1; i < n; ++i) trsm(at(k, k), at(i, k));
    for (std::size_t i = k + 1; i < n; ++i)
      for (std::size_t j = k + 1; j <= i; ++j) gemm(at(i, k), at(j, k), at(i, j));
  }
  tern::wait_all();
  const double taken = now() - begin;
  for (std::size_t i = 0; i < tiles.size(); ++i)
    if (tiles[i].host(tern::access_mode::read).get()[0] != expected[i])
      throw std::runtime_error("tile " + std::to_string(i) + " is wrong");
  return taken;
}

} // namespace

measurement queued_launches(const job& j) {
  const std::size_t n = j.size;
  if (j.benchmark == "ahead_chain") return [n] { return simulated(64, [n] { return chain(n); }); };
  if (j.benchmark == "ahead_chain_least")
    return [n] { return static_cast<double>(n) * (kernel_seconds + launch_seconds); };
  if (j.benchmark == "ahead_reads") return [n] { return simulated(64, [n] { return reads(n); }); };
  if (j.benchmark == "ahead_reads_0") return [n] { return simulated(0, [n] { return reads(n); }); };
  if (j.benchmark == "ahead_devices")
    return [n] {
      return simulated(
          64, [n] { return to_and_fro(n); }, 2);
    };
  if (j.benchmark == "ahead_devices_0")
    return [n] {
      return simulated(
          0, [n] { return to_and_fro(n); }, 2);
    };
  if (j.benchmark == "ahead_cholesky") return [n] { return simulated(64, [n] { return cholesky(n); }); };
  if (j.benchmark == "ahead_cholesky_0") return [n] { return simulated(0, [n] { return cholesky(n); }); };
  return {};
}

} // namespace tern::bench::hetero
