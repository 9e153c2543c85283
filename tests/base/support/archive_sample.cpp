// SPDX-License-Identifier: Apache-2.0
// Compiled once for all tests that damage it: the type takes long.
#include "archive_refusals.hpp"

#include <array>
#include <deque>
#include <list>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <variant>

namespace hostile_test {
namespace {

using everything = std::tuple<record, std::vector<double>, std::map<std::string, std::vector<int>>, std::set<int>,
                              std::optional<std::string>, std::variant<std::monostate, int, std::string, record>,
                              std::vector<bool>, std::shared_ptr<std::string>, std::vector<std::shared_ptr<int>>,
                              std::unordered_map<int, std::string>, std::list<nothing>, bool, tern::byte_buffer,
                              std::array<std::string, 2>, std::deque<std::pair<int, bool>>>;

everything sample_value() {
  everything x;
  auto& r = std::get<0>(x);
  r.text = "root";
  r.kids.resize(3);
  r.kids[1].kids.resize(2);
  r.kids[2].next = r.next = std::make_shared<record>();
  r.next->text = "shared";
  r.own = std::make_unique<record>();
  std::get<1>(x) = {1, 2, 3};
  std::get<2>(x) = {{"a", {1, 2}}, {"b", {}}};
  std::get<3>(x) = {1, 2, 3};
  std::get<4>(x) = "optional";
  std::get<5>(x) = record{5, "variant", {}, {}, {}};
  std::get<6>(x) = {true, false, true, true, false, true, false, true, true};
  std::get<7>(x) = std::make_shared<std::string>("s");
  std::get<8>(x) = std::vector<std::shared_ptr<int>>(3, std::make_shared<int>(1));
  std::get<9>(x) = {{1, "x"}, {2, "y"}};
  std::get<10>(x).resize(4);
  std::get<12>(x) = tern::pack(1, 2);
  std::get<13>(x) = {"p", "q"};
  std::get<14>(x) = {{1, true}, {2, false}};
  return x;
}

} // namespace

tern::byte_buffer sample() { return tern::pack(sample_value()); }
void unpack_sample(std::span<const std::byte> bytes) { (void)tern::unpack<everything>(bytes); }

} // namespace hostile_test
