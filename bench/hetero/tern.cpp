// SPDX-License-Identifier: Apache-2.0
/// \file
/// Tern's contestant. The main fiber reads the requests: it blocks worker 0 then, and the others
/// sleep. It submits, as a worker that has other things to do as well.

#include "bench/hetero/tern.hpp"
#ifdef BENCH_HETERO_BLAS
#include "bench/hetero/opencl_tiles.hpp"
#include "bench/hetero/tiles.hpp"

#include <cblas.h>
#endif

#include <algorithm>
#include <memory>
#include <vector>

#include <tern/base/options.hpp>
#include <tern/hetero/dialect.hpp>
#include <tern/hetero/hetero_task.hpp>
#include <tern/hetero/statistics.hpp>
#include <tern/hetero/variants.hpp>
#include <tern/task/scheduler.hpp>

TERN_KERNELS_BEGIN(bench_launches)
TERN_KERNEL(nothing) {}
TERN_KERNEL(add_one, TERN_GLOBAL int* data) {
  TERN_REGION { data[item.x] += 1; };
}
// Some microseconds, for one item: no compiler makes vectors of it.
TERN_KERNEL(stir, TERN_GLOBAL uint* data) {
  TERN_REGION {
    uint v = data[item.x];
    for (int i = 0; i < 4000; ++i) v = v * 1664525u + 1013904223u;
    data[item.x] = v;
  };
}
TERN_KERNELS_END(bench_launches)

const char* tern::bench::hetero::opencl_device() {
  for (const auto& d : tern::hetero::count().devices)
    if (d.id == "opencl0") return "opencl0";
  throw not_here("an OpenCL device (pocl-opencl-icd)");
}

namespace {

using namespace tern::bench::hetero;
using tern::hetero_object;

measurement count(const job& j) {
  auto all = std::make_shared<counting>(j);
  auto objects = std::make_shared<std::vector<hetero_object<long>>>();
  for (counting::object& o : all->objects) objects->push_back(hetero_object<long>::adopt(&o.value, {1}));
  return [all, objects] {
    for (const auto& o : *objects) o.host(tern::access_mode::write).get()[0] = 0;
    const double taken = seconds([&] {
      for (std::size_t i = 0; i < all->tasks; ++i) {
        if (objects->empty())
          tern::submit([] {});
        else
          tern::submit([](long* value) { ++*value; }, tern::read_write((*objects)[all->object_of(i)]));
      }
      tern::wait_all();
    });
    all->check();
    return taken;
  };
}

#ifdef BENCH_HETERO_BLAS

/// An object for each tile, as the other contestant has a handle for each.
class handles {
public:
  explicit handles(const tiles& m) : base_(m.at(0, 0)), each_(m.tile * m.tile) {
    for (std::size_t i = 0; i < m.count * m.count; ++i)
      all_.push_back(hetero_object<double>::adopt(m.at(0, 0) + i * each_, {static_cast<std::int64_t>(each_)}));
  }
  /// Of objects that have their own memory, and so may go to disk.
  struct own {};
  handles(const tiles& m, own) : base_(m.at(0, 0)), each_(m.tile * m.tile) {
    for (std::size_t i = 0; i < m.count * m.count; ++i) all_.emplace_back(static_cast<std::int64_t>(each_));
  }
  const hetero_object<double>& of(const double* tile) const {
    return all_[static_cast<std::size_t>(tile - base_) / each_];
  }
  void load(const double* tile) const {
    const auto host = of(tile).host(tern::access_mode::write).get();
    std::copy(tile, tile + each_, host.data());
  }
  void store(double* tile) const {
    const auto host = of(tile).host(tern::access_mode::read).get();
    std::copy(host.data(), host.data() + each_, tile);
  }

private:
  const double* base_;
  std::size_t each_;
  std::vector<hetero_object<double>> all_;
};

measurement dgemm(const job& j) {
  struct state {
    explicit state(const job& job) : problem(job), a(problem.a), b(problem.b), c(problem.c) {}
    dgemm_problem problem;
    handles a, b, c;
  };
  auto s = std::make_shared<state>(j);
  return [s] {
    s->problem.prepare();
    const double taken = seconds([&] {
      s->problem.submit([&](const double* a, const double* b, const double* c) {
        tern::submit([](const double* x, const double* y, double* z) { gemm(dgemm_problem::tile, x, y, z); },
                     tern::read(s->a.of(a)), tern::read(s->b.of(b)), tern::read_write(s->c.of(c)));
      });
      tern::wait_all();
    });
    s->problem.check();
    return taken;
  };
}

measurement cholesky(const job& j) {
  struct steps {
    const handles& all;
    std::size_t tile;
    void potrf(double* a) const {
      tern::submit([n = tile](double* x) { tern::bench::hetero::potrf(n, x); }, tern::read_write(all.of(a)));
    }
    void trsm(const double* l, double* a) const {
      tern::submit([n = tile](const double* x, double* y) { tern::bench::hetero::trsm(n, x, y); },
                   tern::read(all.of(l)), tern::read_write(all.of(a)));
    }
    void syrk(const double* a, double* to) const {
      tern::submit([n = tile](const double* x, double* y) { tern::bench::hetero::syrk(n, x, y); },
                   tern::read(all.of(a)), tern::read_write(all.of(to)));
    }
    void gemm_minus(const double* a, const double* b, double* to) const {
      tern::submit(
          [n = tile](const double* x, const double* y, double* z) { tern::bench::hetero::gemm_minus(n, x, y, z); },
          tern::read(all.of(a)), tern::read(all.of(b)), tern::read_write(all.of(to)));
    }
  };
  struct state {
    state(const job& job, bool owns)
        : problem(job), all(owns ? handles(problem.a, handles::own()) : handles(problem.a)) {}
    cholesky_problem problem;
    handles all;
  };
  const bool owns = j.benchmark.ends_with("_disk");
  auto s = std::make_shared<state>(j, owns);
  return [s, owns] {
    s->problem.prepare();
    if (owns) s->problem.each_tile([&](double* tile) { s->all.load(tile); });
    const double taken = seconds([&] {
      s->problem.submit(steps{s->all, s->problem.a.tile});
      tern::wait_all();
    });
    if (owns) s->problem.each_tile([&](double* tile) { s->all.store(tile); });
    s->problem.check();
    return taken;
  };
}

/// On an OpenCL device that has not the memory for all tiles.
constexpr tern::opencl_source potrf_source("potrf", opencl_tiles::text), trsm_source("trsm", opencl_tiles::text),
    syrk_source("syrk", opencl_tiles::text), gemm_source("gemm_minus", opencl_tiles::text);

measurement cholesky_on_opencl(const job& j) {
  opencl_device(); // there is one
  struct steps {
    const handles& all;
    static tern::items row() { return tern::items(opencl_tiles::edge).group(opencl_tiles::edge); }
    static tern::items square() {
      return tern::items(opencl_tiles::edge, opencl_tiles::blocks_of_columns).group(opencl_tiles::edge, 1);
    }
    void potrf(double* a) const { tern::submit(tern::variants(potrf_source), row(), tern::read_write(all.of(a))); }
    void trsm(const double* l, double* a) const {
      tern::submit(tern::variants(trsm_source), row(), tern::read(all.of(l)), tern::read_write(all.of(a)));
    }
    void syrk(const double* a, double* to) const {
      tern::submit(tern::variants(syrk_source), square(), tern::read(all.of(a)), tern::read_write(all.of(to)));
    }
    void gemm_minus(const double* a, const double* b, double* to) const {
      tern::submit(tern::variants(gemm_source), square(), tern::read(all.of(a)), tern::read(all.of(b)),
                   tern::read_write(all.of(to)));
    }
  };
  struct state {
    explicit state(const job& job) : problem(job), all(problem.a) {}
    cholesky_problem problem;
    handles all;
  };
  auto s = std::make_shared<state>(j);
  return [s] {
    s->problem.each_tile([&](double* tile) { s->all.of(tile).host(tern::access_mode::write).get(); });
    s->problem.prepare(); // what the device has is old
    const double taken = seconds([&] {
      s->problem.submit(steps{s->all});
      tern::wait_all();
    });
    s->problem.each_tile([&](double* tile) { s->all.of(tile).host(tern::access_mode::read).get(); });
    s->problem.check();
    return taken;
  };
}

#endif

measurement go_round(const job& j) {
  const char* const device = opencl_device();
  auto all = std::make_shared<round_trip>(j);
  all->prepare();
  auto object = std::make_shared<hetero_object<int>>(
      hetero_object<int>::adopt(all->data.data(), {static_cast<std::int64_t>(all->data.size())}));
  const auto rounds = [object, device](std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) {
      tern::submit([](int* data) { round_trip::on_host(data); }, tern::read_write(*object));
      tern::hetero_task(bench_launches::add_one, tern::items(round_trip::touched).group(round_trip::touched),
                        tern::read_write(*object))
          .on(device)
          .submit();
    }
    tern::wait_all();
    object->host(tern::access_mode::read).get();
  };
  return [all, object, rounds] {
    rounds(1); // the first round allocates what there is to allocate
    {
      auto host = object->host(tern::access_mode::read_write).get();
      for (std::size_t i = 0; i < round_trip::touched; ++i) host[i] = 0;
    }
    const double taken = seconds([&] { rounds(all->rounds); });
    all->check();
    return taken;
  };
}

measurement launch_nothing(const job& j) {
  const char* const device = opencl_device();
  return [device, times = j.size] {
    return seconds([&] {
      for (std::size_t i = 0; i < times; ++i) {
        tern::hetero_task t(bench_launches::nothing, tern::items(1));
        t.on(device).submit().wait();
      }
    });
  };
}

/// Each follows the one before.
measurement launch_chain(const job& j) {
  const char* const device = opencl_device();
  auto data = std::make_shared<hetero_object<std::uint32_t>>(tern::extents<1>{1}, 1u);
  const auto run = [device, data](std::size_t times) {
    for (std::size_t i = 0; i < times; ++i)
      tern::hetero_task(bench_launches::stir, tern::items(1).group(1), tern::read_write(*data)).on(device).submit();
    tern::wait_all();
  };
  run(10);
  return [run, times = j.size] { return seconds([&] { run(times); }); };
}

measurement make(const job& j) {
  if (auto kernel = kernels(j)) return kernel;
  if (auto simulated = simulated_devices(j)) return simulated;
  if (auto placed = placed_cholesky(j)) return placed;
  if (auto together = batches(j)) return together;
  if (auto queued = queued_launches(j)) return queued;
  if (auto bounded = bounded_memory(j)) return bounded;
  if (auto streamed = disk_stream(j)) return streamed;
  if (counting::is_meant(j.benchmark)) return count(j);
  if (j.benchmark == "roundtrip") return go_round(j);
  if (j.benchmark == "opencl_empty") return launch_nothing(j);
  if (j.benchmark == "opencl_chain") return launch_chain(j);
#ifdef BENCH_HETERO_BLAS
  openblas_set_num_threads(1); // tasks are what runs in parallel
  if (j.benchmark == "dgemm") return dgemm(j);
  if (j.benchmark.ends_with("_opencl")) return cholesky_on_opencl(j);
  if (cholesky_problem::is_meant(j.benchmark)) return cholesky(j);
#else
  if (j.benchmark == "dgemm" || j.benchmark.starts_with("cholesky")) throw not_here("OpenBLAS: libopenblas-dev");
#endif
  unknown(j);
}

} // namespace

int main(int argc, char** argv) {
  const tern::options opts = tern::options::parse(argc, argv); // also from the environment
  return contestant_main(argc, argv, [&](const job& j) {
    if (j.benchmark.starts_with("virtual_")) return answer_requests(j, virtual_time);
    tern::scheduler s({.workers = j.workers, .opts = &opts});
    s.run([&] { answer_requests(j, make); });
  });
}
