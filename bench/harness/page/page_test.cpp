// SPDX-License-Identifier: Apache-2.0
#include "bench/harness/page/page.hpp"

#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>

#include <unistd.h>

#include <gtest/gtest.h>

using namespace tern::bench;

namespace {

const std::string page =
    "# A page\n\n<!-- one -->\nold\nfigures\n<!-- end of one -->\nText.\n<!-- two -->\n<!-- end of two -->\n";

std::string refused(const std::string& text, const std::map<std::string, std::string>& blocks) {
  try {
    filled(text, blocks);
  } catch (const std::runtime_error& e) {
    return e.what();
  }
  return "";
}

} // namespace

TEST(page, has_its_blocks_replaced) {
  const std::string once = filled(page, {{"one", "1\n"}, {"two", "2\n"}});
  EXPECT_EQ(once, "# A page\n\n<!-- one -->\n1\n<!-- end of one -->\nText.\n<!-- two -->\n2\n<!-- end of two -->\n");
  EXPECT_EQ(filled(once, {{"one", "1\n"}, {"two", "2\n"}}), once);
}

TEST(page, names_a_block_that_only_one_side_has) {
  EXPECT_EQ(refused(page, {{"one", ""}}), "there is nothing to fill <!-- two -->");
  EXPECT_EQ(refused(page, {{"one", ""}, {"two", ""}, {"three", ""}}), "the page has no <!-- three -->");
  EXPECT_EQ(refused("<!-- one -->\n", {{"one", ""}}), "the page has no <!-- end of one -->");
}

TEST(page, is_read_at_the_beginning_and_written_at_the_end) {
  const auto folder = std::filesystem::temp_directory_path() / ("bench-page-" + std::to_string(getpid()));
  std::filesystem::create_directory(folder);
  const std::string path = (folder / "page.md").string();
  std::ofstream(path) << page;
  EXPECT_THROW(result_page(path, {"one"}), std::runtime_error);
  result_page written(path, {"one", "two"});
  EXPECT_EQ(written.folder(), folder.string());
  written.take("two", "2\n");
  EXPECT_THROW(written.take("three", "3\n"), std::out_of_range);
  written.write();
  std::stringstream found;
  found << std::ifstream(path).rdbuf();
  EXPECT_EQ(found.str(), filled(page, {{"one", ""}, {"two", "2\n"}}));
  std::filesystem::remove_all(folder);
  EXPECT_THROW(result_page(path, {"one", "two"}), std::runtime_error);
}

TEST(page, has_tables) {
  EXPECT_EQ(markdown::head({"a", "b"}) + markdown::row({"1", ""}), "| a | b |\n|---|---|\n| 1 |  |\n");
  EXPECT_EQ(markdown::count(1234567), "1,234,567");
  EXPECT_EQ(markdown::count(999), "999");
  EXPECT_EQ(markdown::number(0.5, "%.2f s"), "0.50 s");
}
