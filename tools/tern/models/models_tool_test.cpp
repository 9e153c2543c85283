// SPDX-License-Identifier: Apache-2.0
// `tern models` from outside: tables, pictures, and what it says where there is nothing.
#include "child.hpp"

#include <filesystem>
#include <fstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <tern/hetero/models/model_file.hpp>

namespace {

namespace fs = std::filesystem;
using tern::hetero::detail::date_now;
using tern::hetero::detail::model_file;
using tern::hetero::detail::model_set;
using testing::ContainsRegex;
using testing::HasSubstr;

class models_tool : public testing::Test {
protected:
  models_tool() {
    model_set all;
    for (const char* name : {"axpy", "gemm"})
      for (unsigned k = 0; k < 3; ++k) {
        tern::hetero::detail::kernel_model m;
        m.size = {k, std::uint64_t{8192} << k, "r 8x" + std::to_string(1024 << k) + "; 16 groups of 64"};
        for (int i = 0; i < 5; ++i) m.times.add(2048.0 * (1 << k) + i);
        m.fresh = 5;
        m.last = date_now() - 7200;
        all.kernels.emplace(tern::hetero::detail::model_key{{name, 1}, "host:2 workers", k}, m);
      }
    auto& link = all.links[{"host:2 workers", "some GPU / 1"}];
    for (int i = 0; i < 3; ++i) {
      link.link.add(1 << 10, 5064);
      link.link.add(1 << 20, 70'536);
    }
    link.last = date_now();
    all.power["some GPU / 1"] = {300, 42.5, true, date_now()};
    model_file file(in.path, model_file::access::write, "machine");
    EXPECT_TRUE(file.store([&] { return all; }, date_now(), true));
  }
  tern::test::finished models(tern::test::strings arguments, bool here = true) const {
    tern::test::strings all{TERN_TOOL_PATH, "models"};
    all.insert(all.end(), arguments.begin(), arguments.end());
    if (here) all.insert(all.end(), {"--file", in / "machine.models"});
    return tern::test::run(all);
  }
  model_set stored() const { return model_file(in.path, model_file::access::read, "machine").read(date_now()); }
  const tern::test::temporary in;
};

TEST_F(models_tool, lists_what_is_known) {
  const auto done = models({});
  EXPECT_EQ(done.code, 0) << done.all();
  EXPECT_THAT(done.out, ContainsRegex("kernel +size +device +samples +median +spread +p95 +GB/s +age\n"));
  EXPECT_THAT(done.out, ContainsRegex("axpy +r 8x1024; 16 groups of 64 +host:2 workers +5 +2.050 us +0.1 % +2.052 us "
                                      "+4.00 +2 h\n"));
  EXPECT_THAT(done.out, ContainsRegex("gemm +r 8x4096; .*8.194 us"));
  EXPECT_THAT(done.out, ContainsRegex("host:2 workers +some GPU / 1 +5.000 us +16.00 +- +[0-9] s\n"));
  EXPECT_THAT(done.out, ContainsRegex("some GPU / 1 +300.0 W +42.5 W"));
  const auto some = models({"--only", "ge*"});
  EXPECT_EQ(some.code, 0);
  EXPECT_EQ(tern::test::count(some.out, "\n"), 4) << some.out;
  EXPECT_EQ(tern::test::count(models({"--only", "some GPU*"}).out, "\n"), 5) << "a link and power";
}

TEST_F(models_tool, says_what_there_is_where_nothing_matches) {
  for (const tern::test::strings& arguments :
       {tern::test::strings{"--only", "ger"}, {"clear", "ger"}, {"export", "--only", "ger"}}) {
    const auto done = models(arguments);
    EXPECT_EQ(done.code, 1);
    EXPECT_EQ(done.err, "tern: no kernel and no device is called \"ger\" in " + (in / "machine.models") +
                            ": there are the kernels axpy, gemm\n");
  }
  EXPECT_EQ(stored().kernels.size(), 6u);
}

TEST_F(models_tool, clears_all_or_some) {
  const auto done = models({"clear", "axpy"});
  EXPECT_EQ(done.code, 0) << done.all();
  EXPECT_EQ(done.out, "3 models were removed from " + (in / "machine.models") + "\n");
  EXPECT_EQ(stored().kernels.size(), 3u);
  EXPECT_EQ(models({"clear"}).out, "5 models were removed from " + (in / "machine.models") + "\n");
  EXPECT_TRUE(stored().empty());
  EXPECT_EQ(models({"clear"}).out, "0 models were removed from " + (in / "machine.models") + "\n");
}

TEST_F(models_tool, exports_a_document) {
  const auto done = models({"export"});
  EXPECT_EQ(done.code, 0) << done.all();
  const auto all = nlohmann::json::parse(done.out);
  EXPECT_EQ(all["kernels"].size(), 6u);
  EXPECT_EQ(all["kernels"][0]["ns"].size(), 5u);
  EXPECT_EQ(all["power"][0]["busy"], 300);
}

TEST_F(models_tool, draws_a_picture) {
  const auto done = models({"--plot", in / "p.png"});
  if (tern::test::has(done.err, "cairo")) GTEST_SKIP() << done.err;
  EXPECT_EQ(done.code, 0) << done.all();
  EXPECT_EQ(done.out, (in / "p.png") + ": 6 times in 2 lines\n");
  std::ifstream file(in / "p.png", std::ios::binary);
  char begin[4] = {};
  file.read(begin, sizeof begin);
  EXPECT_EQ(std::string(begin + 1, 3), "PNG");
  const auto nowhere = models({"--plot", in / "no/where.png"});
  EXPECT_EQ(nowhere.code, 1);
  EXPECT_THAT(nowhere.err, HasSubstr("cannot write " + (in / "no/where.png")));
}

TEST_F(models_tool, says_where_it_looked) {
  const auto none = models({"--file", in / "other.models"}, false);
  EXPECT_EQ(none.code, 0);
  EXPECT_EQ(none.out, "no performance models in " + (in / "other.models") + ": run a program with tasks on devices\n");
  const auto wrong = models({"--file", in / "p.png"}, false);
  EXPECT_EQ(wrong.code, 2);
  EXPECT_THAT(wrong.err, HasSubstr("p.png is no file of performance models: these are called HOST.models"));
  fs::create_directory(in / "folder.models");
  const auto unreadable = models({"--file", in / "folder.models"}, false);
  EXPECT_EQ(unreadable.code, 1);
  EXPECT_THAT(unreadable.err, HasSubstr("cannot read " + (in / "folder.models") + ": Is a directory; name another"));
}

TEST_F(models_tool, the_environment_names_the_folder) {
  const auto with = [&](const std::string& value) {
    return tern::test::run({TERN_TOOL_PATH, "models"}, 50,
                           {.environment = tern::test::variables{{"TERN_HETERO_MODELS", value}}});
  };
  EXPECT_THAT(with(in.path).out,
              HasSubstr("no performance models in " + (in / (tern::hetero::detail::host_name() + ".models"))));
  const auto off = with("off");
  EXPECT_EQ(off.code, 2);
  EXPECT_THAT(off.err, HasSubstr("there is no file of performance models: TERN_HETERO_MODELS is off"));
}

} // namespace
