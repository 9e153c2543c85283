// SPDX-License-Identifier: Apache-2.0
// A distributed Fourier transform there and back on tern::alltoall, and what lossy codecs cost: the
// figures of docs/concepts/compression.md.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <string>

#include <tern/net/collectives.hpp>
#include <tern/net/runtime.hpp>

#include "bench/global/slab_fft.hpp"
#include "rank_test.hpp"

namespace fft_test {

constexpr int n = 128;
constexpr double pi = 3.14159265358979323846;

/// A smooth field, of which the transform is known at one place.
float field(int z, int y, int x) {
  const double h = 2 * pi / n;
  return static_cast<float>(std::sin(h * x) * std::cos(2 * h * y) + 0.5 * std::cos(3 * h * z + 0.3) +
                            0.1 * std::sin(h * (5 * x + 7 * y + 11 * z)));
}

/// \return the largest error of what comes back, of a field of at most 1.6.
double there_and_back(const std::string& codec) {
  tern::bench::slab_fft fft(tern::communicator::world(), n);
  const int first = fft.first_plane(), planes = fft.my_planes();
  {
    const auto v = fft.planes().host(tern::access_mode::write).get();
    float* at = v.data();
    for (int z = 0; z < planes; ++z)
      for (int y = 0; y < n; ++y)
        for (int x = 0; x < n; ++x) {
          *at++ = field(first + z, y, x);
          *at++ = 0;
        }
  }
  fft.forward(codec);
  // sin(hx) cos(2hy) has n³ / 4 at (x, y, z) = (1, 2, 0), turned by a quarter.
  if (codec == "none" && first <= 2 && 2 < first + planes) {
    const auto v = fft.rows().host(tern::access_mode::read).get();
    const auto at = static_cast<std::int64_t>(2) * ((2 - first) * n + 1); // z = 0
    const double wanted = -0.25 * n * n * n;
    TERN_EXPECT(std::abs(v(at)) < 1e-4 * n * n * n);
    TERN_EXPECT(std::abs(v(at + 1) - wanted) < 1e-4 * n * n * n);
  }
  fft.backward(codec);
  double most = 0;
  const auto v = fft.planes().host(tern::access_mode::read).get();
  const float* at = v.data();
  for (int z = 0; z < planes; ++z)
    for (int y = 0; y < n; ++y)
      for (int x = 0; x < n; ++x, at += 2) {
        most = std::max(most, std::abs(static_cast<double>(at[0]) / (n * n * n) - field(first + z, y, x)));
        most = std::max(most, std::abs(static_cast<double>(at[1])) / (n * n * n));
      }
  most = tern::allreduce(most, [](double a, double b) { return std::max(a, b); });
  if (tern::rank() == 0) std::printf("       %-12s largest error %.1e\n", codec.c_str(), most);
  return most;
}
bool there_is(const char* text) {
  try {
    tern::global::make_codec(text);
  } catch (const tern::error&) {
    return false;
  }
  return true;
}

TERN_RANK_TEST(as_it_is) {
  TERN_EXPECT(there_and_back("none") < 2e-6);
  if (there_is("zstd")) TERN_EXPECT(there_and_back("zstd") < 2e-6);
}
TERN_RANK_TEST(at_the_rates_of_zfp) {
  if (!there_is("zfp:rate=24")) return;
  TERN_EXPECT(there_and_back("zfp:rate=24") <= 1e-5);
  const double at_16 = there_and_back("zfp:rate=16"), at_8 = there_and_back("zfp:rate=8");
  if (tern::size() == 1) return; // nothing travels
  TERN_EXPECT(at_16 > 1e-5);
  TERN_EXPECT(at_16 < 1e-2);
  TERN_EXPECT(at_8 > at_16);
}

} // namespace fft_test
