// SPDX-License-Identifier: Apache-2.0
#include <tern/base/options.hpp>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <memory>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <tern/base/error.hpp>
#include <tern/base/options/option_table.hpp>

namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

const tern::option<int> count{"test-count", 3, "how many", tern::between(0, 100)};
const tern::option<std::int64_t> big{"test-big", 1, "a large number", tern::at_least<std::int64_t>(1)};
const tern::option<double> ratio{"test-ratio", 0.5, "a ratio"};
const tern::option<std::string> label{"test-label", "none", "a label"};
const tern::option<std::string> mode{"test-mode", "fast", "how", tern::one_of({"fast", "safe"})};
const tern::option<bool> flag{"test-flag", false, "a switch"};
const tern::option<bool> on{"test-on", true, "a switch that is on"};
const tern::known_environment known{"TERN_TEST_KNOWN"};
// The names that a program has entered, of which the option knows none itself.
std::vector<std::string> entered{"cat", "dog"};
const tern::option<std::string> pets{
    "test-pets",
    "",
    "who comes along",
    {.allowed = "names of pets, or nothing", .verify = [](const std::string& text, const tern::options& all) {
       if (all[label] == "hotel")
         throw tern::error(tern::errc::invalid_option, "no pets in a hotel", "choose another test-label");
       if (std::find(entered.begin(), entered.end(), text) == entered.end())
         throw tern::error(tern::errc::invalid_option, "there is no pet \"" + text + "\"",
                           tern::detail::nearest_of(text, entered, "there are"));
     }}};

class options : public testing::Test {
protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() / ("tern-options-" + std::to_string(::getpid()) + "-" +
                                                        testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override {
    std::filesystem::remove_all(folder_);
    for (const auto& name : set_) ::unsetenv(name.c_str());
  }
  void environment(const std::string& name, const std::string& value) {
    set_.push_back(name);
    ::setenv(name.c_str(), value.c_str(), 1);
  }
  std::string file(const std::string& text, const std::string& name = "o.json") {
    std::ofstream(folder_ / name) << text;
    return (folder_ / name).string();
  }
  /// Parses; `left()` is what remains of the arguments.
  tern::options parse(std::vector<std::string> arguments) {
    arguments_ = std::move(arguments);
    arguments_.insert(arguments_.begin(), "app");
    pointers_.clear();
    for (auto& each : arguments_) pointers_.push_back(each.data());
    pointers_.push_back(nullptr);
    argc_ = static_cast<int>(arguments_.size());
    return tern::options::parse(argc_, pointers_.data());
  }
  std::vector<std::string> left() const {
    EXPECT_EQ(pointers_[static_cast<std::size_t>(argc_)], nullptr);
    return {pointers_.begin() + 1, pointers_.begin() + argc_};
  }
  std::string refusal(std::vector<std::string> arguments, tern::errc code = tern::errc::invalid_option) {
    try {
      parse(std::move(arguments));
    } catch (const tern::error& e) {
      EXPECT_EQ(e.code(), code);
      EXPECT_EQ(static_cast<std::size_t>(argc_), arguments_.size()) << "arguments changed by a refused command line";
      return e.what();
    }
    return "accepted";
  }

  std::filesystem::path folder_;
  std::vector<std::string> set_, arguments_;
  std::vector<char*> pointers_;
  int argc_ = 0;
};

TEST_F(options, defaults) {
  const tern::options o = parse({});
  EXPECT_EQ(o[count], 3);
  EXPECT_EQ(o[big], 1);
  EXPECT_EQ(o[ratio], 0.5);
  EXPECT_EQ(o[label], "none");
  EXPECT_FALSE(o[flag]);
  EXPECT_TRUE(o[on]);
  EXPECT_EQ(o.source("test-count"), "default");
  EXPECT_FALSE(o.help_requested());
  EXPECT_EQ(tern::options()[count], 3);
}

TEST_F(options, command_line_both_forms) {
  const auto o =
      parse({"--tern-test-count=7", "--tern-test-label", "x y", "--tern-test-ratio=-1.5e-3", "--tern-test-big",
             "9000000000", "--tern-test-flag", "--tern-no-test-on", "--tern-test-mode=safe"});
  EXPECT_EQ(o[count], 7);
  EXPECT_EQ(o[label], "x y");
  EXPECT_EQ(o[ratio], -1.5e-3);
  EXPECT_EQ(o[big], 9000000000);
  EXPECT_TRUE(o[flag]);
  EXPECT_FALSE(o[on]);
  EXPECT_EQ(o[mode], "safe");
  EXPECT_TRUE(left().empty());
  EXPECT_EQ(o.source("test-count"), "command line");
}

TEST_F(options, leaves_the_programs_own_arguments) {
  const auto o = parse(
      {"input", "--tern-test-count", "4", "--verbose", "--tern-test-flag", "out", "--", "--tern-test-count=9", "--"});
  EXPECT_THAT(left(), ElementsAre("input", "--verbose", "out", "--", "--tern-test-count=9", "--"));
  EXPECT_EQ(o[count], 4);
  EXPECT_TRUE(o[flag]);
}

TEST_F(options, no_arguments_at_all) {
  int argc = 0;
  char* none[] = {nullptr};
  EXPECT_EQ(tern::options::parse(argc, none)[count], 3);
  EXPECT_EQ(argc, 0);
}

TEST_F(options, last_wins_and_empty_text_is_text) {
  const auto o = parse(
      {"--tern-test-count=4", "--tern-test-count=5", "--tern-test-label=", "--tern-test-flag", "--tern-no-test-flag"});
  EXPECT_EQ(o[count], 5);
  EXPECT_EQ(o[label], "");
  EXPECT_FALSE(o[flag]);
  EXPECT_EQ(parse({"--tern-test-label=a=b"})[label], "a=b");
  EXPECT_EQ(parse({"--tern-test-count=+7"})[count], 7);
}

TEST_F(options, switches_take_words_but_not_the_next_argument) {
  for (const char* yes : {"1", "true", "yes", "on"}) EXPECT_TRUE(parse({std::string("--tern-test-flag=") + yes})[flag]);
  for (const char* no : {"0", "false", "no", "off"}) EXPECT_FALSE(parse({std::string("--tern-test-on=") + no})[on]);
  EXPECT_TRUE(parse({"--tern-test-flag", "false"})[flag]);
  EXPECT_THAT(left(), ElementsAre("false"));
  EXPECT_THAT(refusal({"--tern-test-flag=maybe"}),
              HasSubstr("option test-flag cannot be \"maybe\" (on the command line); allowed: "
                        "true, false, yes, no, on, off, 1, 0"));
  EXPECT_THAT(refusal({"--tern-no-test-flag=1"}), HasSubstr("unknown option --tern-no-test-flag"));
  EXPECT_THAT(refusal({"--tern-no-test-count"}), HasSubstr("unknown option"));
}

TEST_F(options, precedence) {
  const std::string path = file(R"({"test-count": 10, "test-label": "file", "test-mode": "safe"})");
  environment("TERN_TEST_COUNT", "20");
  environment("TERN_TEST_LABEL", "env");
  const auto o = parse({"--tern-test-count=30", "--tern-options", path});
  EXPECT_EQ(o[count], 30);
  EXPECT_EQ(o[label], "env");
  EXPECT_EQ(o[mode], "safe");
  EXPECT_EQ(o.source("test-count"), "command line");
  EXPECT_EQ(o.source("test-label"), "environment");
  EXPECT_EQ(o.source("test-mode"), "file " + path);
  EXPECT_EQ(o.source("test-ratio"), "default");
  EXPECT_THROW(o.source("test-nothing"), tern::error);
}

TEST_F(options, file_named_by_environment_or_command_line) {
  environment("TERN_OPTIONS", file(R"({"test-count": 10})", "a.json"));
  EXPECT_EQ(parse({})[count], 10);
  EXPECT_EQ(parse({"--tern-options=" + file(R"({"test-count": 11})", "b.json")})[count], 11);
  EXPECT_EQ(parse({"--tern-options="})[count], 3); // an empty name: no file
}

TEST_F(options, file_has_types_and_comments) {
  const auto o =
      parse({"--tern-options=" + file("{ // for the cluster\n \"test-flag\": true, \"test-ratio\": 2, \"test-big\": "
                                      "9000000000, \"test-label\": \"\\u00e9\" }")});
  EXPECT_TRUE(o[flag]);
  EXPECT_EQ(o[ratio], 2.0);
  EXPECT_EQ(o[big], 9000000000);
  EXPECT_EQ(o[label], "é");
}

TEST_F(options, bad_files) {
  EXPECT_THAT(refusal({"--tern-options=/no/such/file"}, tern::errc::io),
              AllOf(HasSubstr("cannot read the options file /no/such/file (named by --tern-options): No such file"),
                    HasSubstr("JSON")));
  EXPECT_THAT(refusal({"--tern-options=" + folder_.string()}, tern::errc::io),
              HasSubstr("cannot read the options file"));
  const auto with = [this](const std::string& text) { return refusal({"--tern-options=" + file(text)}); };
  EXPECT_THAT(with("{\n  \"test-count\": }"), AllOf(HasSubstr("o.json is no JSON: parse error at line 2, column 17")));
  EXPECT_THAT(with(""), HasSubstr("is no JSON: parse error at line 1, column 1"));
  EXPECT_THAT(with("{\"test-count\": 4"), HasSubstr("is no JSON"));
  EXPECT_THAT(with("[1]"), HasSubstr("o.json holds array where an object is needed"));
  EXPECT_THAT(with(R"({"test-cuont": 4})"), HasSubstr("o.json; did you mean test-count? [invalid_option"));
  EXPECT_THAT(with(R"({"zzzzzzzzzzzzzzzzz": 4})"), HasSubstr("unknown option \"zzzzzzzzzzzzzzzzz\" in file"));
  EXPECT_THAT(with(R"({"options": "x"})"), HasSubstr("unknown option \"options\" in file"));
  EXPECT_THAT(with(R"({"test-count": 400})"),
              AllOf(HasSubstr("option test-count cannot be \"400\" (in file "), HasSubstr("allowed: from 0 to 100")));
  EXPECT_THAT(with(R"({"test-count": "4"})"), HasSubstr("option test-count cannot be \"4\" (a text in file "));
  EXPECT_THAT(with(R"({"test-count": 1.5})"), HasSubstr("cannot be \"1.5\""));
  EXPECT_THAT(with(R"({"test-count": 99999999999})"), HasSubstr("cannot be \"99999999999\""));
  EXPECT_THAT(with(R"({"test-flag": 1})"), HasSubstr("option test-flag cannot be \"1\""));
  EXPECT_THAT(with(R"({"test-label": null})"), HasSubstr("option test-label cannot be \"null\""));
  EXPECT_THAT(with(std::string(100000, '[')), HasSubstr("is no JSON"));
  EXPECT_THAT(with("{\"test-label\": \"\xff\"}"), HasSubstr("is no JSON"));
  EXPECT_THAT(with(R"({"test-count": {"a": [1, 2]}})"), HasSubstr(R"(cannot be "{"a":[1,2]}")"));
  const std::string open(100000, '['), close(100000, ']'); // more levels than the stack has room for
  EXPECT_THAT(with("{\"test-count\": " + open + close + "}"), HasSubstr("cannot be \"[…]\""));
}

TEST_F(options, bad_values_name_option_origin_text_and_allowed) {
  EXPECT_THAT(refusal({"--tern-test-count=101"}),
              HasSubstr("option test-count cannot be \"101\" (on the command line); allowed: from 0 to 100"));
  EXPECT_THAT(refusal({"--tern-test-big=0"}), HasSubstr("allowed: at least 1"));
  EXPECT_THAT(refusal({"--tern-test-mode=quick"}), HasSubstr("allowed: one of fast, safe"));
  for (const char* text : {"", "x", "1x", " 1", "1 ", "0x10", "99999999999999999999", "1.0", "--1", "+-1", "+"})
    EXPECT_THAT(refusal({std::string("--tern-test-count=") + text}),
                HasSubstr("cannot be \"" + std::string(text) + "\""));
  for (const char* text : {"nan", "inf", "1e999", "1,5", ""})
    EXPECT_THAT(refusal({std::string("--tern-test-ratio=") + text}), HasSubstr("allowed: a finite number"));
  environment("TERN_TEST_COUNT", "many");
  EXPECT_THAT(refusal({}),
              HasSubstr("option test-count cannot be \"many\" (TERN_TEST_COUNT in the environment); allowed: "));
}

TEST_F(options, missing_value) {
  EXPECT_THAT(refusal({"--tern-test-count"}),
              HasSubstr("option --tern-test-count needs a value; write --tern-test-count=VALUE"));
  EXPECT_THAT(refusal({"--tern-test-count", "--tern-test-flag"}), HasSubstr("needs a value"));
  EXPECT_THAT(refusal({"--tern-test-count", "--"}), HasSubstr("needs a value"));
}

TEST_F(options, unknown_names_get_the_nearest) {
  EXPECT_THAT(refusal({"--tern-test-cout=4"}),
              HasSubstr("unknown option --tern-test-cout; did you mean --tern-test-count?"));
  EXPECT_THAT(refusal({"--tern-no-test-flga"}), HasSubstr("did you mean --tern-no-test-flag?"));
  EXPECT_THAT(refusal({"--tern-hepl"}), HasSubstr("did you mean --tern-help?"));
  EXPECT_THAT(refusal({"--tern-"}), HasSubstr("unknown option --tern-"));
  EXPECT_THAT(refusal({"--tern-qqqqqqqqqqqqqqqqqqqq"}),
              AllOf(HasSubstr("--tern-help lists all"), Not(HasSubstr("did you mean"))));
  EXPECT_THAT(refusal({"--tern-" + std::string(100000, 'x')}), HasSubstr("unknown option"));
}

// Each of these was an argument of the program's, and passed without a word.
TEST_F(options, names_with_other_dashes_underscores_or_capitals) {
  for (const char* wrong : {"-tern-test-count", "--tern_test_count", "--tern-test_count", "-tern_test_count",
                            "---tern-test-count", "--TERN-TEST-COUNT", "--tern-Test-Count", "--TERN_TEST_COUNT"}) {
    const std::string text = "unknown option " + std::string(wrong) + "; did you mean --tern-test-count?";
    EXPECT_THAT(refusal({std::string(wrong) + "=4"}), HasSubstr(text));
    EXPECT_THAT(refusal({wrong, "4"}), HasSubstr(text));
  }
  EXPECT_THAT(refusal({"-tern-no-test-on"}), HasSubstr("did you mean --tern-no-test-on?"));
  EXPECT_THAT(refusal({"-tern-test-cuont"}), HasSubstr("did you mean --tern-test-count?"));
  EXPECT_THAT(refusal({"-tern-qqqqqqqqqqqqqqqqqqqq"}), HasSubstr("write -- before arguments that are not Tern's"));
  parse({"-ternary", "--tern", "tern-test-count", "TERN_TEST_COUNT=4", "-", "--", "-tern-test-count"});
  EXPECT_THAT(left(),
              ElementsAre("-ternary", "--tern", "tern-test-count", "TERN_TEST_COUNT=4", "-", "--", "-tern-test-count"));
}

TEST_F(options, a_check_says_itself_why_it_refuses) {
  EXPECT_EQ(parse({"--tern-test-pets=dog"})[pets], "dog");
  EXPECT_THAT(refusal({"--tern-test-pets=dof"}),
              HasSubstr("option test-pets cannot be \"dof\" (on the command line): there is no pet \"dof\"; "
                        "did you mean dog? there are: cat, dog"));
  EXPECT_THAT(refusal({"--tern-test-pets=elephant"}), HasSubstr("there is no pet \"elephant\"; there are: cat, dog"));
  const std::string path = file(R"({"test-pets": "emu"})");
  EXPECT_THAT(refusal({"--tern-options", path}),
              HasSubstr("cannot be \"emu\" (in file " + path + "): there is no pet"));
  environment("TERN_TEST_PETS", "owl");
  EXPECT_THAT(refusal({}), HasSubstr("cannot be \"owl\" (TERN_TEST_PETS in the environment): there is no pet"));
  EXPECT_EQ(parse({"--tern-test-pets=cat"})[pets], "cat") << "only the value that counts is looked at";
  EXPECT_TRUE(parse({"--tern-help"}).help_requested());
  entered.push_back("owl"); // by the program, before it starts a job
  EXPECT_EQ(parse({})[pets], "owl");
  entered.pop_back();
}

TEST_F(options, a_check_sees_the_other_options) {
  EXPECT_THAT(
      refusal({"--tern-test-pets=dog", "--tern-test-label=hotel"}),
      HasSubstr("option test-pets cannot be \"dog\" (on the command line): no pets in a hotel; choose another"));
  auto o = parse({"--tern-test-label=hotel"}); // no value of its own: nothing to look at
  EXPECT_EQ(o[pets], "");
  try {
    o.set(pets, "dog");
    FAIL();
  } catch (const tern::error& e) {
    EXPECT_THAT(e.what(), HasSubstr("option test-pets cannot be \"dog\" (by the program): no pets in a hotel"));
  }
  EXPECT_EQ(o[pets], "");
  o.set(label, "home");
  o.set(pets, "dog");
  EXPECT_EQ(o[pets], "dog");
}

TEST_F(options, empty_environment_counts_as_unset) {
  environment("TERN_TEST_COUNT", "");
  const auto o = parse({});
  EXPECT_EQ(o[count], 3);
  EXPECT_EQ(o.source("test-count"), "default");
}

TEST_F(options, unknown_environment) {
  environment("TERN_TEST_COUNT", "1");
  environment("TERN_TEST_KNOWN", "1");
  environment("TERN_PLUGIN_DIR", "/x");
  environment("TERN_TEST_CUONT", "1");
  environment("TERN_AAA", "");
  const auto unknown = tern::options::unknown_environment();
  EXPECT_THAT(unknown, AllOf(Contains("TERN_TEST_CUONT"), Contains("TERN_AAA")));
  EXPECT_THAT(unknown, AllOf(Not(Contains("TERN_TEST_COUNT")), Not(Contains("TERN_TEST_KNOWN")),
                             Not(Contains("TERN_PLUGIN_DIR"))));
  EXPECT_TRUE(std::is_sorted(unknown.begin(), unknown.end()));
}

TEST_F(options, nearest_environment) {
  EXPECT_EQ(tern::options::nearest_environment("TERN_TEST_CUONT"), "TERN_TEST_COUNT");
  EXPECT_EQ(tern::options::nearest_environment("TERN_LOGLEVEL"), "TERN_LOG_LEVEL");
  EXPECT_EQ(tern::options::nearest_environment("TERN_TEST_KNONW"), "TERN_TEST_KNOWN");
  EXPECT_EQ(tern::options::nearest_environment("TERN_PLUGINDIR"), "TERN_PLUGIN_DIR");
  EXPECT_EQ(tern::options::nearest_environment("TERN_QQQQQQQQQQQQ"), "");
}

TEST_F(options, a_name_declared_twice) {
  EXPECT_EQ(parse({})[count], 3);
  {
    const tern::option<int> again{"test-count", 4, "another"};
    EXPECT_THAT(refusal({}),
                AllOf(HasSubstr("option \"test-count\" is declared twice: at tern/base/options/options_test.cpp:"),
                      HasSubstr(" and at tern/base/options/options_test.cpp:"), HasSubstr("rename one")));
  }
  EXPECT_EQ(parse({})[count], 3); // gone with its library
}

TEST_F(options, one_declaration_seen_by_two_libraries) {
  std::vector<std::unique_ptr<tern::option<int>>> copies;
  for (int i = 0; i < 2; ++i) copies.push_back(std::make_unique<tern::option<int>>("test-twin", 1, "a header's"));
  const auto o = parse({"--tern-test-twin=5"});
  EXPECT_EQ(o[*copies[0]], 5);
  EXPECT_EQ(o[*copies[1]], 5);
}

TEST_F(options, declared_after_parsing_has_its_default) {
  const auto o = parse({});
  const tern::option<std::string> late{"test-late", "later", "of a plug-in"};
  EXPECT_EQ(o[late], "later");
}

TEST_F(options, set_from_the_program) {
  auto o = parse({});
  o.set(count, 50);
  o.set(label, "mine");
  const tern::options copy = o;
  EXPECT_EQ(copy[count], 50);
  EXPECT_EQ(copy[label], "mine");
  EXPECT_EQ(copy.source("test-count"), "program");
  try {
    o.set(count, 1000);
    FAIL();
  } catch (const tern::error& e) {
    EXPECT_THAT(e.what(), HasSubstr("option test-count cannot be \"1000\" (by the program); allowed: from 0 to 100"));
  }
  EXPECT_EQ(o[count], 50);
}

TEST_F(options, help) {
  const auto o = parse({"--tern-help", "--tern-test-count=9"});
  EXPECT_TRUE(o.help_requested());
  const std::string text = o.help();
  EXPECT_THAT(text,
              AllOf(HasSubstr("  --tern-test-count=INTEGER  "), HasSubstr("how many; from 0 to 100\n"),
                    HasSubstr("TERN_TEST_COUNT, default 3, now 9 (command line)\n"), HasSubstr("--tern-test-flag "),
                    HasSubstr("TERN_TEST_LABEL, default none\n"), HasSubstr("one of fast, safe"),
                    HasSubstr("TERN_LOG_LEVEL, default info"), HasSubstr("TERN_OPTIONS, default \"\"")));
  EXPECT_LT(text.find("--tern-help"), text.find("--tern-log-level"));
  EXPECT_LT(text.find("--tern-test-big"), text.find("--tern-test-count"));
}

TEST_F(options, help_table) {
  const tern::option<std::string> either{"test-either", "a|b", "one | or the other"};
  const std::string text = tern::options::help_table();
  EXPECT_TRUE(text.starts_with("| option | environment | default | meaning |\n|---|---|---|---|\n"));
  EXPECT_THAT(
      text,
      AllOf(HasSubstr("\n| `--tern-test-count=INTEGER` | `TERN_TEST_COUNT` | `3` | how many; from 0 to 100 |\n"),
            HasSubstr("\n| `--tern-test-flag` | `TERN_TEST_FLAG` | `false` | a switch |\n"),
            HasSubstr("\n| `--tern-test-pets=TEXT` | `TERN_TEST_PETS` | `\"\"` | who comes along; names of pets, or "
                      "nothing |\n"),
            HasSubstr("| `a\\|b` | one \\| or the other |\n")));
  EXPECT_LT(text.find("--tern-test-big"), text.find("--tern-test-count"));
}

TEST_F(options, base_options_are_declared) {
  const auto o = parse({"--tern-log-level=debug"});
  EXPECT_EQ(o[tern::log_level_option], "debug");
  EXPECT_THAT(refusal({"--tern-log-level=loud"}), HasSubstr("allowed: one of trace, debug, info, warning, error, off"));
}

} // namespace
