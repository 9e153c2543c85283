// SPDX-License-Identifier: Apache-2.0
/// \file
/// Tern's contestant, on the first CUDA device.

#include "bench/cuda/tern.hpp"
#include "bench/cuda/problems.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <dlfcn.h>

#include "tests/hetero/support/mock_cuda.hpp"
#include <tern/base/options.hpp>
#include <tern/hetero/device/cuda/nvrtc.hpp>
#include <tern/hetero/dialect.hpp>
#include <tern/hetero/hetero_task.hpp>
#include <tern/hetero/recorded.hpp>
#include <tern/hetero/statistics.hpp>
#include <tern/task/scheduler.hpp>

#include "bench/hetero/kernels.hpp"

TERN_KERNELS_BEGIN(cuda_bench_kernels)
TERN_KERNEL(nothing) {}
TERN_KERNEL(add_one, TERN_GLOBAL int* data) {
  TERN_REGION { data[item.x] += 1; };
}
TERN_KERNEL(twice, TERN_GLOBAL const int* in, TERN_GLOBAL int* out) {
  TERN_REGION { out[item.x] = 2 * in[item.x]; };
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

namespace {

/// Is it among the devices? \throws not_here if TERN_HETERO_DEVICES names none that is there.
bool has_device(const std::string& id) {
  try {
    for (const auto& d : tern::hetero::count().devices)
      if (d.id == id) return true;
  } catch (const tern::error& e) {
    throw not_here(e.message());
  }
  return false;
}

} // namespace

const char* device() {
  if (!has_device("cuda0")) {
    std::vector<tern::hetero::device_note> notes;
    int none = 0;
    tern::hetero::devices(tern::options::parse(none, nullptr), &notes);
    for (const auto& n : notes)
      if (n.kind == tern::hetero::device_kind::cuda) throw not_here(n.text);
    throw not_here("a CUDA device");
  }
  // Has this process a context there? The other contestant has one, which a GPU in exclusive mode
  // has not for two.
  try {
    tern::hetero_task t(cuda_bench_kernels::nothing, tern::items(1));
    t.on("cuda0").submit().wait();
  } catch (const tern::error& e) {
    if (e.code() == tern::errc::device_lost || e.code() == tern::errc::not_found)
      throw not_here("a GPU that two processes can use: " + e.message());
    throw;
  }
  return "cuda0";
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

/// Tasks of few groups that have nothing to wait for but the one before on the same of many
/// objects.
measurement small(const job& j) {
  const char* const on = device();
  std::vector<hetero_object<int>> data;
  for (std::size_t i = 0; i < std::min<std::size_t>(1000, j.size); ++i)
    data.emplace_back(static_cast<std::int64_t>(sequence::elements), 0);
  return [=, times = j.size] {
    return seconds([&] {
      for (std::size_t i = 0; i < times; ++i) {
        hetero_task t(k::add_one, items(sequence::elements).group(sequence::group),
                      tern::read_write(data[i % data.size()]));
        t.on(on).submit();
      }
      tern::wait_all();
    });
  };
}

/// An object that two devices have in turn, 100 times.
measurement peers(const job& j) {
  device();
  if (!has_device("cuda1")) throw not_here("a second GPU");
  const hetero_object<int> data(static_cast<std::int64_t>(j.size / sizeof(int)), 0);
  return [=] {
    return seconds([&] {
      for (int i = 0; i < 100; ++i) {
        hetero_task t(k::add_one, items(data.extent(0)).group(sequence::group), tern::read_write(data));
        t.on(i % 2 == 0 ? "cuda1" : "cuda0").submit();
      }
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

// As one writes it: matrices are made, filled and multiplied, and go. What is copied when, and
// where it lies, is Tern's.
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

/// Products of tiles, on whatever devices are named (TERN_HETERO_DEVICES).
measurement hybrid(const job& j) {
  const char* const named = std::getenv("TERN_HETERO_DEVICES");
  if (!named || std::string(named) != "host") device();
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

/// How long NVRTC takes for a block of this benchmark's kernels ("compile_cold NAME"), or how long
/// it takes to find them on disk ("compile_cached NAME").
measurement compile(const job& j) {
  namespace detail = tern::hetero::detail;
  std::vector<std::string> notes;
  const auto api = detail::nvrtc_api::open(detail::nvrtc_api::usual_libraries(), notes);
  if (!api) throw not_here(notes.empty() ? "NVRTC" : notes.front());
  const detail::cuda_code target{api->architectures.empty() ? 75 : api->architectures.back(), api->GetCUBIN != nullptr};
  std::optional<detail::cuda_text> found;
  for (const auto* block : {&bench_kernels::multiply.source(), &k::nothing.source(), &kernels_of_libraries()})
    if (j.benchmark.ends_with(std::string(" ") + block->name)) found = detail::text_for_cuda(*block);
  if (!found) unknown(j);
  const auto text = *found;
  if (j.benchmark.starts_with("compile_cold"))
    return [=] { return seconds([&] { detail::compile_cuda(*api, text, target); }); };
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
    bool there = false;
    const double taken =
        seconds([&] { there = detail::compile_cuda(*api, text, target, detail::kernel_cache(kept->at)).from_cache; });
    if (!there) throw std::runtime_error("it was not kept on disk");
    return taken;
  };
}

/// Calls of the driver for each task, once all that is made once is there; or those of them that
/// ask whether something is over ("queries_…"), most of which are made while there is nothing else
/// to do; or the others ("others_…"). Counted by the mock driver; not seconds.
measurement calls(const job& j) {
  const char* const on = device();
  const std::string given = std::getenv("TERN_CUDA_LIBRARIES") ? std::getenv("TERN_CUDA_LIBRARIES") : "";
  void* const library = dlopen(given.substr(0, given.find(':')).c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
  const auto counters =
      library ? reinterpret_cast<void (*)(tern_mock_counters*)>(dlsym(library, "tern_mock_cuda_counters")) : nullptr;
  if (!counters) throw not_here("the mock driver, which counts calls");
  const bool questions = j.benchmark.starts_with("queries"), others = j.benchmark.starts_with("others"),
             fresh = j.benchmark.ends_with("fresh");
  constexpr auto n = static_cast<std::int64_t>(sequence::elements);
  std::vector<hetero_object<int>> data;
  for (int i = 0; i < (j.benchmark.ends_with("chain") ? 1 : 100); ++i) data.emplace_back(n, 0);
  const auto resident = [=](std::size_t times) {
    for (std::size_t i = 0; i < times; ++i) {
      hetero_task t(k::add_one, items(n).group(sequence::group), tern::read_write(data[i % data.size()]));
      t.on(on).submit();
    }
    tern::wait_all();
  };
  // Objects that come, are copied there, and what was made of them back, and go.
  const auto copied = [=](std::size_t times) {
    for (std::size_t i = 0; i < times; i += 100) {
      std::vector<hetero_object<int>> made;
      for (int one = 0; one < 100; ++one) {
        const hetero_object<int> in(n, one);
        made.emplace_back(n);
        hetero_task t(k::twice, items(n).group(sequence::group), tern::read(in), tern::write(made.back()));
        t.on(on).submit();
      }
      for (int one = 0; one < 100; ++one)
        if (made[static_cast<std::size_t>(one)].host(tern::access_mode::read).get()[n - 1] != 2 * one)
          throw std::runtime_error("a task has left no trace");
    }
  };
  return [=, times = (j.size + 99) / 100 * 100] {
    const auto run = [&] { fresh ? copied(times) : resident(times); };
    run();
    tern_mock_counters before, after;
    counters(&before);
    run();
    counters(&after);
    const auto asked = after.event_queries + after.stream_queries - before.event_queries - before.stream_queries;
    const auto all = after.calls - before.calls;
    return static_cast<double>(questions ? asked : others ? all - asked : all) / static_cast<double>(times);
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
  for (const char* const counted : {"calls_", "queries_", "others_"})
    if (j.benchmark.starts_with(counted)) return calls(j);
  if (j.benchmark == "small") return small(j);
  if (j.benchmark == "peers") return peers(j);
  unknown(j);
}

/// A GPU that has too little memory is not there, for a benchmark.
template <class F> auto or_not_here(F&& f) {
  try {
    return f();
  } catch (const tern::error& e) {
    if (e.code() == tern::errc::out_of_memory) throw not_here(e.message());
    if (e.code() == tern::errc::unsupported) throw not_here("NVRTC, or clang when this was built: " + e.message());
    throw;
  } catch (const std::bad_alloc&) {
    throw not_here("so much memory");
  }
}

measurement make_or_not_here(const job& j) {
  return or_not_here([&]() -> measurement { return [once = make(j)] { return or_not_here(once); }; });
}

} // namespace
} // namespace tern::bench::cuda

int main(int argc, char** argv) {
  using namespace tern::bench::cuda;
  return contestant_main(argc, argv, [&](const job& j) {
    try {
      const tern::options opts = tern::options::parse(argc, argv); // also from the environment
      tern::scheduler s({.workers = j.workers, .opts = &opts});
      s.run([&] { answer_requests(j, make_or_not_here); });
    } catch (const tern::error& e) {
      if (e.code() != tern::errc::invalid_option) throw;
      throw not_here(e.message()); // hetero-devices names a GPU that is not there
    }
  });
}
