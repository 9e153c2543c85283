// SPDX-License-Identifier: Apache-2.0
#include <tern/global/exchange/codec_advice.hpp>

#include <gtest/gtest.h>

namespace tern::global::detail {
namespace {

constexpr codec_advice::element floats{element_kind::float32, 4}, ints{element_kind::integer, 4};
constexpr std::size_t mega = 1'000'000;

TEST(codec_advice, asks_for_nothing_before_it_knows_the_wire) {
  codec_advice a;
  for (int i = 0; i < 200; ++i) EXPECT_FALSE(a.may_pay(1, floats));
  EXPECT_FALSE(a.pays(1, floats, 0.1));
}

TEST(codec_advice, encodes_where_the_wire_is_slow) {
  codec_advice a;
  a.sent(1, mega, 0.1);    // 10 MB/s
  a.sent(2, mega, 0.0005); // 2 GB/s
  a.encoded(floats, mega, 0.002);
  a.decoded(floats, mega, 0.001);
  EXPECT_TRUE(a.may_pay(1, floats));
  EXPECT_TRUE(a.pays(1, floats, 0.8));
  EXPECT_FALSE(a.pays(1, floats, 0.95)); // too little goes
  EXPECT_FALSE(a.may_pay(2, floats));
  EXPECT_FALSE(a.pays(2, floats, 0.1));
  EXPECT_FALSE(a.may_pay(3, floats)); // not known
}

TEST(codec_advice, knows_each_type_of_elements) {
  codec_advice a;
  a.sent(1, mega, 0.1);
  a.encoded(floats, mega, 0.2); // slower than the wire
  EXPECT_FALSE(a.may_pay(1, floats));
  EXPECT_TRUE(a.may_pay(1, ints)); // not known: a sample says
  a.encoded(ints, mega, 0.01);
  a.decoded(ints, mega, 0.3); // the slowest counts
  EXPECT_FALSE(a.may_pay(1, ints));
}

TEST(codec_advice, tries_the_other_way_now_and_then) {
  codec_advice a;
  a.sent(1, mega, 0.0005);
  a.encoded(floats, mega, 0.002);
  int tries = 0;
  for (int i = 0; i < 640; ++i) tries += a.may_pay(1, floats);
  EXPECT_EQ(tries, 10);
  for (int i = 0; i < 8; ++i) a.sent(1, mega, 0.1); // it has become slow
  tries = 0;
  for (int i = 0; i < 640; ++i) tries += a.may_pay(1, floats);
  EXPECT_EQ(tries, 630);
}

TEST(codec_advice, believes_what_it_has_seen) {
  codec_advice a;
  a.sent(1, mega, 0.004);
  a.encoded(floats, mega, 0.002);
  a.decoded(floats, mega, 0.001);
  EXPECT_TRUE(a.may_pay(1, floats));
  EXPECT_TRUE(a.pays(1, floats, 0.5));
  a.sent_encoded(1, floats, mega, 0.02); // they did not go on at once
  EXPECT_FALSE(a.may_pay(1, floats));
  EXPECT_FALSE(a.pays(1, floats, 0.5));
  for (int i = 0; i < 8; ++i) a.sent(1, mega, 0.1); // the wire is slower than that
  EXPECT_TRUE(a.pays(1, floats, 0.5));
}

TEST(codec_advice, takes_the_best_of_the_last_few) {
  codec_advice a;
  a.encoded(floats, mega, 0.01);
  a.sent(1, mega, 0.001);
  a.sent(1, mega, 5); // it waited for something else
  EXPECT_FALSE(a.may_pay(1, floats));
  a.sent(1, 0, 1);
  a.sent(1, mega, 0); // says nothing
  EXPECT_FALSE(a.may_pay(1, floats));
  for (int i = 0; i < 8; ++i) a.sent(1, mega, 5);
  EXPECT_TRUE(a.may_pay(1, floats));
}

} // namespace
} // namespace tern::global::detail
