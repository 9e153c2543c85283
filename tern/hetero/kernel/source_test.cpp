// SPDX-License-Identifier: Apache-2.0
// The text of kernels, as devices' compilers get it.
#include <tern/hetero/kernel.hpp>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/hetero/support/kernels.hpp"
#include <tern/base/error.hpp>
#include <tern/hetero/kernel/prelude.hpp>

namespace tern::hetero {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

struct folder {
  folder() {
    std::string name = (std::filesystem::temp_directory_path() / "tern-kernels-XXXXXX").string();
    path = mkdtemp(name.data());
  }
  ~folder() { std::filesystem::remove_all(path); }
  folder(const folder&) = delete;
  folder& operator=(const folder&) = delete;
  std::filesystem::path path;
};

std::string message_of(errc code, const std::function<void()>& body) {
  try {
    body();
  } catch (const error& e) {
    EXPECT_EQ(e.code(), code) << e.message();
    return e.message() + " | " + e.hint();
  }
  return "nothing was thrown";
}

TEST(source, is_the_lines_between_the_markers) {
  const std::string text = text_of(test_kernels::axpy.source());
  EXPECT_THAT(text, StartsWith("#line "));
  EXPECT_THAT(text, HasSubstr("kernels.hpp\"\n\n/* #-directives"));
  EXPECT_THAT(text, HasSubstr("TERN_KERNEL(axpy, int n, double a,"));
  EXPECT_THAT(text, testing::EndsWith("#undef TILE\n"));
  EXPECT_THAT(text, Not(HasSubstr("TERN_KERNELS_BEGIN")));
  EXPECT_THAT(text, Not(HasSubstr("#include")));
  EXPECT_EQ(std::string(test_kernels::axpy.name), "axpy");
  EXPECT_EQ(&test_kernels::axpy.source(), &test_kernels::who.source());
}

TEST(source, comes_after_the_dialects_definitions) {
  for (const auto l : {detail::language::opencl, detail::language::cuda}) {
    const std::string all = detail::device_source(test_kernels::axpy.source(), l);
    EXPECT_THAT(all, StartsWith(std::string(detail::prelude(l))));
    EXPECT_THAT(all, HasSubstr(text_of(test_kernels::axpy.source())));
    if (l == detail::language::opencl) {
      EXPECT_THAT(all, testing::EndsWith(text_of(test_kernels::axpy.source())));
    }
    for (const char* word : {"TERN_KERNEL(", "TERN_KERNEL_FIXED(", "TERN_REGION ", "TERN_REGION_IN(", "TERN_SHARED(",
                             "TERN_DYNAMIC(", "TERN_PRIVATE(", "TERN_MY(", "TERN_FN ", "TERN_GROUP_REDUCE("})
      EXPECT_THAT(all, HasSubstr(std::string("#define ") + word));
  }
}

// As with TERN_KERNELS_AT_RUN_TIME.
TEST(source, may_be_read_when_it_is_needed) {
  const folder here;
  const std::string file = (here.path / "some.hpp").string();
  std::ofstream(file) << "one\nTERN_KERNELS_BEGIN\nthree\nfour\nTERN_KERNELS_END\nsix\n";
  const source_block block{"some", file.c_str(), nullptr, nullptr, 2, 5};
  EXPECT_EQ(text_of(block), "#line 3 \"" + file + "\"\nthree\nfour\n");

  const source_block moved{"some", "/nowhere/at/all/some.hpp", nullptr, nullptr, 2, 5};
  EXPECT_THAT(
      message_of(errc::io, [&] { (void)text_of(moved); }),
      testing::AllOf(HasSubstr("'some' cannot be read from /nowhere/at/all/some.hpp"), HasSubstr("TERN_KERNEL_PATH")));
  ::setenv("TERN_KERNEL_PATH", (":/nothing:" + here.path.string()).c_str(), 1);
  EXPECT_EQ(text_of(moved), "#line 3 \"/nowhere/at/all/some.hpp\"\nthree\nfour\n");
  ::unsetenv("TERN_KERNEL_PATH");

  const source_block shorter{"some", file.c_str(), nullptr, nullptr, 2, 50};
  EXPECT_THAT(message_of(errc::invalid_data, [&] { (void)text_of(shorter); }),
              testing::AllOf(HasSubstr("stood in lines 2 to 50"), HasSubstr("compile it again")));
}

} // namespace
} // namespace tern::hetero
