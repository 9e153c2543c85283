// SPDX-License-Identifier: Apache-2.0
/// \file
/// A tiled Cholesky factorization on two workers and two simulated devices, of which one is twice
/// as fast as the other: how well a policy places its tasks.
///
/// What a task takes is fixed: devices take what their words say (main.cpp), and a worker sleeps
/// for the time that a CPU would need. A tile is 8 KiB, on links so slow that a copy takes what one
/// of 2 MiB does at 16 GB/s. What is computed is a number that depends on the order of the tasks.

#include "bench/hetero/tern.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <tern/hetero/dialect.hpp>
#include <tern/hetero/hetero_task.hpp>
#include <tern/hetero/planned.hpp>

namespace tern::bench::hetero {

namespace {

using tern::hetero_object;
using tern::hetero_task;
using tern::hetero::dialect::group_context;
using number = std::uint32_t;

constexpr std::size_t tile_numbers = 2048;
constexpr double item_seconds = 2e-6; // of the slower device, as its words say

/// A step of the factorization.
struct step {
  int items;      ///< of a kernel
  double on_host; ///< seconds
  double on_slow() const { return items * item_seconds; }
  double on_fast() const { return on_slow() / 2; }
};
// Products are 10 and 20 times as fast there; factoring a tile hardly is.
constexpr step potrf{750, 1.5e-3}, trsm{560, 4.5e-3}, syrk{300, 4.5e-3}, gemm{447, 8.94e-3};

/// The host's memory of all tiles, by which a kernel knows that it runs there.
struct arena {
  const number *first = nullptr, *last = nullptr;
  bool has(const number* x) const { return x >= first && x < last; }
};
arena host_memory;

void take(const step& s, const number* x) {
  if (host_memory.has(x)) std::this_thread::sleep_for(std::chrono::duration<double>(s.on_host));
}
void factor(group_context, number* a) {
  take(potrf, a);
  a[0] = a[0] * 31 + 1;
}
void solve(group_context, const number* l, number* a) {
  take(trsm, a);
  a[0] = a[0] * 31 + l[0];
}
void update_diagonal(group_context, const number* a, number* c) {
  take(syrk, c);
  c[0] = c[0] * 31 + a[0] * a[0];
}
void update(group_context, const number* a, const number* b, number* c) {
  take(gemm, c);
  c[0] = c[0] * 31 + a[0] * b[0];
}
// Without a text: simulated devices and the host run the function itself.
constexpr tern::hetero::kernel potrf_kernel{"potrf", &factor, nullptr, {0, 0, 0}};
constexpr tern::hetero::kernel trsm_kernel{"trsm", &solve, nullptr, {0, 0, 0}};
constexpr tern::hetero::kernel syrk_kernel{"syrk", &update_diagonal, nullptr, {0, 0, 0}};
constexpr tern::hetero::kernel gemm_kernel{"gemm", &update, nullptr, {0, 0, 0}};

tern::items one_group(const step& s) { return tern::items(s.items).group(s.items); }

/// Calls what `steps` has, in the order of the right-looking algorithm, for tiles by number.
template <class Steps> void each_step(std::size_t n, Steps&& steps) {
  const auto at = [n](std::size_t i, std::size_t j) { return i * n + j; };
  for (std::size_t k = 0; k < n; ++k) {
    steps.potrf(at(k, k));
    for (std::size_t i = k + 1; i < n; ++i) steps.trsm(at(k, k), at(i, k));
    for (std::size_t i = k + 1; i < n; ++i) {
      for (std::size_t j = k + 1; j < i; ++j) steps.gemm(at(i, k), at(j, k), at(i, j));
      steps.syrk(at(i, k), at(i, i));
    }
  }
}

/// No schedule is shorter: the longest chain of tasks, each where it is fastest; and all of the
/// work, shared by host and devices as would be best if tasks could be cut. (The devices' times
/// are in one proportion, so they are three of the slower one; what they gain least on goes to the
/// workers first.)
struct bound {
  std::vector<double> ready; ///< when each tile's last writer ends
  std::array<double, 4> count{};
  void chain(std::size_t to, const step& s, std::initializer_list<std::size_t> from) {
    double begin = ready[to];
    for (const std::size_t f : from) begin = std::max(begin, ready[f]);
    ready[to] = begin + std::min(s.on_host, s.on_fast());
  }
  void potrf(std::size_t a) { ++count[0], chain(a, hetero::potrf, {}); }
  void trsm(std::size_t l, std::size_t a) { ++count[1], chain(a, hetero::trsm, {l}); }
  void syrk(std::size_t a, std::size_t c) { ++count[2], chain(c, hetero::syrk, {a}); }
  void gemm(std::size_t a, std::size_t b, std::size_t c) { ++count[3], chain(c, hetero::gemm, {a, b}); }

  double seconds() const {
    constexpr std::array<step, 4> steps{hetero::potrf, hetero::trsm, hetero::syrk, hetero::gemm}; // by gain
    constexpr double workers = 2, slow_devices = 3;
    double low = *std::max_element(ready.begin(), ready.end()), high = 1e3;
    const auto enough = [&](double time) {
      double host = workers * time, devices = slow_devices * time;
      for (std::size_t s = 0; s < steps.size(); ++s) {
        const double there = std::min(count[s], host / steps[s].on_host);
        host -= there * steps[s].on_host;
        devices -= (count[s] - there) * steps[s].on_slow();
      }
      return devices >= 0;
    };
    if (enough(low)) return low;
    for (int i = 0; i < 60; ++i) (enough((low + high) / 2) ? high : low) = (low + high) / 2;
    return high;
  }
};

class matrix {
  auto from(std::size_t i) const { return tern::read(tiles_[i]); }
  auto write_to(std::size_t i) const { return tern::read_write(tiles_[i]); }

public:
  explicit matrix(std::size_t n) : n_(n), memory_(n * n * tile_numbers) {
    host_memory = {memory_.data(), memory_.data() + memory_.size()};
    for (std::size_t i = 0; i < n * n; ++i)
      tiles_.push_back(hetero_object<number>::adopt(&memory_[i * tile_numbers], {tile_numbers}));
  }
  /// \param planned the tasks are, as a round. \return seconds.
  double factorize(bool planned = false) {
    for (std::size_t i = 0; i < tiles_.size(); ++i)
      tiles_[i].host(tern::access_mode::write).get()[0] = static_cast<number>(i);
    const double taken = hetero::seconds([&] {
      if (planned)
        plan_.submit([&] { each_step(n_, *this); });
      else
        each_step(n_, *this);
      tern::wait_all();
    });
    check();
    return taken;
  }
  /// Each kernel and each copy a few times, everywhere.
  void warm() {
    for (const char* device : {"host", "simulated0", "simulated1"})
      for (int i = 0; i < 5; ++i) {
        hetero_task(potrf_kernel, one_group(hetero::potrf), write_to(0)).on(device).submit();
        hetero_task(trsm_kernel, one_group(hetero::trsm), from(0), write_to(1)).on(device).submit();
        hetero_task(syrk_kernel, one_group(hetero::syrk), from(1), write_to(0)).on(device).submit();
        hetero_task(gemm_kernel, one_group(hetero::gemm), from(0), from(1), write_to(2)).on(device).submit();
        tern::wait_all();
      }
    factorize();
  }

  void potrf(std::size_t a) const { tern::submit(potrf_kernel, one_group(hetero::potrf), write_to(a)); }
  void trsm(std::size_t l, std::size_t a) const {
    tern::submit(trsm_kernel, one_group(hetero::trsm), from(l), write_to(a));
  }
  void syrk(std::size_t a, std::size_t c) const {
    tern::submit(syrk_kernel, one_group(hetero::syrk), from(a), write_to(c));
  }
  void gemm(std::size_t a, std::size_t b, std::size_t c) const {
    tern::submit(gemm_kernel, one_group(hetero::gemm), from(a), from(b), write_to(c));
  }

private:
  struct in_order { // the same numbers
    std::vector<number> a;
    void potrf(std::size_t x) { a[x] = a[x] * 31 + 1; }
    void trsm(std::size_t l, std::size_t x) { a[x] = a[x] * 31 + a[l]; }
    void syrk(std::size_t x, std::size_t c) { a[c] = a[c] * 31 + a[x] * a[x]; }
    void gemm(std::size_t x, std::size_t y, std::size_t c) { a[c] = a[c] * 31 + a[x] * a[y]; }
  };
  void check() const {
    in_order expected;
    for (std::size_t i = 0; i < tiles_.size(); ++i) expected.a.push_back(static_cast<number>(i));
    each_step(n_, expected);
    for (std::size_t i = 0; i < tiles_.size(); ++i)
      if (tiles_[i].host(tern::access_mode::read).get()[0] != expected.a[i])
        throw std::runtime_error("tile " + std::to_string(i) + " is wrong");
  }

  std::size_t n_;
  tern::planned plan_{"cholesky"};
  std::vector<number> memory_;
  std::vector<hetero_object<number>> tiles_;
};

} // namespace

measurement placed_cholesky(const job& j) {
  if (j.benchmark == "placed_cholesky_bound") {
    bound b;
    b.ready.assign(j.size * j.size, 0);
    each_step(j.size, b);
    return [least = b.seconds()] { return least; };
  }
  const bool planned = j.benchmark == "placed_cholesky_planned";
  if (j.benchmark != "placed_cholesky" && !planned) return {};
  if (j.size < 2) throw std::invalid_argument("placed_cholesky is of two by two tiles or more");
  auto m = std::make_shared<matrix>(j.size);
  m->warm();
  if (planned) m->factorize(true); // the first round goes by the policy
  return [m, planned] { return m->factorize(planned); };
}

} // namespace tern::bench::hetero
