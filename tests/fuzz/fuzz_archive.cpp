// SPDX-License-Identifier: Apache-2.0
// Archives: any bytes are a value or error(invalid_data); a value that was read can be written and
// read again. An input is the type's number, how badly the bytes are aligned, and the bytes.
#include "fuzz.hpp"

#include <array>
#include <chrono>
#include <complex>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <variant>
#include <vector>

#include <tern/base/archive.hpp>

namespace {

enum class colour : std::uint8_t { red, green };

struct particle {
  double x = 0, y = 0;
  std::vector<int> neighbours;
  std::optional<std::string> name;
  colour painted = colour::red;
  template <class A> void serialize(A& ar) { ar(x, y, neighbours, name, painted); }
};

struct vertex { // of a graph with shared parts
  int number = 0;
  std::vector<std::shared_ptr<vertex>> next;
  std::shared_ptr<std::string> label;
  template <class A> void serialize(A& ar) { ar(number, next, label); }
};

struct chain {
  std::unique_ptr<chain> next;
  template <class A> void serialize(A& ar) { ar(next); }
};

struct tree {
  std::vector<tree> inner;
  std::map<std::string, tree> named;
  template <class A> void serialize(A& ar) { ar(inner, named); }
};

struct nothing {
  template <class A> void serialize(A&) {}
};

class reads_itself { // no default constructor, and what is saved need not be all of it
public:
  explicit reads_itself(tern::input_archive& ar) : text_(tern::unpack_next<std::string>(ar)) { ar(odd_); }
  template <class A> void save(A& ar) const { ar(text_, odd_); }

private:
  std::string text_;
  bool odd_ = false;
};

// Without a word of how they are serialized.
struct cell {
  double x, y;
};
struct hit {
  std::int32_t number;
  double place[3];
  bool good;
  std::vector<cell> cells;
  std::map<std::string, hit> parts;
  std::optional<cell> centre;
};

struct sample {
  float values[3];
  std::uint32_t tag;
};

} // namespace

template <> inline constexpr bool tern::is_bitwise<sample> = true;

namespace {

template <class T> inline constexpr bool in_order = true; // is written in the same order again
template <class K, class V> inline constexpr bool in_order<std::unordered_map<K, V>> = false;
template <class T> inline constexpr bool in_order<std::unordered_multiset<T>> = false;
template <class T> inline constexpr bool in_order<std::vector<T>> = in_order<T>;

// What was read on less stack than writing takes may be too deep to be written.
template <class F> bool unless_too_deep(F&& f) {
  try {
    f();
    return true;
  } catch (const tern::error& e) {
    if (e.code() != tern::errc::invalid_data || std::string_view(e.what()).find(" deep") == std::string_view::npos)
      fuzz::fail(std::string("a value that was read is refused: ") + e.what());
  }
  return false;
}

template <class T> void check(std::span<const std::byte> bytes) {
  std::optional<T> value;
  if (!fuzz::accepts({tern::errc::invalid_data}, [&] { value.emplace(tern::unpack<T>(bytes)); })) return;
  tern::byte_buffer once, twice;
  std::optional<T> again;
  if (!unless_too_deep([&] {
        once = tern::pack(*value);
        again.emplace(tern::unpack<T>(once));
        twice = tern::pack(*again);
      }))
    return;
  fuzz::require(tern::packed_size(*value) == once.size(), "packed_size differs from pack");
  if constexpr (in_order<T>)
    fuzz::require(once == twice, "a value changes when it is packed and unpacked");
  else
    fuzz::require(once.size() == twice.size() && *value == *again, "a value changes when it is packed and unpacked");
  if constexpr (std::is_default_constructible_v<T>) { // into one that is there: nothing of it may stay
    if (!unless_too_deep([&] {
          tern::unpack_into(bytes, *again);
          twice = tern::pack(*again);
        }))
      return;
    bool same = once == twice;
    if constexpr (!in_order<T>) same = *again == *value;
    fuzz::require(same, "unpack_into leaves something behind");
  }
}

using variants = std::variant<std::monostate, int, std::string, std::vector<std::uint16_t>, std::unique_ptr<int>>;
using times = std::tuple<std::chrono::nanoseconds, std::complex<double>, std::array<std::string, 2>,
                         std::pair<colour, bool>, std::array<colour, 3>, std::chrono::system_clock::time_point>;

constexpr void (*checks[])(std::span<const std::byte>) = {
    check<std::vector<std::vector<std::string>>>,
    check<std::map<std::string, std::vector<double>>>,
    check<std::optional<std::vector<std::optional<std::string>>>>,
    check<std::vector<variants>>,
    check<std::vector<std::shared_ptr<vertex>>>,
    check<std::tuple<std::string, std::u16string, std::wstring>>,
    check<std::vector<particle>>,
    check<std::tuple<std::vector<bool>, std::array<bool, 3>, std::deque<bool>, std::vector<std::array<bool, 2>>>>,
    check<std::deque<tern::byte_buffer>>,
    check<chain>,
    check<tree>,
    check<std::vector<std::unordered_map<int, int>>>,
    check<std::unordered_map<std::string, int>>,
    check<std::unordered_multiset<std::string>>,
    check<std::tuple<std::list<nothing>, std::multimap<int, nothing>, std::multiset<std::string>, std::set<char>>>,
    check<std::vector<reads_itself>>,
    check<std::vector<times>>,
    check<std::pair<std::vector<sample>, std::list<sample>>>,
    check<std::tuple<std::shared_ptr<int>, std::shared_ptr<std::string>, std::vector<std::shared_ptr<int>>,
                     std::vector<std::tuple<>>>>,
    check<std::vector<hit>>,
};

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::input in(data, size);
  const std::size_t which = in.number() % std::size(checks), offset = in.number() % 16;
  const fuzz::placed bytes(in.rest(), offset);
  checks[which](bytes.bytes());
  return 0;
}
