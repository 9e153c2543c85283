// SPDX-License-Identifier: Apache-2.0
// Round trips of single values, arrays, buffers and views.
#include "archive_shapes.hpp"

#include <cmath>
#include <complex>

namespace {

TEST(archive, numbers) {
  EXPECT_ROUND_TRIP(42);
  EXPECT_ROUND_TRIP(static_cast<signed char>(-1));
  EXPECT_ROUND_TRIP('x');
  EXPECT_ROUND_TRIP(L'x');
  EXPECT_ROUND_TRIP(std::uint64_t{1} << 63);
  EXPECT_ROUND_TRIP(-0.5f);
  EXPECT_ROUND_TRIP(3.25L);
  EXPECT_ROUND_TRIP(true);
  EXPECT_ROUND_TRIP(std::byte{7});
  EXPECT_ROUND_TRIP(shapes::colour::green);
  EXPECT_ROUND_TRIP(shapes::two);
  EXPECT_ROUND_TRIP(shapes::truth::yes);
  EXPECT_TRUE(std::isnan(shapes::through(std::nan(""))));
  EXPECT_EQ(tern::packed_size(std::int32_t{}, std::int8_t{}, 1.0), 13u);
}

TEST(archive, arrays) {
  EXPECT_ROUND_TRIP(std::array<int, 3>{1, 2, 3});
  EXPECT_ROUND_TRIP(std::array<std::string, 2>{"a", "bc"});
  EXPECT_ROUND_TRIP(std::array<bool, 2>{true, false});
  EXPECT_ROUND_TRIP(std::array<int, 0>{});
  EXPECT_EQ(tern::packed_size(std::array<int, 0>{}), 0u);
  int from[2][2] = {{1, 2}, {3, 4}}, to[2][2] = {};
  tern::unpack_into(tern::pack(from), to);
  EXPECT_EQ(to[1][0], 3);
  EXPECT_EQ(tern::packed_size(from), sizeof from);
  std::string words[2] = {"x", "yz"}, loaded[2];
  tern::unpack_into(tern::pack(words), loaded);
  EXPECT_EQ(loaded[1], "yz");
  char text[4] = {};
  tern::unpack_into(tern::pack("abc"), text);
  EXPECT_STREQ(text, "abc");
}

TEST(archive, values) {
  EXPECT_ROUND_TRIP(std::pair<int, std::string>{1, "x"});
  EXPECT_ROUND_TRIP(std::tuple<int, std::string, double>{1, "x", 2.5});
  EXPECT_ROUND_TRIP(std::tuple<>{});
  EXPECT_ROUND_TRIP(std::optional<int>{});
  EXPECT_ROUND_TRIP(std::optional<std::string>{"x"});
  EXPECT_ROUND_TRIP(std::optional<std::optional<int>>{std::optional<int>{}});
  using choice = std::variant<std::monostate, int, std::string, std::vector<int>>;
  for (const choice& c : {choice{}, choice{7}, choice{"x"}, choice{std::vector<int>{1}}}) EXPECT_ROUND_TRIP(c);
  EXPECT_ROUND_TRIP(std::complex<double>(1, -2));
  EXPECT_ROUND_TRIP(std::vector<std::complex<float>>{{1, 2}, {3, 4}});
  EXPECT_ROUND_TRIP(std::chrono::milliseconds(1500));
  EXPECT_ROUND_TRIP(std::chrono::duration<double>(1.5));
  EXPECT_ROUND_TRIP(std::chrono::steady_clock::time_point(std::chrono::seconds(3)));
}

TEST(archive, buffers_spans_and_views) {
  const std::string text = "hello";
  const auto bytes = tern::pack(text);
  EXPECT_EQ(tern::pack(std::string_view(text)), bytes);
  EXPECT_EQ(tern::pack(std::span<const char>(text.data(), text.size())), bytes);
  const std::vector<std::string> words{"a", "b"};
  EXPECT_EQ(tern::unpack<std::vector<std::string>>(tern::pack(std::span(words))), words);
  const auto nested = tern::unpack<tern::byte_buffer>(tern::pack(bytes));
  EXPECT_EQ(nested, bytes);
  EXPECT_TRUE(tern::unpack<tern::byte_buffer>(tern::pack(tern::byte_buffer())).empty());
}

} // namespace
