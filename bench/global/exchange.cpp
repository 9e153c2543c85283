// SPDX-License-Identifier: Apache-2.0
/// \file
/// Tern's contestant of `bench_global` for exchanges among all ranks.
///
///     bench_global_exchange all CODEC BYTES SECONDS   ms for an all-to-all exchange of so many bytes a peer
///     bench_global_exchange wire - BYTES -            what of the bytes goes to the network, at rates of zfp
///     bench_global_exchange fft CODEC N SECONDS       ms for a transform of N³ points there and back
///
/// Rank 0 prints one JSON object.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <stdexcept>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include <tern/global/alltoall.hpp>
#include <tern/hetero/hetero_object.hpp>
#include <tern/net/collectives.hpp>
#include <tern/net/runtime.hpp>

#include "bench/harness/timing.hpp"
#ifdef BENCH_HAS_FFTW
#include "bench/global/slab_fft.hpp"
#endif

namespace {

using namespace tern::bench;

/// The middle of what `f` takes on the slowest rank, in ms.
template <class F> double slowest(double most, F&& f) {
  std::vector<double> found;
  for (double all = 0; found.empty() || (found.size() < 200 && all < most);) {
    tern::barrier();
    const double began = seconds();
    f();
    const double took =
        tern::allreduce(seconds() - began, [](double a, double b) { return std::max(a, b); }); // the same on all ranks
    all += took;
    found.push_back(took * 1e3);
  }
  std::nth_element(found.begin(), found.begin() + static_cast<std::ptrdiff_t>(found.size() / 2), found.end());
  return found[found.size() / 2];
}

struct field {
  tern::hetero_object<float> mine, got;
  explicit field(std::int64_t bytes) : mine(bytes / 4 * tern::size()), got(mine.count(), 0.0f) {
    const auto v = mine.host(tern::access_mode::write).get();
    for (std::int64_t i = 0; i < v.size(); ++i) v(i) = std::sin(0.001f * static_cast<float>(i + tern::rank()));
  }
  void exchange(const std::string& codec) { tern::alltoall(tern::communicator::world(), mine, got, codec); }
};

nlohmann::json wire(std::int64_t bytes) {
  nlohmann::json found;
  field f(bytes);
  for (const int rate : {4, 8, 16, 24}) {
    const auto before = tern::global::count_exchanges();
    f.exchange("zfp:rate=" + std::to_string(rate));
    const auto after = tern::global::count_exchanges();
    found[std::to_string(rate)] =
        static_cast<double>(after.sent_bytes - before.sent_bytes) / static_cast<double>(after.bytes - before.bytes);
  }
  return found;
}

nlohmann::json measure(const std::string& what, const std::string& codec, std::int64_t size, double most) {
  if (what == "wire") return wire(size);
  if (what == "all") {
    field f(size);
    if (most > 0) f.exchange(codec); // memory, and what `auto` knows
    return {{"ms", slowest(most, [&] { f.exchange(codec); })}};
  }
#ifdef BENCH_HAS_FFTW
  if (what == "fft") {
    slab_fft fft(tern::communicator::world(), static_cast<int>(size), FFTW_MEASURE);
    {
      const auto v = fft.planes().host(tern::access_mode::write).get();
      for (std::int64_t i = 0; i < v.size(); ++i) v(i) = 0.001f * static_cast<float>(i % 1000);
    }
    const auto there_and_back = [&] {
      fft.forward(codec);
      fft.backward(codec);
      const auto v = fft.planes().host(tern::access_mode::read_write).get();
      const float scale = 1 / static_cast<float>(size * size * size);
      for (float& x : v) x *= scale;
    };
    there_and_back();
    return {{"ms", slowest(most, there_and_back)}};
  }
#endif
  throw std::runtime_error("no measurement is called " + what);
}

} // namespace

int main(int argc, char** argv) {
  try {
    if (argc < 5) throw std::runtime_error("usage: bench_global_exchange KIND CODEC BYTES SECONDS");
    return tern::run(argc, argv, [&] {
      const nlohmann::json found = measure(argv[1], argv[2], std::atol(argv[3]), std::atof(argv[4]));
      if (tern::rank() == 0) std::printf("%s\n", found.dump().c_str());
      std::fflush(stdout);
    });
  } catch (const std::exception& e) {
    std::fprintf(stderr, "bench_global_exchange: %s\n", e.what());
    return 1;
  }
}
