// SPDX-License-Identifier: Apache-2.0
/// \file
/// Tern's side, on the first CUDA device.

#include "bench/cuda/tern.hpp"
#include "bench/cuda/problems.hpp"

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <dlfcn.h>

#include <tern/base/options.hpp>
#include <tern/hetero/detail/nvrtc.hpp>
#include <tern/hetero/dialect.hpp>
#include <tern/hetero/hetero_task.hpp>
#include <tern/hetero/mock_cuda_test.hpp>
#include <tern/hetero/recorded.hpp>
#include <tern/hetero/statistics.hpp>
#include <tern/task/scheduler.hpp>

#include "bench/hetero/kernels.hpp"

TERN_KERNELS_BEGIN(cuda_bench_kernels)
TERN_KERNEL(nothing) {}
TERN_KERNEL(add_one, TERN_GLOBAL int* data) {
  TERN_REGION { data[item.x] += 1; };
}
TERN_KERNEL(fill, int n, TERN_GLOBAL int* data) {
  TERN_REGION_IN(n, 1, 1) { data[item.x] = item.x; };
}
// c += a b, n × n each
TERN_KERNEL(tile_product, int n, TERN_GLOBAL const double* TERN_RESTRICT a, TERN_GLOBAL const double* TERN_RESTRICT b,
            TERN_GLOBAL double* TERN_RESTRICT c) {
  TERN_PRIVATE(double, sum);
  TERN_REGION_NOSYNC { TERN_MY(sum) = c[item.y * n + item.x]; };
  for (int k = 0; k < n; ++k) TERN_REGION_NOSYNC {
      TERN_MY(sum) += a[item.y * n + k] * b[k * n + item.x];
    };
  TERN_REGION_NOSYNC { c[item.y * n + item.x] = TERN_MY(sum); };
}
TERN_KERNELS_END(cuda_bench_kernels)

namespace tern::bench::cuda {

const char* device() {
  try {
    for (const auto& d : tern::hetero::count().devices)
      if (d.id == "cuda0") return "cuda0";
  } catch (const tern::error& e) { // TERN_HETERO_DEVICES names none that is there
    throw not_here(e.message());
  }
  std::vector<tern::hetero::device_note> notes;
  int none = 0;
  tern::hetero::devices(tern::options::parse(none, nullptr), &notes);
  for (const auto& n : notes)
    if (n.kind == tern::hetero::device_kind::cuda) throw not_here(n.text);
  throw not_here("a CUDA device");
}

namespace {

using tern::hetero_object;
using tern::hetero_task;
using tern::items;
namespace k = cuda_bench_kernels;

measurement one_by_one(const job& j) {
  const char* const on = device();
  return [on, times = j.size] {
    return seconds([&] {
      for (std::size_t i = 0; i < times; ++i) {
        hetero_task t(k::nothing, items(1));
        t.on(on).submit().wait();
      }
    });
  };
}

measurement many(const job& j) {
  const char* const on = device();
  return [on, times = j.size] {
    return seconds([&] {
      for (std::size_t i = 0; i < times; ++i) hetero_task(k::nothing, items(1)).on(on).submit();
      tern::wait_all();
    });
  };
}

measurement graph(const job& j) {
  const char* const on = device();
  hetero_object<int> data(static_cast<std::int64_t>(sequence::elements), 0);
  auto step = std::make_shared<tern::recorded>("step");
  step->on(on);
  return [=, rounds = j.size] {
    for (int& x : data.host(tern::access_mode::write).get()) x = 0;
    data.prefetch(on);
    tern::wait_all();
    const double taken = seconds([&] {
      for (std::size_t i = 0; i < rounds; ++i)
        step->submit([&] {
          for (int n = 0; n < sequence::kernels; ++n)
            tern::submit(k::add_one, items(sequence::elements).group(sequence::group), tern::read_write(data));
        });
      tern::wait_all();
    });
    sequence::check(data.host(tern::access_mode::read).get(), rounds);
    return taken;
  };
}

measurement copy(const job& j) {
  const char* const on = device();
  const bool to = j.benchmark != "copy_from", from = j.benchmark != "copy_to";
  const auto n = static_cast<std::int64_t>(j.size / sizeof(int));
  const auto make = [&](bool wanted) {
    return wanted ? std::make_shared<hetero_object<int>>(hetero_object<int>({n})) : nullptr;
  };
  const auto up = make(to), down = make(from);
  return [=] {
    if (up) up->host(tern::access_mode::write).get()[0] = 1;
    if (down) {
      hetero_task t(k::fill, items(n), static_cast<int>(n), tern::write(*down));
      t.on(on).submit();
    }
    tern::wait_all();
    const double taken = seconds([&] {
      if (up) up->prefetch(on);
      if (down) down->host(tern::access_mode::read).get();
      tern::wait_all();
    });
    if (down && down->host(tern::access_mode::read).get()[n - 1] != static_cast<int>(n - 1))
      throw std::runtime_error("what was copied from the device is not what it wrote");
    return taken;
  };
}

// As one writes it: matrices are made, filled and multiplied, and go. What is copied when, and where it lies, is
// Tern's.
measurement products(const job& j) {
  const char* const on = device();
  auto p = std::make_shared<naive>(j.size);
  return [=] {
    using matrix = hetero_object<double, 2>;
    p->prepare();
    const std::int64_t n = p->n;
    const auto filled = [&](const memory<double>& from) {
      matrix m({n, n});
      const auto host = m.host(tern::access_mode::write).get();
      std::memcpy(host.data(), from.data(), p->bytes());
      return m;
    };
    std::optional<matrix> last;
    const double taken = seconds([&] {
      for (int i = 0; i < naive::times; ++i) {
        const matrix a = filled(p->a), b = filled(p->b), c({n, n});
        hetero_task t(bench_kernels::multiply, items(n, n).group(naive::group, naive::group), p->n, tern::read(a),
                      tern::read(b), tern::write(c));
        t.on(on).submit();
        last = c;
      }
      tern::wait_all();
    });
    const auto host = last->host(tern::access_mode::read).get();
    std::memcpy(p->c.data(), host.data(), p->bytes());
    p->check();
    return taken;
  };
}

/// Products of tiles, on whatever devices there are (TERN_HETERO_DEVICES).
measurement hybrid(const job& j) {
  device();
  const std::size_t tile = j.size >= 1024 ? 1024 : 16, count = j.size / tile;
  struct state {
    explicit state(std::size_t n) : whole(n) {}
    hetero::multiplication whole;
    std::vector<hetero_object<double, 2>> a, b, c;
  };
  auto s = std::make_shared<state>(j.size);
  const auto each = [=](const memory<double>& of, auto&& f) {
    for (std::size_t y = 0; y < count; ++y)
      for (std::size_t x = 0; x < count; ++x)
        for (std::size_t r = 0; r < tile; ++r) f(y * count + x, r, of.data() + (y * tile + r) * j.size + x * tile);
  };
  const auto n = static_cast<std::int64_t>(tile);
  for (auto* all : {&s->a, &s->b, &s->c})
    for (std::size_t i = 0; i < count * count; ++i) all->push_back(hetero_object<double, 2>({n, n}, 0.0));
  const auto fill = [=](std::vector<hetero_object<double, 2>>& to, const memory<double>& from) {
    each(from, [&](std::size_t i, std::size_t r, const double* row) {
      std::memcpy(to[i].host(tern::access_mode::read_write).get().data() + r * tile, row, tile * sizeof(double));
    });
  };
  return [=] {
    fill(s->a, s->whole.a);
    fill(s->b, s->whole.b);
    for (const auto& c : s->c) {
      const auto host = c.host(tern::access_mode::write).get();
      std::memset(host.data(), 0, tile * tile * sizeof(double));
    }
    const double taken = seconds([&] {
      for (std::size_t y = 0; y < count; ++y)
        for (std::size_t x = 0; x < count; ++x)
          for (std::size_t i = 0; i < count; ++i)
            tern::submit(k::tile_product, items(n, n).group(16, 16), static_cast<int>(tile),
                         tern::read(s->a[y * count + i]), tern::read(s->b[i * count + x]),
                         tern::read_write(s->c[y * count + x]));
      tern::wait_all();
    });
    each(s->whole.c, [&](std::size_t i, std::size_t r, const double* row) {
      std::memcpy(const_cast<double*>(row), s->c[i].host(tern::access_mode::read).get().data() + r * tile,
                  tile * sizeof(double));
    });
    s->whole.check();
    return taken;
  };
}

/// How long NVRTC takes for the kernels of this benchmark, or how long it takes to find them on disk.
measurement compile(const job& j) {
  namespace detail = tern::hetero::detail;
  std::vector<std::string> notes;
  const auto api = detail::nvrtc_api::open(detail::nvrtc_api::usual_libraries(), notes);
  if (!api) throw not_here(notes.empty() ? "NVRTC" : notes.front());
  const detail::cuda_code target{api->architectures.empty() ? 75 : api->architectures.back(), true};
  const auto text = detail::text_for_cuda(bench_kernels::multiply.source());
  if (j.benchmark == "compile") return [=] { return seconds([&] { detail::compile_cuda(*api, text, target); }); };
  struct folder { // of this benchmark's own
    folder() {
      std::string name = (std::filesystem::temp_directory_path() / "bench_cuda_XXXXXX").string();
      if (!mkdtemp(name.data())) throw std::runtime_error("no temporary folder");
      at = name;
    }
    ~folder() {
      std::error_code ignored;
      std::filesystem::remove_all(at, ignored);
    }
    std::filesystem::path at;
  };
  auto kept = std::make_shared<folder>();
  detail::compile_cuda(*api, text, target, detail::kernel_cache(kept->at));
  return [=] {
    bool found = false;
    const double taken =
        seconds([&] { found = detail::compile_cuda(*api, text, target, detail::kernel_cache(kept->at)).from_cache; });
    if (!found) throw std::runtime_error("it was not kept on disk");
    return taken;
  };
}

/// Calls of the driver for each task, once all that is made once is there; counted by the mock driver. Not seconds.
measurement calls(const job& j) {
  const char* const on = device();
  const std::string given = std::getenv("TERN_HETERO_CUDA_LIBRARIES") ? std::getenv("TERN_HETERO_CUDA_LIBRARIES") : "";
  void* const library = dlopen(given.substr(0, given.find(':')).c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
  const auto counters =
      library ? reinterpret_cast<void (*)(tern_mock_counters*)>(dlsym(library, "tern_mock_cuda_counters")) : nullptr;
  if (!counters) throw not_here("the mock driver, which counts calls");
  const bool chain = j.benchmark == "calls_chain";
  std::vector<hetero_object<int>> data;
  for (int i = 0; i < (chain ? 1 : 100); ++i) data.emplace_back(static_cast<std::int64_t>(sequence::elements), 0);
  return [=, times = j.size] {
    const auto run = [&] {
      for (std::size_t i = 0; i < times; ++i) {
        hetero_task t(k::add_one, items(sequence::elements).group(sequence::group),
                      tern::read_write(data[i % data.size()]));
        t.on(on).submit();
      }
      tern::wait_all();
    };
    run();
    tern_mock_counters before, after;
    counters(&before);
    run();
    counters(&after);
    // Questions that are answered with "not yet" are waiting, not work: of all only one counts for each task.
    const auto asked = after.event_queries - before.event_queries;
    return static_cast<double>(after.calls - before.calls - asked + times) / static_cast<double>(times);
  };
}

measurement make(const job& j) {
  if (auto made = kernels(j)) return made;
  if (auto made = libraries(j)) return made;
  if (j.benchmark == "empty") return one_by_one(j);
  if (j.benchmark == "many") return many(j);
  if (j.benchmark == "graph") return graph(j);
  if (j.benchmark == "naive") return products(j);
  if (j.benchmark == "hybrid") return hybrid(j);
  if (j.benchmark.starts_with("copy_")) return copy(j);
  if (j.benchmark.starts_with("compile")) return compile(j);
  if (j.benchmark.starts_with("calls_")) return calls(j);
  unknown(j);
}

} // namespace
} // namespace tern::bench::cuda

int main(int argc, char** argv) {
  using namespace tern::bench::cuda;
  const tern::options opts = tern::options::parse(argc, argv); // also from the environment
  return side_main(argc, argv, [&](const job& j) {
    tern::scheduler s({.workers = j.workers, .opts = &opts});
    s.run([&] { serve(j, make); });
  });
}
