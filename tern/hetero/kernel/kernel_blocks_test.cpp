// SPDX-License-Identifier: Apache-2.0
// Blocks of kernels, found in files.
#include <tern/hetero/kernel/kernel_blocks.hpp>

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <tern/base/error.hpp>

#include "child.hpp"

namespace tern::hetero::detail {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::string text_of_error(const std::string& file) {
  try {
    blocks_in(file);
  } catch (const error& e) {
    return e.what();
  }
  return "nothing was thrown";
}

TEST(kernel_blocks, are_found_by_their_markers) {
  const test::temporary here;
  const std::string file = here.write("some.cpp", "#include <tern/tern.hpp>\n"
                                                  "TERN_KERNELS_BEGIN(first)\n"
                                                  "TERN_KERNEL(one, int n) {}\n"
                                                  "// TERN_KERNEL(not_this) {}\n"
                                                  "  TERN_KERNEL_FIXED( two , 8, 8, 1, int n) {}\n"
                                                  "TERN_KERNELS_END(first)\n"
                                                  "TERN_KERNEL(outside) {}\n"
                                                  "/// TERN_KERNELS_BEGIN(comment)\n"
                                                  "#define TERN_KERNELS_BEGIN(macro)\n"
                                                  "\tTERN_KERNELS_BEGIN (second)\n"
                                                  "MAKE_KERNELS\n"
                                                  "\tTERN_KERNELS_END (second)\n");
  const auto all = blocks_in(file);
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].name, "first");
  EXPECT_EQ(all[0].file, file);
  EXPECT_EQ(all[0].first, 2);
  EXPECT_EQ(all[0].last, 6);
  EXPECT_THAT(all[0].kernels, ElementsAre("one", "two"));
  EXPECT_EQ(all[1].name, "second");
  EXPECT_THAT(all[1].kernels, IsEmpty());
  EXPECT_EQ(text_of(all[1].as_source()), "#line 11 \"" + file + "\"\nMAKE_KERNELS\n");
}

// Macros whose parameters have one name: what CUDA is told of a name must stand there once.
TEST(kernel_blocks, names_are_there_once) {
  EXPECT_THAT(kernels_in("#define ONE(name) \\\n  TERN_KERNEL(name, int n) {}\n"
                         "#define TWO(name) \\\n  TERN_KERNEL(name, float n) {}\nTERN_KERNEL(other) {}\n"),
              ElementsAre("name", "other"));
}

TEST(kernel_blocks, a_file_without_them) {
  const test::temporary here;
  EXPECT_THAT(blocks_in(here.write("none.cpp", "int main() {}\n")), IsEmpty());
}

TEST(kernel_blocks, what_is_wrong_is_said) {
  const test::temporary here;
  EXPECT_THAT(text_of_error("/no/such/file.cpp"),
              HasSubstr("cannot read /no/such/file.cpp: No such file or directory"));
  EXPECT_THAT(text_of_error(here.path), HasSubstr(": it is a folder"));
  const std::string file =
      here.write("open.cpp", "\nTERN_KERNELS_BEGIN(a)\nTERN_KERNELS_BEGIN(b)\nTERN_KERNELS_END(b)\n");
  EXPECT_THAT(text_of_error(file), HasSubstr(file + ":2: the kernels 'a' do not end: there is no TERN_KERNELS_END(a) "
                                                    "below; each marker begins a line"));
}

} // namespace
} // namespace tern::hetero::detail
