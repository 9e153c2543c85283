// SPDX-License-Identifier: Apache-2.0
// All-to-all exchange of objects, on every transport and several kinds of devices.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include <tern/global/alltoall.hpp>
#include <tern/hetero/dialect.hpp>
#include <tern/hetero/hetero_task.hpp>
#include <tern/net/collectives.hpp>
#include <tern/net/runtime.hpp>

#include "rank_test.hpp"

TERN_KERNELS_BEGIN(exchange_kernels)
TERN_KERNEL(number, int n, int first, TERN_GLOBAL int* out) {
  TERN_REGION_IN(n, 1, 1) { out[item.x] = first + item.x; };
}
TERN_KERNEL(waves, int n, float phase, TERN_GLOBAL float* out) {
  TERN_REGION_IN(n, 1, 1) { out[item.x] = sin(phase + 0.01f * (float)(item.x % 1000)); };
}
TERN_KERNELS_END(exchange_kernels)

namespace exchange_test {

using tern::access_mode;
using tern::communicator;
using tern::errc;
using tern::hetero_object;

hetero_object<int> numbered(int n, int first) {
  hetero_object<int> x(n);
  tern::submit(exchange_kernels::number, tern::items(n), n, first, tern::write(x));
  return x;
}
communicator world() { return communicator::world(); }

/// Is this codec in this build?
bool there_is(const char* text) {
  try {
    tern::global::make_codec(text);
  } catch (const tern::error& e) {
    TERN_EXPECT(e.code() == errc::unsupported);
    return false;
  }
  return true;
}

/// Rank r's element i for rank q is r * 1000000 + q * n + i.
void exchange_numbers(int n, const char* codec) {
  const int ranks = tern::size(), me = tern::rank();
  const auto mine = numbered(n * ranks, me * 1000000);
  hetero_object<int> got(n * ranks);
  tern::alltoall(world(), mine, got, codec);
  const auto v = got.host(access_mode::read).get();
  int wrong = 0;
  for (int r = 0; r < ranks; ++r)
    for (int i = 0; i < n; ++i) wrong += v(r * n + i) != r * 1000000 + me * n + i;
  TERN_EXPECT_EQ(wrong, 0);
}

TERN_RANK_TEST(of_each_size_and_lossless_codec) {
  for (const char* const codec : {"", "none", "zstd", "zstd:level=3", "auto"}) {
    if (std::string(codec) != "" && std::string(codec) != "none" && !there_is("zstd")) continue;
    for (const int n : {1, 100, 5000, 40000})
      if (n * tern::size() <= 160000) exchange_numbers(n, codec);
  }
}

// Each part in several chunks, and what comes is what the codec makes of the whole part.
TERN_RANK_TEST(in_chunks) {
  if (tern::size() > 4) return;
  constexpr int n = 150001;
  for (const char* const codec : {"none", "zstd", "auto", "none:auto"})
    if (std::string(codec).starts_with("none") || there_is("zstd")) exchange_numbers(n, codec);
  if (!there_is("zfp:rate=8")) return;
  const int ranks = tern::size();
  const auto element = [](int from, int i) {
    return std::sin(static_cast<float>(from) + 0.01f * static_cast<float>(i));
  };
  hetero_object<float> mine(n * ranks), got(n * ranks);
  {
    const auto v = mine.host(access_mode::write).get();
    for (int i = 0; i < n * ranks; ++i) v(i) = element(tern::rank(), i);
  }
  for (const char* const text : {"zfp:rate=4", "zfp:rate=8", "zfp:rate=20", "zfp:accuracy=0.01", "zfp:rate=8,auto"}) {
    tern::alltoall(world(), mine, got, text);
    const auto codec = tern::global::make_codec(text);
    const auto shape = tern::global::shape_of<float, 1>({n});
    std::vector<float> raw(n), wanted(n);
    std::vector<std::byte> encoded(codec->bound(shape));
    const auto v = got.host(access_mode::read).get();
    for (int r = 0; r < ranks; ++r) {
      for (int i = 0; i < n; ++i) raw[static_cast<std::size_t>(i)] = element(r, tern::rank() * n + i);
      const std::size_t made = codec->encode(shape, std::as_bytes(std::span(raw)), encoded);
      codec->decode(shape, std::span(encoded).first(made), std::as_writable_bytes(std::span(wanted)));
      const auto came = std::as_bytes(std::span(v.data() + r * n, n));
      const auto is = [&](const std::vector<float>& x) { return std::memcmp(came.data(), x.data(), came.size()) == 0; };
      const bool may_be_raw = r == tern::rank() || codec->decides();
      TERN_EXPECT(is(wanted) ? r != tern::rank() : may_be_raw && is(raw));
    }
  }
}

// Ranks that have other sizes, and so other numbers of chunks, are told, and do not wait.
TERN_RANK_TEST(chunks_of_other_parts_are_refused) {
  if (tern::size() < 2 || tern::size() > 4 || !there_is("zfp:rate=8")) return;
  const std::int64_t n = (tern::rank() == 0 ? 300000 : 100000) * tern::size();
  hetero_object<float> x(n, 1.0f), y(n);
  TERN_EXPECT_ERROR(tern::alltoall(world(), x, y, "zfp:rate=8"), errc::invalid_data, "");
  TERN_EXPECT_ERROR(tern::alltoall(world(), x, y, tern::rank() == 0 ? "zfp:rate=8" : "none"), errc::invalid_data, "");
  tern::barrier();
  exchange_numbers(10, "");
}

TERN_RANK_TEST(makes_fewer_bytes_where_that_is_wanted) {
  if (!there_is("zstd") || tern::size() > 4) return;
  const auto before = tern::global::count_exchanges();
  exchange_numbers(40000, "zstd");
  const auto after = tern::global::count_exchanges();
  const auto others = static_cast<std::uint64_t>(tern::size() - 1);
  TERN_EXPECT_EQ(after.parts - before.parts, others);
  TERN_EXPECT_EQ(after.encoded - before.encoded, others);
  TERN_EXPECT_EQ(after.bytes - before.bytes, others * 160000);
  TERN_EXPECT(after.sent_bytes - before.sent_bytes <= others * 80000);
  exchange_numbers(10000, "zstd"); // less than 64 KiB
  TERN_EXPECT_EQ(tern::global::count_exchanges().encoded - after.encoded, 0u);
}

TERN_RANK_TEST(parts_of_larger_objects_with_counts) {
  // Rank r gives rank q r + q rows, of an inner part of a wider object.
  const int ranks = tern::size(), me = tern::rank();
  std::vector<std::int64_t> out, in;
  for (int q = 0; q < ranks; ++q) {
    out.push_back(me + q);
    in.push_back(q + me);
  }
  const std::int64_t rows = std::accumulate(out.begin(), out.end(), std::int64_t{0}) + 1;
  hetero_object<double, 3> mine({rows, 5, 7}, 0.0), got({rows, 6, 9}, -1.0);
  {
    const auto v = mine.host(access_mode::write).get();
    for (std::int64_t i = 0; i < rows; ++i)
      for (std::int64_t j = 0; j < 5; ++j)
        for (std::int64_t k = 0; k < 7; ++k) v(i, j, k) = static_cast<double>(me * 10000 + i * 100 + j * 10 + k);
  }
  tern::alltoall(world(), mine.part({0, 1, 2}, {rows, 4, 6}), out, got.part({0, 2, 3}, {rows, 5, 7}), in);
  const auto v = got.host(access_mode::read).get();
  std::int64_t row = 0;
  int wrong = 0;
  for (int q = 0; q < ranks; ++q) {
    std::int64_t theirs = 0; // their first row for this rank
    for (int p = 0; p < me; ++p) theirs += q + p;
    for (int i = 0; i < q + me; ++i, ++row, ++theirs)
      for (std::int64_t j = 0; j < 6; ++j)
        for (std::int64_t k = 0; k < 9; ++k) {
          const bool inside = j >= 2 && j < 5 && k >= 3 && k < 7;
          const double wanted = inside ? static_cast<double>(q * 10000 + theirs * 100 + (j - 1) * 10 + k - 1) : -1;
          wrong += v(row, j, k) != wanted;
        }
  }
  TERN_EXPECT_EQ(wrong, 0);
  TERN_EXPECT_EQ(v(rows - 1, 3, 4), -1); // behind the last part
}

TERN_RANK_TEST(lossy_codecs_encode_everything_the_same_way) {
  if (tern::size() > 16) return; // simulated, it takes ten seconds and more; more ranks show nothing else
  if (!there_is("zfp:rate=8")) return;
  const int ranks = tern::size(), n = 1024;
  hetero_object<float> mine(n * ranks), got(n * ranks), again(n * ranks);
  tern::submit(exchange_kernels::waves, tern::items(n * ranks), n * ranks, static_cast<float>(tern::rank() % 4),
               tern::write(mine));
  for (const int rate : {4, 8, 16, 24}) {
    const std::string codec = "zfp:rate=" + std::to_string(rate);
    const auto before = tern::global::count_exchanges();
    tern::alltoall(world(), mine, got, codec);
    const auto after = tern::global::count_exchanges();
    const auto others = static_cast<std::uint64_t>(ranks - 1), frame = std::uint64_t{96};
    TERN_EXPECT_EQ(after.sent_bytes - before.sent_bytes,
                   others * (frame + static_cast<std::uint64_t>(n) * static_cast<std::uint64_t>(rate) / 8));
    tern::alltoall(world(), mine, again, codec);
    const auto v = got.host(access_mode::read).get(), w = again.host(access_mode::read).get();
    double most = 0;
    int differ = 0;
    for (int r = 0; r < ranks; ++r)
      for (int i = 0; i < n; ++i) {
        const double exact = std::sin(r % 4 + 0.01 * ((tern::rank() * n + i) % 1000));
        most = std::max(most, std::abs(v(r * n + i) - exact));
        differ += v(r * n + i) != w(r * n + i);
      }
    TERN_EXPECT_EQ(differ, 0);
    TERN_EXPECT(most < (rate >= 24 ? 1e-4 : rate >= 16 ? 1e-2 : 1));
  }
}

TERN_RANK_TEST(of_a_part_of_the_ranks) {
  const communicator half = world().split(tern::rank() % 2);
  const int ranks = half.size(), n = 80000 / tern::size();
  const auto mine = numbered(n * ranks, tern::rank() * 1000000);
  hetero_object<int> got(n * ranks);
  tern::alltoall(half, mine, got);
  const auto v = got.host(access_mode::read).get();
  int wrong = 0;
  for (int r = 0; r < ranks; ++r)
    for (int i = 0; i < n; ++i) wrong += v(r * n + i) != half.job_rank(r) * 1000000 + half.rank() * n + i;
  TERN_EXPECT_EQ(wrong, 0);
}

TERN_RANK_TEST(what_cannot_be_is_said) {
  const int ranks = tern::size();
  hetero_object<int> x(ranks * 4, 0), y(ranks * 4);
  hetero_object<int> uneven(ranks * 4 + 1, 0);
  if (ranks > 1) TERN_EXPECT_ERROR(tern::alltoall(world(), uneven, y), errc::invalid_argument, "rows for");
  TERN_EXPECT_ERROR(tern::alltoall(world(), x, y, "zsdt"), errc::invalid_option, "there is no codec \"zsdt\"");
  std::vector<std::int64_t> few(static_cast<std::size_t>(ranks - 1), 1), many(static_cast<std::size_t>(ranks), 5),
      negative(static_cast<std::size_t>(ranks), -1);
  TERN_EXPECT_ERROR(tern::alltoall(world(), x, few, y, few), errc::invalid_argument, "counts for");
  TERN_EXPECT_ERROR(tern::alltoall(world(), x, many, y, many), errc::invalid_argument, "counts that end at row");
  TERN_EXPECT_ERROR(tern::alltoall(world(), x, negative, y, negative), errc::invalid_argument, "counts");
  TERN_EXPECT_ERROR(tern::alltoall(communicator(), x, y), errc::invalid_state, "");
  if (!there_is("zfp:rate=8")) return;
  TERN_EXPECT_ERROR(tern::alltoall(world(), x, y, "zfp:rate=8"), errc::invalid_argument, "it is lossy");
  TERN_EXPECT_ERROR(tern::alltoall(world(), x, y, "zfp:rate=33"), errc::invalid_option, "from 1 to 32");
  exchange_numbers(10, ""); // nothing is left of all that
}

// The task that was to compute a part fails: its rank says why, and so do those that wait for the
// part.
TERN_RANK_TEST(a_failed_task_fails_the_exchange_everywhere) {
  const int ranks = tern::size();
  hetero_object<int> x(ranks * 100, 0), y(ranks * 100);
  if (tern::rank() == 0)
    tern::submit([](tern::host_view<int, 1>) { throw tern::error(errc::io, "no more of this"); }, tern::read_write(x));
  std::string why = "nothing";
  try {
    tern::alltoall(world(), x, y);
  } catch (const std::exception& e) {
    why = e.what();
  }
  TERN_EXPECT(why.find("no more of this") != why.npos);
  if (tern::rank() != 0) TERN_EXPECT(why.find("rank 0 could not send its part") != why.npos);
  try {
    tern::wait_all();
  } catch (const tern::error&) { // of the task
  }
  tern::barrier();
  exchange_numbers(10, "");
}

// Nor is the text that says so ever taken for data, whatever the size of the part.
TERN_RANK_TEST(a_failure_is_no_part_of_the_same_size) {
  const int ranks = tern::size();
  const auto failed = [&](int bytes) { // what this rank is told
    hetero_object<unsigned char> x(ranks * bytes, static_cast<unsigned char>(0)), y(ranks * bytes);
    if (tern::rank() == 0)
      tern::submit([](tern::host_view<unsigned char, 1>) { throw tern::error(errc::io, "no more of this"); },
                   tern::read_write(x));
    std::string why;
    try {
      tern::alltoall(world(), x, y, "none");
    } catch (const std::exception& e) {
      why = e.what();
    }
    try {
      tern::wait_all();
    } catch (const tern::error&) { // of the task
    }
    tern::barrier();
    return why;
  };
  const int mark = 16, length = tern::broadcast(static_cast<int>(failed(200).size()), 0) + mark;
  for (int bytes = length - 6; bytes < length + 6; ++bytes)
    TERN_EXPECT(failed(bytes).find("no more of this") != std::string::npos);
}

// Ranks that disagree about the sizes are told.
TERN_RANK_TEST(parts_of_other_sizes_are_refused) {
  if (tern::size() < 2) return;
  const int ranks = tern::size();
  const std::int64_t more = tern::rank() == 0 ? 30 : 20;
  hetero_object<int> x(ranks * more, 0), y(ranks * more);
  if (tern::rank() == 0)
    TERN_EXPECT_ERROR(tern::alltoall(world(), x, y, "none"), errc::invalid_data, "has sent 80 bytes in an alltoall");
  else
    TERN_EXPECT_ERROR(tern::alltoall(world(), x, y, "none"), errc::invalid_data, "rank 0 has sent 120 bytes");
  tern::barrier();
}

} // namespace exchange_test
