// SPDX-License-Identifier: Apache-2.0
#include <tern/global/codec.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <tern/base/error.hpp>
#include <tern/global/codec/builtin.hpp>
#include <tern/global/codec/shuffle.hpp>

namespace tern::global {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::string refusal(const std::string& text) {
  try {
    make_codec(text);
  } catch (const error& e) {
    return e.what();
  }
  return "nothing";
}
errc refusal_code(const std::string& text) {
  try {
    make_codec(text);
  } catch (const error& e) {
    return e.code();
  }
  return errc::internal;
}

template <class T> std::vector<std::byte> encoded(const codec& c, const array_shape& s, const std::vector<T>& x) {
  std::vector<std::byte> out(c.bound(s));
  out.resize(c.encode(s, std::as_bytes(std::span(x)), out));
  return out;
}
template <class T> std::vector<T> decoded(const codec& c, const array_shape& s, std::span<const std::byte> from) {
  std::vector<T> x(s.count());
  c.decode(s, from, std::as_writable_bytes(std::span(x)));
  return x;
}
template <class T> std::vector<T> waves(std::size_t n) {
  std::vector<T> x(n);
  for (std::size_t i = 0; i < n; ++i) x[i] = static_cast<T>(std::sin(0.01 * static_cast<double>(i)) * 100);
  return x;
}
template <class T> double largest_error(const std::vector<T>& a, const std::vector<T>& b) {
  double most = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    most = std::max(most, std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i])));
  return most;
}
template <class T> bool same_bytes(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
}
template <class T> std::vector<T> random_bits(std::size_t n, unsigned seed) {
  std::mt19937_64 bits(seed);
  std::vector<T> x(n);
  for (T& e : x) {
    const std::uint64_t b = bits();
    std::memcpy(&e, &b, sizeof e);
  }
  return x;
}

TEST(codecs, are_found_by_name) {
  std::vector<std::string> names;
  for (const codec_kind& k : codecs()) names.push_back(k.name);
  EXPECT_THAT(names, testing::IsSupersetOf({"none", "zfp", "zstd"}));
  EXPECT_EQ(make_codec("none")->text(), "none");
  EXPECT_TRUE(make_codec("none")->lossless());
}

TEST(codecs, that_are_not_there_are_named_with_what_there_is) {
  EXPECT_EQ(refusal_code("zsdt"), errc::invalid_option);
  EXPECT_THAT(refusal("zsdt"), AllOf(HasSubstr("there is no codec \"zsdt\""), HasSubstr("zstd")));
  EXPECT_THAT(refusal("lz4:level=1"), AllOf(HasSubstr("\"lz4\""), HasSubstr("none"), HasSubstr("zfp")));
  EXPECT_THAT(refusal(""), HasSubstr("there is no codec \"\""));
}

TEST(codecs, without_their_library_name_its_package) {
  const error e = detail::without_library("zfp", "libzfp-dev");
  EXPECT_EQ(e.code(), errc::unsupported);
  EXPECT_THAT(e.what(), AllOf(HasSubstr("codec zfp"), HasSubstr("install libzfp-dev")));
  for (const codec_kind& k : codecs()) // as in this build
    if (!k.package.empty()) {
      EXPECT_EQ(refusal_code(k.name + ":rate=8"), errc::unsupported);
      EXPECT_THAT(refusal(k.name), HasSubstr(k.package));
    }
}

TEST(codecs, none_keeps_everything) {
  const auto c = make_codec("none");
  const array_shape s = shape_of<int, 1>({100});
  const auto x = random_bits<int>(100, 1);
  const auto bytes = encoded(*c, s, x);
  EXPECT_EQ(bytes.size(), 400u);
  EXPECT_EQ(decoded<int>(*c, s, bytes), x);
  std::vector<int> to(100);
  EXPECT_THROW(c->decode(s, std::span(bytes).first(399), std::as_writable_bytes(std::span(to))), error);
}

TEST(shapes, are_told) {
  EXPECT_EQ((shape_of<float, 2>({4, 100})).text(), "4 x 100 floats of 4 bytes");
  EXPECT_EQ((shape_of<int, 1>({7})).text(), "7 integers of 4 bytes");
  EXPECT_EQ((shape_of<double, 3>({1, 2, 3})).count(), 6u);
  EXPECT_EQ((shape_of<double, 3>({1, 2, 3})).bytes(), 48u);
}

TEST(shuffle, sorts_bytes_and_back) {
  for (const std::size_t element : {1u, 2u, 3u, 4u, 8u, 12u}) {
    for (const std::size_t n : {1u, 5u, 1023u, 1025u, 3000u}) {
      const auto x = random_bits<std::uint8_t>(element * n, static_cast<unsigned>(n));
      std::vector<std::uint8_t> sorted(x.size()), back(x.size());
      detail::shuffle_bytes(element, std::as_bytes(std::span(x)), std::as_writable_bytes(std::span(sorted)));
      for (std::size_t i = 0; i < n; i += 7)
        for (std::size_t b = 0; b < element; ++b) ASSERT_EQ(sorted[b * n + i], x[i * element + b]);
      detail::unshuffle_bytes(element, std::as_bytes(std::span(sorted)), std::as_writable_bytes(std::span(back)));
      ASSERT_EQ(back, x) << element << " bytes, " << n;
    }
  }
}

// A codec of a program's own: the lower half of each float goes.
class halves final : public codec {
public:
  explicit halves(policy_parameters& p) : codec("halves", false), keep_(p.count("keep", 2, 1, 4)) {}
  std::string refuses(const array_shape& s) const override {
    return s.kind == element_kind::float32 ? "" : "it is for floats";
  }
  std::size_t bound(const array_shape& s) const override { return s.count() * static_cast<std::size_t>(keep_); }
  std::size_t encode(const array_shape& s, std::span<const std::byte> from, std::span<std::byte> to) const override {
    const auto k = static_cast<std::size_t>(keep_);
    for (std::size_t i = 0; i < s.count(); ++i) std::copy_n(&from[4 * i + 4 - k], k, &to[k * i]);
    return s.count() * k;
  }
  void decode(const array_shape& s, std::span<const std::byte> from, std::span<std::byte> to) const override {
    const auto k = static_cast<std::size_t>(keep_);
    if (from.size() != s.count() * k) throw error(errc::invalid_data, "not halves");
    std::fill(to.begin(), to.end(), std::byte{0});
    for (std::size_t i = 0; i < s.count(); ++i) std::copy_n(&from[k * i], k, &to[4 * i + 4 - k]);
  }

private:
  int keep_;
};
const registered_codec<halves> entered("halves", "the upper half of each float");

TEST(codecs, of_ones_own) {
  const auto c = make_codec("halves:keep=3");
  const array_shape s = shape_of<float, 1>({1000});
  const auto x = waves<float>(1000);
  const auto bytes = encoded(*c, s, x);
  EXPECT_EQ(bytes.size(), 3000u);
  EXPECT_LT(largest_error(decoded<float>(*c, s, bytes), x), 0.01);
  EXPECT_THAT(refusal("halves:keep=5"), HasSubstr("codec halves: parameter keep cannot be \"5\""));
  EXPECT_THAT(refusal("halves:kept=3"), HasSubstr("codec halves has no parameter \"kept\""));
}

#ifdef TERN_HAS_ZSTD

TEST(zstd, keeps_everything) {
  for (const char* const text : {"zstd", "zstd:level=1", "zstd:level=7"}) {
    const auto c = make_codec(text);
    EXPECT_TRUE(c->lossless());
    for (const std::int64_t n : {1, 17, 4096, 100001}) {
      const auto size = static_cast<std::size_t>(n);
      for (const auto& x : {random_bits<double>(size, 3), waves<double>(size), std::vector<double>(size)})
        EXPECT_TRUE(
            same_bytes(decoded<double>(*c, shape_of<double, 1>({n}), encoded(*c, shape_of<double, 1>({n}), x)), x));
      const auto b = random_bits<std::array<char, 3>>(size, 4);
      const array_shape s = shape_of<std::array<char, 3>, 1>({n});
      EXPECT_TRUE(same_bytes(decoded<std::array<char, 3>>(*c, s, encoded(*c, s, b)), b));
    }
  }
  const auto x = waves<float>(100000);
  EXPECT_LT(encoded(*make_codec("zstd"), shape_of<float, 1>({100000}), x).size(), 4 * x.size() * 9 / 10);
}

TEST(zstd, has_levels) {
  EXPECT_EQ(make_codec("zstd")->text(), "zstd:level=1");
  EXPECT_EQ(make_codec("zstd:level=19")->text(), "zstd:level=19");
  EXPECT_THAT(refusal("zstd:level=20"), AllOf(HasSubstr("level cannot be \"20\""), HasSubstr("from 1 to 19")));
}

TEST(zstd, takes_no_bytes_but_its_own) {
  const auto c = make_codec("zstd");
  const array_shape s = shape_of<int, 1>({1000}), smaller = shape_of<int, 1>({999}), larger = shape_of<int, 1>({1001});
  const auto bytes = encoded(*c, s, random_bits<int>(1000, 5));
  EXPECT_THROW(decoded<int>(*c, smaller, bytes), error);
  EXPECT_THROW(decoded<int>(*c, larger, bytes), error);
  EXPECT_THROW(decoded<int>(*c, s, std::span(bytes).first(bytes.size() - 1)), error);
  EXPECT_THROW(decoded<int>(*c, s, {}), error);
}

#endif
#ifdef TERN_HAS_ZFP

TEST(zfp, keeps_so_many_bits) {
  const auto x = waves<float>(64 * 64 * 64);
  double last = 1e9;
  for (const int rate : {4, 8, 16, 24}) {
    const auto c = make_codec("zfp:rate=" + std::to_string(rate));
    EXPECT_FALSE(c->lossless());
    for (const array_shape& s :
         {shape_of<float, 1>({64 * 64 * 64}), shape_of<float, 2>({64, 64 * 64}), shape_of<float, 3>({64, 64, 64})}) {
      const auto bytes = encoded(*c, s, x);
      EXPECT_EQ(bytes.size(), x.size() * static_cast<std::size_t>(rate) / 8);
      EXPECT_EQ(c->fixed_size(s), bytes.size());
      EXPECT_LE(bytes.size(), c->bound(s));
      if (s.extent[1] == 1) {
        const double error = largest_error(decoded<float>(*c, s, bytes), x);
        EXPECT_LT(error, last);
        last = error;
      }
    }
  }
  EXPECT_LT(last, 1e-3); // of 100
}

TEST(zfp, keeps_to_an_accuracy) {
  const auto x = waves<double>(10000);
  for (const double accuracy : {1e-2, 1e-6}) {
    const auto c = make_codec("zfp:accuracy=" + detail::text_of_number(accuracy));
    const array_shape s = shape_of<double, 2>({100, 100});
    EXPECT_EQ(c->fixed_size(s), std::nullopt);
    EXPECT_LE(largest_error(decoded<double>(*c, s, encoded(*c, s, x)), x), accuracy);
  }
}

TEST(zfp, can_keep_everything) {
  const auto c = make_codec("zfp:reversible");
  EXPECT_TRUE(c->lossless());
  for (const auto& x : {random_bits<double>(5000, 7), waves<double>(5000)})
    EXPECT_TRUE(same_bytes(
        decoded<double>(*c, shape_of<double, 2>({50, 100}), encoded(*c, shape_of<double, 2>({50, 100}), x)), x));
  const auto x = waves<float>(4099);
  EXPECT_TRUE(
      same_bytes(decoded<float>(*c, shape_of<float, 1>({4099}), encoded(*c, shape_of<float, 1>({4099}), x)), x));
}

TEST(zfp, takes_arrays_of_any_extents) {
  for (const array_shape& s :
       {shape_of<float, 1>({1}), shape_of<float, 1>({5}), shape_of<float, 2>({3, 9}), shape_of<float, 3>({5, 1, 7}),
        shape_of<float, 3>({1, 1, 30}), shape_of<float, 3>({3, 5, 7})})
    for (const char* const text :
         {"zfp:rate=1", "zfp:rate=7.5", "zfp:rate=32", "zfp:accuracy=0.01", "zfp:reversible"}) {
      const auto c = make_codec(text);
      const auto x = waves<float>(s.count());
      const auto bytes = encoded(*c, s, x);
      EXPECT_LE(bytes.size(), c->bound(s));
      EXPECT_EQ(c->fixed_size(s).value_or(bytes.size()), bytes.size()) << text << ", " << s.text();
      const double error = largest_error(decoded<float>(*c, s, bytes), x);
      EXPECT_LE(error, c->lossless() ? 0 : std::string(text) == "zfp:rate=1" ? 200 : 2) << text << ", " << s.text();
    }
}

TEST(zfp, is_not_for_other_elements) {
  const auto say = [](const std::string& text, const array_shape& s) -> std::string {
    try {
      check_codec(*make_codec(text), s);
    } catch (const error& e) {
      EXPECT_EQ(e.code(), errc::invalid_argument);
      return e.what();
    }
    return "nothing";
  };
  EXPECT_THAT(say("zfp:rate=8", shape_of<int, 1>({5})),
              AllOf(HasSubstr("codec zfp:rate=8 does not take 5 integers of 4 bytes"), HasSubstr("it is lossy")));
  EXPECT_THAT(say("zfp:accuracy=0.5", shape_of<char, 1>({5})), HasSubstr("it is lossy"));
  EXPECT_THAT(say("zfp:reversible", shape_of<long, 1>({5})), HasSubstr("zfp takes float and double"));
  EXPECT_EQ(say("zfp:rate=8", shape_of<double, 1>({5})), "nothing");
  EXPECT_EQ(say("none", shape_of<int, 1>({5})), "nothing");
}

TEST(zfp, has_rates_from_1_to_32) {
  for (const char* const rate : {"0", "0.99", "33", "32.1", "-4", "nan", "many"})
    EXPECT_THAT(refusal(std::string("zfp:rate=") + rate),
                AllOf(HasSubstr("codec zfp: parameter rate cannot be"), HasSubstr("from 1 to 32")));
  EXPECT_THAT(refusal("zfp:accuracy=0"), HasSubstr("accuracy cannot be \"0\""));
  EXPECT_THAT(refusal("zfp"), HasSubstr("say one of zfp:rate=BITS"));
  EXPECT_THAT(refusal("zfp:rate=8,reversible"), HasSubstr("say one of zfp:rate=BITS"));
  EXPECT_THAT(refusal("zfp:reversible=perhaps"), HasSubstr("yes|no"));
  EXPECT_THAT(refusal("zfp:lossless"), HasSubstr("no parameter \"lossless\""));
  EXPECT_EQ(make_codec("zfp:rate=8")->text(), "zfp:rate=8");
  EXPECT_EQ(make_codec("zfp:rate=7.25")->text(), "zfp:rate=7.25");
  EXPECT_EQ(make_codec(make_codec("zfp:accuracy=0.001")->text())->text(), "zfp:accuracy=0.001");
}

// Streams of any bytes end in an array or an error, and nothing else is touched (sanitizers).
TEST(zfp, decodes_any_bytes) {
  for (unsigned seed = 0; seed < 200; ++seed)
    for (const char* const text : {"zfp:rate=9", "zfp:accuracy=0.01", "zfp:reversible"}) {
      const auto c = make_codec(text);
      const array_shape s = seed % 2 ? shape_of<double, 3>({5, 6, 7}) : shape_of<float, 1>({33});
      const auto bytes = random_bits<std::byte>(c->fixed_size(s).value_or(8 + 8 * (seed % 20)), seed);
      std::vector<std::byte> to(s.bytes() + 16, std::byte{0x55});
      try {
        c->decode(s, bytes, std::span(to).first(s.bytes()));
      } catch (const error& e) {
        EXPECT_EQ(e.code(), errc::invalid_data);
      }
      for (std::size_t i = s.bytes(); i < to.size(); ++i) ASSERT_EQ(to[i], std::byte{0x55});
    }
}

#endif

} // namespace
} // namespace tern::global
