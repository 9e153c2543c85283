// SPDX-License-Identifier: Apache-2.0
#include <tern/net/handler.hpp>

#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <tern/net/message.hpp>

namespace handler_test {
int free_function(int x) { return x; }
struct some {
  static void member() {}
};
} // namespace handler_test

namespace tern::net {
namespace {

TEST(handler, names_read_as_the_user_wrote_them) {
  EXPECT_EQ(detail::function_handler<&handler_test::free_function>.name(), "handler_test::free_function");
  EXPECT_EQ(detail::function_handler<&handler_test::some::member>.name(), "handler_test::some::member");
  EXPECT_THAT(std::string(detail::function_handler<&handler_test::some::member>.file()),
              testing::HasSubstr("handler_test.cpp"));
}

TEST(handler, table_is_dense_and_has_no_name_twice) {
  handler_table::freeze();
  ASSERT_GE(handler_table::size(), 5u); // three of the runtime, two of this file
  std::set<const handler_record*> seen;
  for (std::uint32_t i = 0; i < handler_table::size(); ++i) {
    EXPECT_EQ(handler_table::at(i).id(), i);
    seen.insert(&handler_table::at(i));
  }
  EXPECT_EQ(seen.size(), handler_table::size());
  EXPECT_EQ(handler_table::at(detail::function_handler<&handler_test::free_function>.id()).name(),
            "handler_test::free_function");
  const auto print = handler_table::fingerprint();
  handler_table::freeze(); // again: changes nothing
  EXPECT_EQ(handler_table::fingerprint(), print);
}

TEST(handler, parameters_that_cannot_travel_are_seen_at_compile_time) {
  static_assert(detail::can_travel<int> && detail::can_travel<const std::string&> && detail::can_travel<std::string&&>);
  static_assert(!detail::can_travel<int&> && !detail::can_travel<const char*> && !detail::can_travel<int* const&>);
  static_assert(std::is_same_v<detail::travels<std::span<const double>>::type, detail::range_view<double>>);
  static_assert(std::is_same_v<detail::travels<std::span<const std::string>>::type, std::vector<std::string>>);
  static_assert(std::is_same_v<detail::travels<const std::string&>::type, std::string>);
}

} // namespace
} // namespace tern::net
