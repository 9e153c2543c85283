// SPDX-License-Identifier: Apache-2.0
// Device data that travel encoded, on every transport and several kinds of devices.
#include <atomic>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <tern/global/travel.hpp>
#include <tern/hetero/dialect.hpp>
#include <tern/hetero/hetero_task.hpp>
#include <tern/net/collectives.hpp>
#include <tern/net/runtime.hpp>

#include "rank_test.hpp"
#include "tests/global/support/rank_data.hpp"

TERN_KERNELS_BEGIN(compressed_kernels)
TERN_KERNEL(ripples, int n, float scale, TERN_GLOBAL float* out) {
  TERN_REGION_IN(n, 1, 1) { out[item.x] = scale * sin(0.05f * (float)(item.x % 1000)); };
}
TERN_KERNEL(clear, int n, TERN_GLOBAL float* out) {
  TERN_REGION_IN(n, 1, 1) { out[item.x] = 0; };
}
TERN_KERNELS_END(compressed_kernels)

namespace compressed_test {

using tern::access_mode;
using tern::compressed;
using tern::errc;
using tern::hetero_object;
using tern::test::left;
using tern::test::right;

bool there_is(const char* text) {
  try {
    tern::global::make_codec(text);
  } catch (const tern::error&) {
    return false;
  }
  return true;
}

struct seen {
  std::atomic<int> handled{0}; // handlers run on all workers
  double error = 0;            // of the only handler between two barriers
  std::string why;
};
const tern::rank_local<seen> here;

void take(float scale, hetero_object<float> x) {
  const auto v = x.host(access_mode::read).get();
  double most = 0;
  for (std::int64_t i = 0; i < v.size(); ++i)
    most = std::max(most, std::abs(static_cast<double>(v(i)) -
                                   static_cast<double>(scale) * std::sin(0.05 * static_cast<double>(i % 1000))));
  here->error = most;
  ++here->handled;
}
/// \return the largest error.
double sent_to_the_right(int n, const std::string& codec) {
  hetero_object<float> x(n);
  tern::submit(compressed_kernels::ripples, tern::items(n), n, static_cast<float>(tern::rank() % 4 + 1),
               tern::write(x));
  here->handled = 0;
  tern::barrier();
  tern::send<&take>(right(), static_cast<float>(tern::rank() % 4 + 1), compressed(x, codec));
  tern::submit(compressed_kernels::clear, tern::items(n), n, tern::write(x)); // waits until they have been encoded
  tern::quiesce();
  TERN_EXPECT_EQ(here->handled, 1);
  TERN_EXPECT_EQ(x.host(access_mode::read).get()(n / 2), 0.0f);
  const auto counts = tern::global::count_transfers();
  TERN_EXPECT_EQ(counts.departing, 0u);
  TERN_EXPECT_EQ(counts.arriving, 0u);
  tern::barrier();
  return here->error;
}

TERN_RANK_TEST(by_each_codec) {
  for (const int n : {1, 7, 2000, 60000}) {
    if (n * tern::size() > 1000000) continue;
    TERN_EXPECT(sent_to_the_right(n, "none") < 1e-5);
    if (there_is("zstd")) TERN_EXPECT(sent_to_the_right(n, "zstd") < 1e-5);
    if (!there_is("zfp:rate=8")) continue;
    TERN_EXPECT(sent_to_the_right(n, "zfp:reversible") < 1e-5);
    TERN_EXPECT(sent_to_the_right(n, "zfp:accuracy=1e-3") < 1.1e-3);
    TERN_EXPECT(sent_to_the_right(n, "zfp:rate=24") < 1e-4);
    const double at_8 = sent_to_the_right(n, "zfp:rate=8");
    TERN_EXPECT(at_8 < 0.5);
    if (n > 100) TERN_EXPECT(at_8 > 1e-3); // it was encoded, wherever it was and whatever its size
  }
}

void take_part(hetero_object<double, 3> x, double first) {
  const auto v = x.host(access_mode::read).get();
  int wrong = x.size() != tern::extents<3>{3, 4, 5};
  for (std::int64_t i = 0; i < 3; ++i)
    for (std::int64_t j = 0; j < 4; ++j)
      for (std::int64_t k = 0; k < 5; ++k)
        wrong += std::abs(v(i, j, k) - (first + static_cast<double>(100 * (i + 1) + 10 * (j + 2) + k + 3))) > 1e-6;
  here->handled += wrong == 0;
}
TERN_RANK_TEST(parts_of_objects) {
  if (!there_is("zfp:accuracy=1e-7") || !there_is("zstd")) return;
  hetero_object<double, 3> x({6, 7, 9});
  {
    const auto v = x.host(access_mode::write).get();
    for (std::int64_t i = 0; i < 6; ++i)
      for (std::int64_t j = 0; j < 7; ++j)
        for (std::int64_t k = 0; k < 9; ++k) v(i, j, k) = tern::rank() + static_cast<double>(100 * i + 10 * j + k);
  }
  here->handled = 0;
  tern::barrier();
  const auto part = x.part({1, 2, 3}, {4, 6, 8});
  for (const char* const codec : {"zfp:accuracy=1e-7", "zstd", "none"})
    tern::send<&take_part>(right(), compressed(part, codec), static_cast<double>(tern::rank()));
  tern::quiesce();
  TERN_EXPECT_EQ(here->handled, 3);
  tern::barrier();
}

/// Did exactly that come which the codec makes of the whole array?
template <int N>
void compare(const std::string& codec, const hetero_object<float, N>& x, const hetero_object<float, N>& raw) {
  const auto came = x.host(access_mode::read).get();
  const auto was = raw.host(access_mode::read).get();
  const auto n = static_cast<std::size_t>(x.count());
  const auto c = tern::global::make_codec(codec);
  const auto s = tern::global::shape_of<float, N>(x.size());
  std::vector<float> wanted(n);
  std::vector<std::byte> encoded(c->bound(s));
  encoded.resize(c->encode(s, std::as_bytes(std::span(was.data(), n)), encoded));
  c->decode(s, encoded, std::as_writable_bytes(std::span(wanted)));
  if (std::memcmp(wanted.data(), came.data(), n * sizeof(float)) == 0) ++here->handled;
}
void compare_lines(std::string codec, hetero_object<float> x, hetero_object<float> raw) { compare(codec, x, raw); }
void compare_planes(std::string codec, hetero_object<float, 2> x, hetero_object<float, 2> raw) {
  compare(codec, x, raw);
}
// Neither the size of chunks nor the device that has the data shows in what arrives.
TERN_RANK_TEST(in_chunks_and_where_the_data_are) {
  if (!there_is("zfp:rate=8") || !there_is("zstd") || tern::size() > 4) return;
  const int n = 300001;
  hetero_object<float> line(n);
  tern::submit(compressed_kernels::ripples, tern::items(n), n, static_cast<float>(tern::rank() + 1), tern::write(line));
  hetero_object<float, 2> planes({37, 4001});
  {
    const auto v = planes.host(access_mode::write).get();
    for (std::int64_t i = 0; i < 37; ++i)
      for (std::int64_t k = 0; k < 4001; ++k)
        v(i, k) = static_cast<float>(std::sin(0.01 * static_cast<double>(i * k)) + tern::rank());
  }
  int sent = 0;
  here->handled = 0;
  tern::barrier();
  const auto before = tern::global::count_transfers();
  for (const char* const codec : {"zfp:rate=4", "zfp:rate=8", "zfp:rate=12.5", "zfp:rate=24", "zfp:accuracy=1e-3",
                                  "zfp:reversible", "zstd", "none"}) {
    tern::send<&compare_lines>(right(), std::string(codec), compressed(line, codec), line);
    tern::send<&compare_lines>(right(), std::string(codec), compressed(line.part({11}, {9000}), codec),
                               line.part({11}, {9000}));
    tern::send<&compare_planes>(right(), std::string(codec), compressed(planes, codec), planes);
    sent += 3;
  }
  tern::submit(compressed_kernels::clear, tern::items(n), n, tern::write(line));
  tern::quiesce();
  TERN_EXPECT_EQ(here->handled, sent);
  const auto after = tern::global::count_transfers();
  TERN_EXPECT(after.pieces - before.pieces >= 16);
  TERN_EXPECT_EQ(after.departing, 0u);
  TERN_EXPECT_EQ(after.arriving, 0u);
  tern::barrier();
}

void take_close(float scale, hetero_object<float> x) {
  const auto v = x.host(access_mode::read).get();
  int wrong = 0;
  for (std::int64_t i = 0; i < v.size(); ++i)
    wrong += std::abs(static_cast<double>(v(i)) -
                      static_cast<double>(scale) * std::sin(0.05 * static_cast<double>(i % 1000))) > 1e-2;
  here->handled += wrong == 0;
}
// Whatever has been measured: what comes is right, and nothing is left.
TERN_RANK_TEST(where_it_pays) {
  if (!there_is("zfp:rate=16") || !there_is("zstd") || tern::size() > 4) return;
  const int n = 100000, times = 40;
  const auto scale = static_cast<float>(tern::rank() + 1);
  hetero_object<float> x(n);
  tern::submit(compressed_kernels::ripples, tern::items(n), n, scale, tern::write(x));
  here->handled = 0;
  tern::barrier();
  for (int i = 0; i < times; ++i) {
    tern::send<&take_close>(right(), scale, compressed(x, "zfp:rate=16,auto"));
    tern::send<&take_close>(right(), scale, compressed(x, "zstd:auto"));
    if (i % 8 == 7) tern::quiesce(); // some are measured
  }
  tern::send<&take_close>(right(), scale, compressed(x.part({0}, {100}), "auto"));
  tern::quiesce();
  TERN_EXPECT_EQ(here->handled, 2 * times + 1);
  const auto counts = tern::global::count_transfers();
  TERN_EXPECT_EQ(counts.departing, 0u);
  TERN_EXPECT_EQ(counts.arriving, 0u);
  tern::barrier();
}

void take_failure(hetero_object<float> x) {
  try {
    static_cast<void>(x.host(access_mode::read).get());
    here->why = "nothing";
  } catch (const tern::error& e) {
    here->why = e.what();
  }
}
void fail_through(const char* codec) {
  hetero_object<float> x(50000, 1.0f);
  tern::submit([](tern::host_view<float, 1>) { throw tern::error(errc::io, "out of ripples"); }, tern::read_write(x));
  here->why.clear();
  tern::barrier();
  tern::send<&take_failure>(right(), compressed(x, codec));
  tern::quiesce();
  TERN_EXPECT(here->why.find("out of ripples") != std::string::npos);
  TERN_EXPECT(here->why.find("rank " + std::to_string(left())) != std::string::npos);
  try {
    tern::wait_all();
  } catch (const tern::error&) { // of the task, here and there
  }
  tern::barrier();
}
TERN_RANK_TEST(what_fails_at_the_source_fails_at_the_target) {
  fail_through("none");
  if (there_is("zstd:auto")) fail_through("zstd:auto");
  if (there_is("zfp:rate=8")) fail_through("zfp:rate=8");
}

TERN_RANK_TEST(what_no_codec_takes) {
  const hetero_object<int> x(10, 1);
  const hetero_object<float> y(10, 1.0f);
  TERN_EXPECT_ERROR(compressed(y, "zsdt"), errc::invalid_option, "there is no codec");
  if (!there_is("zfp:rate=8")) return;
  TERN_EXPECT_ERROR(compressed(x, "zfp:rate=8"), errc::invalid_argument, "it is lossy");
  TERN_EXPECT_ERROR(compressed(y, "zfp:rate=0"), errc::invalid_option, "from 1 to 32");
  TERN_EXPECT_ERROR(compressed(y, "zfp"), errc::invalid_option, "zfp:rate=BITS");
  TERN_EXPECT_ERROR(compressed(y, "zfp:rate=8,auto,auto"), errc::invalid_option, "auto");
}

} // namespace compressed_test
