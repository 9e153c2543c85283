// SPDX-License-Identifier: Apache-2.0
#include <tern/global/coding/codec_advice.hpp>

#include <gtest/gtest.h>

namespace tern::global::detail {
namespace {

using answer = codec_advice::answer;

const codec_advice::element floats{element_kind::float32, 4, "zstd"}, ints{element_kind::integer, 4, "zstd"};
constexpr std::size_t mega = 1'000'000;

codec_advice::route to(int peer) { return {peer, way::exchange}; }
bool asks_sample(codec_advice& a, int peer, const codec_advice::element& of) {
  return a.ask(to(peer), of) == answer::sample;
}

TEST(codec_advice, asks_for_nothing_before_it_knows_the_wire) {
  codec_advice a;
  for (int i = 0; i < 200; ++i) EXPECT_FALSE(asks_sample(a, 1, floats));
  EXPECT_FALSE(a.pays(to(1), floats, 0.1));
}

TEST(codec_advice, encodes_where_the_wire_is_slow) {
  codec_advice a;
  a.sent(to(1), mega, 0.1);    // 10 MB/s
  a.sent(to(2), mega, 0.0005); // 2 GB/s
  a.encoded(floats, mega, 0.002);
  a.decoded(floats, mega, 0.001);
  EXPECT_TRUE(asks_sample(a, 1, floats));
  EXPECT_TRUE(a.pays(to(1), floats, 0.8));
  EXPECT_FALSE(a.pays(to(1), floats, 0.95)); // too little goes
  EXPECT_FALSE(asks_sample(a, 2, floats));
  EXPECT_FALSE(a.pays(to(2), floats, 0.1));
  EXPECT_FALSE(asks_sample(a, 3, floats)); // not known
}

TEST(codec_advice, knows_each_type_of_elements) {
  codec_advice a;
  a.sent(to(1), mega, 0.1);
  a.encoded(floats, mega, 0.2); // slower than the wire
  EXPECT_FALSE(asks_sample(a, 1, floats));
  EXPECT_TRUE(asks_sample(a, 1, ints)); // not known: a sample says
  a.encoded(ints, mega, 0.01);
  a.decoded(ints, mega, 0.3); // the slowest counts
  EXPECT_FALSE(asks_sample(a, 1, ints));
}

TEST(codec_advice, tries_the_other_way_now_and_then) {
  codec_advice a;
  a.sent(to(1), mega, 0.0005);
  a.encoded(floats, mega, 0.002);
  int tries = 0;
  for (int i = 0; i < 640; ++i) tries += asks_sample(a, 1, floats);
  EXPECT_EQ(tries, 10);
  for (int i = 0; i < 8; ++i) a.sent(to(1), mega, 0.1); // it has become slow
  tries = 0;
  for (int i = 0; i < 640; ++i) tries += asks_sample(a, 1, floats);
  EXPECT_EQ(tries, 630);
}

TEST(codec_advice, believes_what_it_has_seen) {
  codec_advice a;
  a.sent(to(1), mega, 0.004);
  a.encoded(floats, mega, 0.002);
  a.decoded(floats, mega, 0.001);
  EXPECT_TRUE(asks_sample(a, 1, floats));
  EXPECT_TRUE(a.pays(to(1), floats, 0.5));
  a.sent_encoded(to(1), floats, mega, 0.02); // they did not go on at once
  EXPECT_FALSE(asks_sample(a, 1, floats));
  EXPECT_FALSE(a.pays(to(1), floats, 0.5));
  for (int i = 0; i < 8; ++i) a.sent(to(1), mega, 0.1); // the wire is slower than that
  EXPECT_TRUE(a.pays(to(1), floats, 0.5));
}

TEST(codec_advice, measures_what_it_does_not_know) {
  codec_advice a;
  EXPECT_EQ(a.ask(to(1), floats), answer::measure);
  a.sent(to(1), mega, 0.0005);
  a.encoded(floats, mega, 0.002);
  EXPECT_EQ(a.ask(to(1), floats), answer::raw);
  EXPECT_EQ(a.ask({1, way::memory}, floats), answer::measure); // another way to the same peer
  a.sent({1, way::memory}, mega, 0.1);
  EXPECT_EQ(a.ask({1, way::memory}, floats), answer::sample);
  EXPECT_EQ(a.ask(to(1), floats), answer::raw);
  int measures = 0;
  for (int i = 0; i < 640; ++i) measures += a.ask({1, way::memory}, floats) == answer::measure;
  EXPECT_EQ(measures, 10); // it may have become quick
}

TEST(codec_advice, knows_each_codec) {
  codec_advice a;
  a.sent(to(1), mega, 0.01);
  const codec_advice::element by_zfp{element_kind::float32, 4, "zfp:rate=8"};
  a.encoded(floats, mega, 0.1);
  EXPECT_FALSE(a.pays(to(1), floats, 0.25));
  EXPECT_TRUE(a.pays(to(1), by_zfp, 0.25));
}

// Encoding took long once, while something else had the processors.
TEST(codec_advice, forgets_an_outcome_when_it_tries_again) {
  codec_advice a;
  a.sent(to(1), mega, 0.1);
  a.encoded(floats, mega, 0.01);
  a.sent_encoded(to(1), floats, mega, 1);
  EXPECT_FALSE(a.pays(to(1), floats, 0.5));
  for (int i = 0; i < 64; ++i) static_cast<void>(a.ask(to(1), floats));
  EXPECT_TRUE(a.pays(to(1), floats, 0.5));
}

TEST(codec_advice, takes_the_best_of_the_last_few) {
  codec_advice a;
  a.encoded(floats, mega, 0.01);
  a.sent(to(1), mega, 0.001);
  a.sent(to(1), mega, 5); // it waited for something else
  EXPECT_FALSE(asks_sample(a, 1, floats));
  a.sent(to(1), 0, 1);
  a.sent(to(1), mega, 0); // says nothing
  EXPECT_FALSE(asks_sample(a, 1, floats));
  for (int i = 0; i < 8; ++i) a.sent(to(1), mega, 5);
  EXPECT_TRUE(asks_sample(a, 1, floats));
}

} // namespace
} // namespace tern::global::detail
