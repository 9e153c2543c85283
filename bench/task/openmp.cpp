// SPDX-License-Identifier: Apache-2.0
/// \file
/// The benchmarks with OpenMP. Compiled twice: by g++ for libgomp, with libstdc++'s parallel mode,
/// and by clang++ for libomp. Where tasks are measured, the clock runs inside the parallel region:
/// starting a team is not what is compared.

#include "bench/task/contestant.hpp"

#include <algorithm>
#include <cstdint>

#include <omp.h>

namespace {

using namespace tern::bench::task;

std::uint64_t fib(int n) {
  if (n < 2) return static_cast<std::uint64_t>(n);
  std::uint64_t a = 0;
#pragma omp task shared(a) firstprivate(n)
  a = fib(n - 1);
  const std::uint64_t b = fib(n - 2);
#pragma omp taskwait
  return a + b;
}

struct fork {
  template <class F, class G> static void invoke(F&& f, G&& g) {
#pragma omp task shared(f)
    f();
    g();
#pragma omp taskwait
  }
};

/// `work` in one thread of a team that runs what it spawns.
template <class F> double in_team(F&& work) {
  double taken = 0;
#pragma omp parallel
#pragma omp single
  taken = seconds(work);
  return taken;
}

template <class F> double spawn_all(std::size_t count, const F& body) {
  return in_team([&] {
    for (std::size_t i = 0; i < count; ++i) {
#pragma omp task firstprivate(i) shared(body)
      body(i);
    }
#pragma omp taskwait
  });
}

double dense(dense_kernel& k) {
  return seconds([&] {
    float* const a = k.a.data();
    const float* const b = k.b.data();
    const auto n = static_cast<std::int64_t>(k.a.size());
#pragma omp parallel for simd schedule(static)
    for (std::int64_t i = 0; i < n; ++i) a[i] = a[i] * dense_kernel::scale + b[i];
  });
}

measurement make(const job& j) {
  if (j.benchmark == "fib") return measure<fib_kernel>(j, [](auto& k) { return in_team([&] { k.value = fib(k.n); }); });
  if (j.benchmark == "empty")
    return measure<empty_kernel>(j, [](auto& k) {
      return in_team([&] {
        for (std::size_t i = 0; i < k.count; ++i) {
#pragma omp task
          empty_kernel::body();
        }
#pragma omp taskwait
      });
    });
  if (j.benchmark == "small")
    return measure<small_kernel>(j, [](auto& k) { return spawn_all(k.count, [&k](std::size_t i) { k.body(i); }); });
  if (j.benchmark == "burst")
    return measure<burst_kernel>(j, [](auto& k) { return spawn_all(k.count + 1, [&k](std::size_t i) { k.body(i); }); });
  if (j.benchmark == "dense") return measure<dense_kernel>(j, dense);
  if (j.benchmark == "mandelbrot")
    return measure<mandelbrot_kernel>(j, [](auto& k) {
      return seconds([&] {
#pragma omp parallel for schedule(dynamic)
        for (int y = 0; y < k.rows; ++y) k.row(y);
      });
    });
  if (j.benchmark == "pareto")
    return measure<pareto_kernel>(j, [](auto& k) {
      return seconds([&] {
#pragma omp parallel for schedule(dynamic)
        for (std::size_t i = 0; i < k.out.size(); ++i) k.body(i);
      });
    });
#ifdef _GLIBCXX_PARALLEL
  if (j.benchmark == "sort")
    return measure<sort_kernel>(j, [](auto& k) {
      return seconds([&] { __gnu_parallel::sort(k.data.data(), k.data.data() + k.data.size()); });
    });
#endif
  if (j.benchmark == "fft")
    return measure<fft_kernel>(j, [](auto& k) { return in_team([&] { k.template transform<fork>(); }); });
  if (j.benchmark == "alignment")
    return measure<alignment_kernel>(j, [](auto& k) {
      return seconds([&] {
#pragma omp parallel for schedule(dynamic)
        for (int i = 0; i < k.count; ++i)
          for (int n = i + 1; n < k.count; ++n) {
#pragma omp task firstprivate(i, n)
            k.align(i, n);
          }
      });
    });
  unknown(j);
}

} // namespace

int main(int argc, char** argv) {
  return contestant_main(argc, argv, [](const job& j) {
    omp_set_dynamic(0);
    omp_set_num_threads(j.workers);
    answer_requests(j, make);
  });
}
