// SPDX-License-Identifier: Apache-2.0
// The text of a kernel that takes the arguments of several launches.
#include <algorithm>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <tern/hetero/device/opencl/fused_text.hpp>

namespace tern::hetero::detail {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(fused_text, gives_each_launch_parameters_of_its_own) {
  const std::string block = "TERN_KERNEL(first, int n) { n = 0; }\n"
                            "TERN_KERNEL(add, int n, TERN_GLOBAL const double* TERN_RESTRICT x) { use(n, x); }\n";
  const auto text = fused_text(block, "add", 2);
  ASSERT_TRUE(text);
  EXPECT_EQ(*text, "TERN_KERNEL(first, int n) { n = 0; }\n"
                   "__kernel void tern_fused_add(__local char* tern_dynamic, int tern_of0_n, TERN_GLOBAL const double* "
                   "TERN_RESTRICT tern_of0_x, int tern_of1_n, TERN_GLOBAL const double* TERN_RESTRICT tern_of1_x) "
                   "{ const int tern_launch = (int)get_group_id(2); (void)tern_launch; int n = (tern_launch < 1 ? "
                   "tern_of0_n : tern_of1_n); TERN_GLOBAL const double* TERN_RESTRICT x = (tern_launch < 1 ? "
                   "tern_of0_x : tern_of1_x); use(n, x); }\n");
}

TEST(fused_text, keeps_lines_and_the_size_of_groups) {
  const std::string block = "// TERN_KERNEL(turn, int a) {\n"
                            "  TERN_KERNEL_FIXED(turn, A * (1), 2, 1, int a, /* a, b */ float\n"
                            "    b, // the last\n"
                            "    TERN_GLOBAL\n    int* c)\n  {\n  int d;\n  }\n";
  const auto text = fused_text(block, "turn", 3);
  ASSERT_TRUE(text);
  EXPECT_EQ(std::count(text->begin(), text->end(), '\n'), std::count(block.begin(), block.end(), '\n'));
  EXPECT_THAT(*text, HasSubstr("__attribute__((reqd_work_group_size(A * (1), 2, 1)))"));
  EXPECT_THAT(*text, HasSubstr("float tern_of2_b, TERN_GLOBAL     int* tern_of2_c)"));
  EXPECT_THAT(*text, HasSubstr("\n  int d;\n"));
  EXPECT_THAT(*text, Not(HasSubstr("the last")));
}

TEST(fused_text, is_that_of_what_takes_nothing) {
  const auto text = fused_text("TERN_KERNEL(nothing) {}", "nothing", 8);
  ASSERT_TRUE(text);
  EXPECT_THAT(*text, HasSubstr("tern_fused_nothing(__local char* tern_dynamic) { const int tern_launch"));
}

TEST(fused_text, is_none_where_the_text_does_not_say_what_parameters_are) {
  for (const char* block : {
           "", "TERN_KERNEL(other, int n) {}",
           "TERN_KERNEL(k, NUMBERS) {}",                                  // a macro
           "TERN_KERNEL(k, POINTER(int, n)) {}",                          // again
           "TERN_KERNEL(k, TERN_GLOBAL int n[]) {}",                      // as C has them, too
           "TERN_KERNEL(k, int n) BODY",                                  // its body is one
           "TERN_KERNEL(k, int n {",                                      // it does not end
           "TERN_KERNEL(k, int n,\n#ifdef A\nint m\n#endif\n) {}",        // not what it always is
           "TERN_KERNEL(k, int n) {}\nTERN_KERNEL(k, float n) {}",        // one of both, by #if
           "#define K(k) TERN_KERNEL(k, int n) {}\nK(k)",                 // not at the beginning of a line
           "int b; TERN_KERNEL(k, int n) {}",                             // as for other tools
           "/* TERN_KERNEL(k, int n) {} */ const char* s = \"\\\"\\n\";", // no kernel
       })
    EXPECT_FALSE(fused_text(block, "k", 2)) << block;
}

} // namespace
} // namespace tern::hetero::detail
