// SPDX-License-Identifier: Apache-2.0
// What makes two tasks the same to a model, and what does not.
#include <tern/hetero/models/estimate/model_key.hpp>

#include <array>
#include <string>

#include <gtest/gtest.h>

namespace tern::hetero::detail {
namespace {

using two_uses = std::array<sized_use, 2>;

const two_uses sample_uses{{{8, {1, 1024, 512}, access_mode::read}, {4, {1, 1, 100}, access_mode::write}}};
const grid some_grid{{16, 2, 1}, {64, 1, 1}, false};

TEST(size_class, tells_what_it_is) {
  const size_class c = size_class_of(sample_uses, some_grid);
  EXPECT_EQ(c.text, "r 8x1024x512, w 4x100; 16x2 groups of 64x1");
  EXPECT_EQ(c.bytes, 8u * 1024 * 512 + 400);
  EXPECT_EQ(c.hash, hash_of_size(sample_uses, some_grid));
  EXPECT_EQ(size_class_of(sample_uses, some_grid, 3).text, "r 8x1024x512, w 4x100; 16x2 groups of 64x1; 3");
  EXPECT_EQ(size_class_of({}, grid{}).text, "1 groups of 1");
}

TEST(size_class, all_that_may_decide_is_in_it) {
  const std::uint64_t base = hash_of_size(sample_uses, some_grid);
  EXPECT_EQ(base, hash_of_size(two_uses(sample_uses), grid(some_grid)));
  EXPECT_NE(base, hash_of_size(sample_uses, some_grid, 1));
  two_uses other = sample_uses;
  other[0].element = 4;
  EXPECT_NE(base, hash_of_size(other, some_grid));
  other = sample_uses;
  other[1].extents[2] = 101;
  EXPECT_NE(base, hash_of_size(other, some_grid));
  other = sample_uses;
  other[0].how = access_mode::read_write;
  EXPECT_NE(base, hash_of_size(other, some_grid));
  other = sample_uses;
  std::swap(other[0], other[1]);
  EXPECT_NE(base, hash_of_size(other, some_grid));
  grid larger = some_grid;
  larger.groups[0] = 17;
  EXPECT_NE(base, hash_of_size(sample_uses, larger));
  larger = some_grid;
  larger.items[1] = 2;
  EXPECT_NE(base, hash_of_size(sample_uses, larger));
}

const source_block& block_of(const char* text, int first, int last) {
  static std::array<source_block, 4> blocks;
  static std::size_t next = 0;
  return blocks[next++] = {"b", "b.cpp", text, text + std::string_view(text).size(), first, last};
}
const source_block& plain_block() {
  static const source_block& b = block_of("begin\nx = 1;\nend\n", 1, 3);
  return b;
}
const source_block& moved_block() {
  static const source_block& b = block_of("\n\nbegin\nx = 1;\nend\n", 3, 5);
  return b;
}
const source_block& changed_block() {
  static const source_block& b = block_of("begin\nx = 2;\nend\n", 1, 3);
  return b;
}

kernel_code code_of(const source_block& (*source)()) { return {"k", source, {}, nullptr, nullptr}; }

TEST(kernel_identity, is_its_text) {
  EXPECT_EQ(identity_of(code_of(&plain_block)).name, "k");
  EXPECT_EQ(identity_of(code_of(&plain_block)), identity_of(code_of(&moved_block)))
      << "where it stands does not matter";
  EXPECT_NE(identity_of(code_of(&plain_block)), identity_of(code_of(&changed_block)));
  kernel_code module{"k", nullptr, {}, nullptr, nullptr, code_form::cuda_module, "text", ""};
  const kernel_identity first = identity_of(module);
  module.text = "other";
  EXPECT_NE(identity_of(module), first);
  module.text = "text";
  module.options = "-O1";
  EXPECT_NE(identity_of(module), first);
  module.options = "";
  module.form = code_form::cuda_cpp;
  EXPECT_NE(identity_of(module), first);
}

TEST(device_model, is_by_what_devices_are_alike) {
  device_info d;
  d.compute_units = 4;
  EXPECT_EQ(device_model(d), "host:4 workers");
  d.kind = device_kind::cuda;
  d.name = "GPU";
  d.driver = "570";
  EXPECT_EQ(device_model(d, "2:speed=2"), "GPU / 570");
  d.kind = device_kind::simulated;
  EXPECT_EQ(device_model(d, "2:speed=2"), "GPU / 570 / 2:speed=2");
  d.id = "simulated1";
  EXPECT_EQ(device_model(d, "2:speed=2@1"), "GPU / 570 / 2:speed=2@1 / simulated1") << "they are not alike";
}

} // namespace
} // namespace tern::hetero::detail
