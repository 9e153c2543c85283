// SPDX-License-Identifier: Apache-2.0
/// \file
/// The rival of look-ups: what `bench_mobile_tern lookup` does, with oneTBB's hash table.
///
///     bench_mobile_tbb OBJECTS SECONDS      nanoseconds for one operation of a thread

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <tbb/concurrent_hash_map.h>

#include "bench/mobile/contestant.hpp"

namespace {

using namespace tern::bench;
using namespace tern::bench::mobile;

struct place {
  std::unique_ptr<small> object;
  int where = 0;
};

class table {
public:
  using user = table&;
  explicit table(std::size_t objects) : known_(objects) {
    for (std::size_t i = 0; i < objects; ++i) add();
  }
  bool has(std::size_t i) const {
    decltype(known_)::const_accessor found;
    return known_.find(found, i + 1) && found->second.where == 0;
  }
  std::uint64_t add() {
    const std::uint64_t number = next_.fetch_add(1, std::memory_order_relaxed);
    known_.insert({number, place{std::make_unique<small>(), 0}});
    return number;
  }
  void remove(std::uint64_t number) { known_.erase(number); }
  void finish() {}

private:
  tbb::concurrent_hash_map<std::uint64_t, place> known_;
  std::atomic<std::uint64_t> next_{1};
};

} // namespace

int main(int argc, char** argv) {
  try {
    if (argc != 3) throw std::runtime_error("usage: bench_mobile_tbb OBJECTS SECONDS");
    const std::size_t objects = std::stoull(argv[1]);
    table all(objects);
    const double each = lookups(all, objects, std::atof(argv[2]), [](auto&& work) {
      std::vector<std::jthread> each_thread;
      for (int t = 0; t < threads; ++t) each_thread.emplace_back([&work, t] { work(t); });
    });
    std::printf("{\"lookup\":%.9g}\n", each);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "bench_mobile_tbb: %s\n", e.what());
    return 1;
  }
}
