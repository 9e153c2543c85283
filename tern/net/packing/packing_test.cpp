// SPDX-License-Identifier: Apache-2.0
// Messages that claim what is not so. (tests/fuzz tries more of them.)
#include <tern/net/packing/packing.hpp>

#include <span>
#include <string>
#include <tuple>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <tern/net/message.hpp>

namespace tern::net::detail {
namespace {

using testing::HasSubstr;

template <class... P> std::string refusal(const byte_buffer& arguments, std::size_t body) {
  payload message{byte_buffer(sizeof(wire_header)), byte_buffer(body)};
  message.bytes.append(arguments);
  try {
    static_cast<void>(unpack_call<typename signature<void, P...>::arguments>(message));
  } catch (const error& e) {
    EXPECT_EQ(e.code(), errc::invalid_data);
    return e.what();
  }
  return "accepted";
}
constexpr std::uint64_t in_body(std::uint64_t n) { return n << 1 | 1; }

TEST(packing, a_body_is_one_range) {
  using view = std::span<const double>;
  EXPECT_EQ(refusal<view>(pack(in_body(2)), 16), "accepted");
  EXPECT_EQ((refusal<view, buffer<double>>(pack(std::uint64_t{0}, in_body(2)), 16)), "accepted");
  // The buffer would own what the view looks at, and a handler may destroy the one before it reads
  // the other.
  EXPECT_THAT((refusal<view, buffer<double>>(pack(in_body(2), in_body(2)), 16)), HasSubstr("two of its ranges"));
  EXPECT_THAT((refusal<view, view>(pack(in_body(2), in_body(2)), 16)), HasSubstr("two of its ranges"));
}

TEST(packing, a_body_belongs_to_a_range) {
  EXPECT_THAT(refusal<int>(pack(1), 16), HasSubstr("none of its ranges"));
  EXPECT_THAT(refusal<std::span<const double>>(pack(std::uint64_t{0}), 16), HasSubstr("none of its ranges"));
  EXPECT_EQ(refusal<int>(pack(1), 0), "accepted");
}

TEST(packing, a_body_has_the_size_that_is_announced) {
  EXPECT_THAT(refusal<std::span<const double>>(pack(in_body(3)), 16), HasSubstr("3 elements, but it has 16 bytes"));
  EXPECT_THAT(refusal<std::span<const double>>(pack(in_body(2)), 17), HasSubstr("2 elements, but it has 17 bytes"));
  EXPECT_THAT(refusal<buffer<double>>(pack(~std::uint64_t{0}), 16), HasSubstr("but it has 16 bytes"));
}

} // namespace
} // namespace tern::net::detail
