// SPDX-License-Identifier: Apache-2.0
#include <tern/hetero/power/powercap.hpp>

#include <filesystem>
#include <fstream>
#include <string>

#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "child.hpp"

namespace tern::hetero::detail {
namespace {

using testing::HasSubstr;

class powercap : public testing::Test {
protected:
  void zone(const std::string& name, const std::string& what, std::uint64_t microjoules) const {
    const auto at = folder.path / name;
    std::filesystem::create_directories(at);
    put(at / "name", what);
    put(at / "energy_uj", std::to_string(microjoules));
    put(at / "max_energy_range_uj", "1000000000");
    put(at / "constraint_0_power_limit_uw", "100000000");
  }
  static void put(const std::filesystem::path& file, const std::string& text) { std::ofstream(file) << text << "\n"; }
  std::shared_ptr<energy_source> open() {
    return open_powercap_energy(folder.path.string(), why, (folder.path / "stat").string());
  }
  const test::temporary folder;
  std::string why;
};

TEST_F(powercap, packages_are_added_and_their_parts_are_not) {
  zone("intel-rapl:0", "package-0", 5'000'000);
  zone("intel-rapl:1", "package-1", 7'000'000);
  zone("intel-rapl:0:0", "core", 1);
  zone("intel-rapl-mmio:0", "package-0", 5'000'000);
  const auto source = open();
  ASSERT_NE(source, nullptr) << why;
  EXPECT_EQ(source->name(), "powercap (package-0, package-1)");
  EXPECT_EQ(source->joules(), 0.0);
  zone("intel-rapl:0", "package-0", 6'500'000);
  zone("intel-rapl:1", "package-1", 9'000'000);
  EXPECT_DOUBLE_EQ(source->joules().value_or(-1), 3.5);
  ASSERT_TRUE(source->before_measuring().has_value());
  EXPECT_DOUBLE_EQ(source->before_measuring()->busy, 200);
}

TEST_F(powercap, a_counter_begins_anew_at_its_range) {
  zone("intel-rapl:0", "package-0", 999'000'000);
  const auto source = open();
  ASSERT_NE(source, nullptr) << why;
  zone("intel-rapl:0", "package-0", 2'000'000);
  EXPECT_DOUBLE_EQ(source->joules().value_or(-1), 3);
}

TEST_F(powercap, the_machine_tells_how_busy_its_cpus_are) {
  zone("intel-rapl:0", "package-0", 0);
  const auto source = open();
  ASSERT_NE(source, nullptr) << why;
  EXPECT_FALSE(source->busy_seconds().has_value()) << "there is no such file";
  put(folder.path / "stat",
      "cpu  100 50 30 1000 5 15 5 0 0 0\ncpu0 50 25 15 500 2 8 2 0 0 0\ncpu1 1 1 1 1 1 1 1 1\nintr 7");
  EXPECT_DOUBLE_EQ(source->busy_seconds().value_or(-1) * static_cast<double>(::sysconf(_SC_CLK_TCK)), 200 / 2.0);
  put(folder.path / "stat", "cpu  100 fifty");
  EXPECT_FALSE(source->busy_seconds().has_value());
}

TEST_F(powercap, says_what_is_missing) {
  EXPECT_EQ(open(), nullptr);
  EXPECT_THAT(why, HasSubstr(folder.path.string() + " has no counter of a CPU package"));
  zone("intel-rapl:0", "package-0", 0);
  std::filesystem::remove(folder.path / "intel-rapl:0" / "energy_uj");
  EXPECT_EQ(open(), nullptr);
  EXPECT_THAT(why, HasSubstr("intel-rapl:0/energy_uj cannot be read (No such file or directory)"));
  EXPECT_THAT(why, HasSubstr("chmod a+r"));
}

TEST_F(powercap, a_counter_that_goes_away_tells_nothing) {
  zone("intel-rapl:0", "package-0", 5);
  const auto source = open();
  ASSERT_NE(source, nullptr) << why;
  std::filesystem::remove_all(folder.path / "intel-rapl:0");
  EXPECT_FALSE(source->joules().has_value());
}

} // namespace
} // namespace tern::hetero::detail
