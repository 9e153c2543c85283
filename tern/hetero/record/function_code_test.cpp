// SPDX-License-Identifier: Apache-2.0
// Names of functions in models.
#include <tern/hetero/record/function_code.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tern::hetero::detail {

struct doubles_it {
  int operator()(int x) const { return 2 * x; }
};
template <class T> struct of_a_template {
  void operator()(T) const {}
};
auto lambda_with_a_number(int n) {
  return [n](const int& x) { return n * x; };
}

namespace {

template <class F> std::string name_of(const F&) {
  const kernel_code* const code = code_of_function<F>();
  return code ? code->name : "";
}

TEST(function_code, has_the_name_of_its_type) {
  EXPECT_EQ(name_of(doubles_it()), "tern::hetero::detail::doubles_it");
  EXPECT_EQ(name_of(of_a_template<int>()), "tern::hetero::detail::of_a_template<int>");
  EXPECT_THAT(name_of(lambda_with_a_number(1)), // "{lambda#1}", or as clang calls it "$_0"
              testing::AllOf(testing::HasSubstr("::lambda_with_a_number::"), testing::Not(testing::HasSubstr("("))));
}

TEST(function_code, tells_functions_apart) {
  const auto one = [](int x) { return x; };
  const auto other = [](int x) { return x; };
  const kernel_code *const a = code_of_function<decltype(one)>(), *const b = code_of_function<decltype(other)>();
  ASSERT_TRUE(a && b);
  EXPECT_NE(a->text, b->text);
  EXPECT_EQ(a, code_of_function<decltype(one)>());
  EXPECT_EQ(a->form, code_form::function);
}

TEST(function_code, there_is_none_for_types_that_functions_share) {
  EXPECT_EQ(code_of_function<int (*)(int)>(), nullptr);
  EXPECT_EQ(code_of_function<std::function<int(int)>>(), nullptr);
}

} // namespace
} // namespace tern::hetero::detail
