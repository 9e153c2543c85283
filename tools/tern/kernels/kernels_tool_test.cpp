// SPDX-License-Identifier: Apache-2.0
/// \file
/// `tern kernels check` and `tern kernels ptx` from outside: what they say of files, and their exit
/// codes.
#include "child.hpp"
#include "tools/tern/launch/process.hpp"

#include <fstream>
#include <iterator>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace {

using tern::test::finished;
using tern::test::strings;
using tern::test::temporary;
using tern::test::variables;
using testing::AllOf;
using testing::HasSubstr;
using testing::MatchesRegex;
using testing::Not;

/// No driver of OpenCL's, no NVRTC: clang is what is left.
const variables bare{{"OCL_ICD_VENDORS", "/no/such/folder"}, {"TERN_CUDA_LIBRARIES", "/none:/no/such/libnvrtc.so"}};

finished check(strings arguments, const variables& environment = {}) {
  arguments.insert(arguments.begin(), {TERN_TOOL_PATH, "kernels", "check"});
  return tern::test::run(arguments, 50, {.environment = environment});
}

bool there_is_clang() {
  return tern::tool::look_for_program("clang-19").has_value() || tern::tool::look_for_program("clang").has_value();
}

constexpr const char* good = "#include <tern/hetero/dialect.hpp>\n"
                             "TERN_KERNELS_BEGIN(first)\n"
                             "TERN_KERNEL(fill, int n, TERN_GLOBAL int* x) {\n"
                             "  TERN_REGION_IN(n, 1, 1) { x[item.x] = 1; };\n"
                             "}\n"
                             "TERN_KERNEL_FIXED(turn, 8, 8, 1, TERN_GLOBAL int* x) {\n"
                             "  TERN_REGION { x[item.x] = 2; };\n"
                             "}\n"
                             "TERN_KERNELS_END(first)\n"
                             "TERN_KERNELS_BEGIN(second)\n"
                             "TERN_KERNEL(nothing) {}\n"
                             "TERN_KERNELS_END(second)\n";
// Right in C++, and so on the host and in CUDA.
constexpr const char* wrong_in_opencl = "\n"
                                        "TERN_KERNELS_BEGIN(third)\n"
                                        "TERN_FN int first_of(const int* x) { return x[0]; }\n"
                                        "TERN_KERNEL(copy, TERN_GLOBAL const int* x, TERN_GLOBAL int* y) {\n"
                                        "  TERN_REGION { y[item.x] = first_of(x); };\n"
                                        "}\n"
                                        "TERN_KERNELS_END(third)\n";
constexpr const char* wrong_everywhere = "TERN_KERNELS_BEGIN(fourth)\n"
                                         "TERN_KERNEL(copy, TERN_GLOBAL int* y) {\n"
                                         "  TERN_REGION { y[item.x] = no_such_word; };\n"
                                         "}\n"
                                         "TERN_KERNELS_END(fourth)\n";

class kernels_check : public testing::Test {
protected:
  void SetUp() override {
    if (!there_is_clang()) GTEST_SKIP() << "there is no clang";
  }
  const temporary here;
};

TEST_F(kernels_check, says_what_was_checked_with_what) {
  const std::string file = here.write("good.cpp", good);
  const finished f = check({file}, bare);
  EXPECT_EQ(f.code, 0) << f.err;
  EXPECT_THAT(f.out, MatchesRegex(file + "\n"
                                         "  first \\(lines 2 to 9\\): fill, turn\n"
                                         "    opencl  ok      clang [0-9.]+\n"
                                         "    cuda    ok      clang [0-9.]+\n"
                                         "  second \\(lines 10 to 12\\): nothing\n"
                                         "    opencl  ok      clang [0-9.]+\n"
                                         "    cuda    ok      clang [0-9.]+\n"));
  EXPECT_EQ(f.err, "");
}

TEST_F(kernels_check, names_the_files_own_line) {
  const std::string file = here.write("wrong.cpp", wrong_in_opencl);
  const finished f = check({file}, bare);
  EXPECT_EQ(f.code, 1);
  EXPECT_THAT(f.out, AllOf(HasSubstr("    opencl  error   clang "), HasSubstr("    cuda    ok      clang ")));
  EXPECT_THAT(f.err,
              AllOf(HasSubstr("the kernels 'third' (" + file + ") do not compile for OpenCL (clang "),
                    HasSubstr("\n" + file + ":5:"), HasSubstr("error: passing "),
                    HasSubstr("\nthe lines named are that file's; docs/concepts/kernels.md says what a kernel may "
                              "contain\n")));
}

TEST_F(kernels_check, of_several_files_each_is_told) {
  const std::string a = here.write("a.cpp", good), b = here.write("b.cpp", wrong_in_opencl),
                    c = here.write("c.cpp", wrong_everywhere);
  const finished f = check({a, b, c}, bare);
  EXPECT_EQ(f.code, 1);
  EXPECT_THAT(f.out, AllOf(HasSubstr(a + "\n  first ("), HasSubstr(b + "\n  third ("), HasSubstr(c + "\n  fourth (")));
  EXPECT_THAT(f.err, AllOf(HasSubstr("do not compile for OpenCL ("),
                           HasSubstr("'fourth' (" + c + ") do not compile for CUDA ("),
                           HasSubstr(c + ":3:29: error: use of undeclared identifier 'no_such_word'")));
  EXPECT_EQ(check({a, a}, bare).code, 0);
}

// What programs use when they run, if it is here, says the same.
TEST_F(kernels_check, uses_the_drivers_of_the_machine) {
  const std::string file = here.write("wrong.cpp", wrong_in_opencl);
  const finished f = check({file});
  EXPECT_EQ(f.code, 1);
  EXPECT_THAT(f.out, HasSubstr("    opencl  error   "));
  EXPECT_THAT(f.err,
              AllOf(HasSubstr("the kernels 'third' (" + file + ") do not compile for "), HasSubstr(file + ":5:")));
}

TEST_F(kernels_check, uses_nvrtc) {
  const temporary folder;
  const std::string a = folder.write("a.cpp", good), c = folder.write("c.cpp", wrong_everywhere);
  variables with = bare;
  with["TERN_CUDA_LIBRARIES"] = "/none:" TERN_MOCK_NVRTC;
  const finished right = check({a}, with);
  EXPECT_EQ(right.code, 0) << right.err;
  EXPECT_THAT(right.out, HasSubstr("    cuda    ok      NVRTC "));
  const finished wrong = check({c}, with);
  EXPECT_EQ(wrong.code, 1);
  EXPECT_THAT(wrong.err, AllOf(HasSubstr("the kernels 'fourth' (" + c + ") cannot be compiled for compute capability "),
                               HasSubstr("no_such_word")));
}

TEST(kernels_check_tool, what_cannot_be_checked_is_absent) {
  const temporary here;
  const std::string file = here.write("good.cpp", good);
  variables nothing = bare;
  nothing["PATH"] = "/no/such/folder";
  finished f = check({file}, nothing);
  EXPECT_EQ(f.code, 2);
  EXPECT_THAT(f.out,
              AllOf(HasSubstr("    opencl  absent  no OpenCL devices: "), HasSubstr("; clang is not in PATH\n"),
                    HasSubstr("    cuda    absent  kernels cannot be compiled for CUDA: NVRTC cannot be opened (")));
  EXPECT_EQ(f.err, "tern: nothing here compiles kernels for devices: install pocl-opencl-icd or clang\n");
  f = check({"--if-possible", file}, nothing);
  EXPECT_EQ(f.code, 0);
  EXPECT_THAT(f.err, HasSubstr("nothing here compiles kernels"));
}

TEST(kernels_check_tool, files_without_kernels_and_no_files) {
  const temporary here;
  const std::string none = here.write("none.cpp", "int main() {}\n"),
                    open = here.write("open.cpp", "TERN_KERNELS_BEGIN(a)\n");
  finished f = check({none});
  EXPECT_EQ(f.code, 2);
  EXPECT_EQ(f.err, "tern: no kernels in " + none + ": there is no line that begins with TERN_KERNELS_BEGIN\n");
  f = check({"--if-possible", none});
  EXPECT_EQ(f.code, 0);
  EXPECT_EQ(f.out + f.err, "");
  f = check({"/no/such/file.cpp"});
  EXPECT_EQ(f.code, 2);
  EXPECT_EQ(f.err, "tern: cannot read /no/such/file.cpp: No such file or directory\n");
  f = check({open});
  EXPECT_EQ(f.code, 1);
  EXPECT_EQ(f.err, "tern: " + open +
                       ":1: the kernels 'a' do not end: there is no TERN_KERNELS_END(a) below; each marker "
                       "begins a line\n");
  f = check({});
  EXPECT_EQ(f.code, 2);
  EXPECT_THAT(f.err, Not(HasSubstr("terminate")));
}

// PTX -----------------------------------------------------------------------------------------------------------------

finished ptx(strings arguments, const variables& environment = {}) {
  arguments.insert(arguments.begin(), {TERN_TOOL_PATH, "kernels", "ptx"});
  return tern::test::run(arguments, 50, {.environment = environment});
}

class kernels_ptx : public kernels_check {
protected:
  std::string written(const std::string& file) const {
    std::ifstream in(file);
    return {std::istreambuf_iterator<char>(in), {}};
  }
};

TEST_F(kernels_ptx, each_block_is_compiled_twice_in_both_forms_and_registered) {
  const std::string file = here.write("good.cpp", good), to = here.write("made.cpp", "");
  const finished f = ptx({"-o", to, file});
  EXPECT_EQ(f.code, 0) << f.err;
  const std::string made = written(to);
  EXPECT_THAT(made, AllOf(HasSubstr("#include <tern/hetero/kernel/device_code.hpp>"), HasSubstr(".target sm_70"),
                          HasSubstr(".version 6.0"), HasSubstr(".visible .entry tern_kernel_turn("),
                          HasSubstr(".visible .entry tern_fused_turn("), HasSubstr("made_8({\"second\", {0x"),
                          Not(HasSubstr("made_9"))));
}

TEST_F(kernels_ptx, what_only_nvrtc_has_is_told_and_left_out) {
  const std::string file = here.write("erf.cpp", "TERN_KERNELS_BEGIN(fifth)\n"
                                                 "TERN_KERNEL(error, TERN_GLOBAL double* y) {\n"
                                                 "  TERN_REGION { y[item.x] = erf(y[item.x]) + sin(y[item.x]); };\n"
                                                 "}\n"
                                                 "TERN_KERNELS_END(fifth)\n"),
                    to = here.write("made.cpp", "");
  const finished f = ptx({"-o", to, file});
  EXPECT_EQ(f.code, 0) << f.err;
  EXPECT_THAT(f.err,
              HasSubstr(file + ":1: the kernels 'fifth' have no PTX in the program, as they call erf, which only "
                               "NVRTC has"));
  EXPECT_THAT(written(to), Not(HasSubstr(".version")));
}

TEST_F(kernels_ptx, errors_name_the_line_and_the_clang) {
  const std::string file = here.write("wrong.cpp", wrong_everywhere), to = here.write("made.cpp", "");
  const finished wrong = ptx({"-o", to, file});
  EXPECT_EQ(wrong.code, 1);
  EXPECT_THAT(wrong.err, AllOf(HasSubstr("the kernels 'fourth' (" + file + ") do not compile for CUDA (clang "),
                               HasSubstr(file + ":3:"), HasSubstr("no_such_word")));
  const std::string right = here.write("good.cpp", good);
  const finished none = ptx({"-o", to, "--clang", "/no/such/clang", right});
  EXPECT_EQ(none.code, 2);
  EXPECT_THAT(none.err, HasSubstr("there is no /no/such/clang"));
  const finished other = ptx({"-o", to, "--clang", "/bin/true", right});
  EXPECT_EQ(other.code, 2);
  EXPECT_THAT(other.err, HasSubstr("/bin/true is no clang 14 or later"));
  const variables nowhere{{"PATH", "/no/such/folder"}};
  EXPECT_EQ(ptx({"-o", to, right}, nowhere).code, 2);
  const finished without = ptx({"-o", to, "--if-possible", right}, nowhere);
  EXPECT_EQ(without.code, 0) << without.err;
  EXPECT_THAT(without.err, HasSubstr("kernels get no PTX: there is no clang 14 or later; install clang"));
  EXPECT_THAT(written(to), Not(HasSubstr(".version")));
}

} // namespace
