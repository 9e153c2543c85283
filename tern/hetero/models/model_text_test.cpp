// SPDX-License-Identifier: Apache-2.0
// The text of models: what is written is read again, and what was damaged is found.
#include <tern/hetero/models/model_text.hpp>

#include <cstdio>
#include <iterator>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/hetero/support/models.hpp"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace tern::hetero::detail {
namespace {

using test::today;

model_set some_models() {
  model_set all;
  for (int k = 0; k < 4; ++k) {
    kernel_model m;
    m.size = {100u + static_cast<unsigned>(k), 8192u << k, "r 8x1024; 16 groups of 64"};
    for (int i = 0; i < 10; ++i) m.times.add(1000.5 * (1 << k) + i);
    m.last = today;
    all.kernels.emplace(model_key{{"axpy \"quoted\"\n", 0xabcdef}, "a device / 1.2", m.size.hash}, m);
  }
  model_set::dated_link& link = all.links[{"host:2 workers", "a device / 1.2"}];
  for (int i = 0; i < 4; ++i) {
    link.link.add(1 << 10, 5000 + i);
    link.link.add(1 << 20, 90'000 + i);
  }
  for (int i = 0; i < 3; ++i) link.link.add_both_ways(1 << 20, 150'000);
  link.last = today;
  all.power["a device / 1.2"] = {310.5, 42, false, today};
  return all;
}

std::string line_with_crc(const std::string& object) {
  const std::string rest = object.substr(0, object.size() - 1);
  char digits[17];
  std::snprintf(digits, sizeof digits, "%016llx",
                static_cast<unsigned long long>(XXH3_64bits(rest.data(), rest.size())));
  return rest + ",\"crc\":\"" + digits + "\"}";
}

std::vector<std::string> models_lines(const std::string& text) {
  std::vector<std::string> all;
  for (std::size_t at = 0, end = 0; at < text.size(); at = end + 1) {
    end = text.find('\n', at);
    all.push_back(text.substr(at, end - at));
  }
  return all;
}

TEST(model_text, is_what_its_header_says) {
  const std::string text = text_of(some_models());
  const std::vector<std::string> lines = models_lines(text);
  ASSERT_EQ(lines.size(), 9u); // 4 kernels, 2 ranges and both ways of a link, power
  EXPECT_EQ(lines[0], R"({"tern models":1})");
  for (std::size_t i = 1; i < lines.size(); ++i) {
    const auto line = nlohmann::json::parse(lines[i]);
    nlohmann::ordered_json rest = nlohmann::ordered_json::parse(lines[i]);
    rest.erase("crc");
    EXPECT_EQ(line_with_crc(rest.dump()), lines[i]);
  }
  EXPECT_EQ(text_of(model_set()), "{\"tern models\":1}\n");
}

TEST(model_text, is_read_again) {
  const std::string text = text_of(some_models());
  const parsed_models again = parse_models(text);
  EXPECT_EQ(again.first, parsed_models::header::right);
  EXPECT_TRUE(again.wrong_lines.empty());
  EXPECT_EQ(text_of(again.models), text);
  const kernel_model& m = again.models.kernels.begin()->second;
  EXPECT_EQ(m.times.size(), 10u);
  EXPECT_NEAR(m.times.median(), some_models().kernels.begin()->second.times.median(), 1);
  EXPECT_EQ(m.size, some_models().kernels.begin()->second.size);
  EXPECT_EQ(m.fresh, 0u);
  EXPECT_EQ(again.models.power.at("a device / 1.2").busy, 310.5);
  EXPECT_NEAR(again.models.links.begin()->second.link.both_ways_factor(), 150'000.0 / 90'001, 0.01);
}

// A change that was seen is not seen once more.
TEST(model_text, keeps_all_samples) {
  model_set all;
  kernel_model& m = all.kernels[{{"k", 1}, "d", 2}];
  m.last = today;
  for (int i = 0; i < 200; ++i) m.times.add(i % 7 < 3 ? 100 : 1000);
  const std::size_t n = m.times.size();
  EXPECT_EQ(parse_models(text_of(all)).models.kernels.begin()->second.times.size(), n);
}

TEST(model_text, each_byte_damaged_is_a_line_that_is_skipped) {
  const std::string right = text_of(some_models());
  const std::size_t first_line = right.find('\n');
  const parsed_models whole = parse_models(right);
  for (std::size_t i = 0; i < right.size(); ++i)
    for (const char mask : {'\x01', '\x20', '\x80'}) {
      std::string wrong = right;
      wrong[i] = static_cast<char>(wrong[i] ^ mask);
      const parsed_models found = parse_models(wrong);
      if (i <= first_line) {
        EXPECT_NE(found.first, parsed_models::header::right) << i;
        EXPECT_TRUE(found.models.empty()) << i;
        continue;
      }
      EXPECT_EQ(found.first, parsed_models::header::right) << i;
      if (found.wrong_lines.empty()) { // a digit of a checksum is in capitals now
        EXPECT_EQ(text_of(found.models), right) << i;
      }
      EXPECT_LE(found.wrong_lines.size(), 2u) << i;
      // What is left is what was there.
      for (const auto& [key, m] : found.models.kernels) {
        ASSERT_TRUE(whole.models.kernels.contains(key)) << i;
        EXPECT_EQ(m.times.median(), whole.models.kernels.at(key).times.median()) << i;
      }
    }
}

TEST(model_text, each_end_is_a_line_that_is_skipped) {
  const std::string right = text_of(some_models());
  for (std::size_t i = 0; i < right.size(); ++i) {
    const parsed_models found = parse_models(right.substr(0, i));
    EXPECT_LE(found.wrong_lines.size(), 1u) << i;
    EXPECT_EQ(found.first == parsed_models::header::none, i == 0);
  }
}

TEST(model_text, lines_that_are_no_models_are_skipped) {
  const char* const wrong[] = {
      R"({})",
      R"([])",
      R"({"kernel":1})",
      R"({"kernel":"k","text":"12","device":"d","size":"0000000000000001","uses":"","bytes":1,"last":1,"ns":[1]})",
      R"({"kernel":"k","text":"000000000000000g","device":"d","size":"0000000000000001","uses":"","bytes":1,"last":1,"ns":[1]})",
      R"({"kernel":"k","text":"0000000000000001","device":"d","size":"0000000000000001","uses":"","bytes":1,"last":1e300,"ns":[1]})",
      R"({"kernel":"k","text":"0000000000000001","device":"d","size":"0000000000000001","uses":"","bytes":1,"last":1,"ns":["x"]})",
      R"({"kernel":"k","text":"0000000000000001","device":"d","size":"0000000000000001","uses":"","bytes":1,"last":1,"ns":{}})",
      R"({"link":"a","to":"b","last":1,"range":"x","bytes":[],"ns":[]})",
      R"({"link":"a","to":"b","last":1})",
      R"({"power":"d","busy":"much","idle":1,"last":1})",
      R"({"something":"else"})",
  };
  std::string text = text_of(model_set());
  for (const char* const line : wrong) text += line_with_crc(line) + "\n";
  text += "no object\n\n{\"crc\":\"0000000000000000\"}\n";
  const parsed_models found = parse_models(text);
  EXPECT_EQ(found.wrong_lines.size(), std::size(wrong) + 3);
  EXPECT_EQ(found.wrong_lines.front(), 2u);
  EXPECT_TRUE(found.models.empty());
}

TEST(model_text, samples_that_are_none_are_left_out) {
  const std::string line = line_with_crc(
      R"({"kernel":"k","text":"0000000000000001","device":"d","size":"0000000000000001","uses":"","bytes":1,"last":1,"ns":[-1,0,5,1e300,7]})");
  const parsed_models found = parse_models(text_of(model_set()) + line + "\n");
  ASSERT_EQ(found.models.kernels.size(), 1u);
  EXPECT_EQ(found.models.kernels.begin()->second.times.size(), 2u);
}

TEST(model_text, other_versions_are_known) {
  EXPECT_EQ(parse_models("").first, parsed_models::header::none);
  EXPECT_EQ(parse_models("{\"tern models\":2}\nwhatever\n").first, parsed_models::header::other_version);
  EXPECT_EQ(parse_models("{\"tern models\":1,\"more\":true}\n").first, parsed_models::header::other_version);
  for (const char* const text : {"\n", "[]\n", "{\"tern models\":\"1\"}\n", "{\"tern model\":1}\n", "garbage"})
    EXPECT_EQ(parse_models(text).first, parsed_models::header::damaged) << text;
}

TEST(model_text, names_in_any_encoding_are_written) {
  model_set all;
  all.power["\xff\xfe"] = {1, 0, false, today};
  const parsed_models again = parse_models(text_of(all));
  EXPECT_TRUE(again.wrong_lines.empty());
  EXPECT_EQ(again.models.power.size(), 1u);
}

TEST(model_text, the_document_for_other_programs_has_estimates) {
  const auto all = nlohmann::json::parse(json_of(some_models(), today + 60));
  ASSERT_EQ(all["kernels"].size(), 4u);
  EXPECT_NEAR(all["kernels"][0]["median"].get<double>(), 1005, 1);
  EXPECT_EQ(all["kernels"][0]["age"], 60);
  EXPECT_NEAR(all["links"][0]["bytes_per_second"].get<double>(), 1e9 / ((90'001.5 - 5001.5) / (1047552)), 1e8);
  EXPECT_EQ(all["power"][0]["idle"], 42);
}

} // namespace
} // namespace tern::hetero::detail
