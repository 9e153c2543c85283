// SPDX-License-Identifier: Apache-2.0
// What arrays of mobile objects promise, against a plain model: each operation reaches each element
// that exists once, those of one rank in order, while elements move, are made and end.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <tern/mobile/array.hpp>
#include <tern/net/collectives.hpp>
#include <tern/net/epoch.hpp>
#include <tern/net/runtime.hpp>
#include <tern/task/future.hpp>

#include "property.hpp"
#include "travellers.hpp"

namespace array_properties {

using namespace tern::property;
using tern::rank;
using tern::size;
using tern::property::travellers::any_rank;
using tern::property::travellers::text;

// The model ----------------------------------------------------------------------------------------------------------

struct box {
  tern::indices<2> low, high, step;
  bool has(const tern::indices<2>& at) const {
    for (std::size_t d = 0; d < 2; ++d)
      if (at[d] < low[d] || at[d] >= high[d] || (at[d] - low[d]) % step[d] != 0) return false;
    return true;
  }
};
struct element {
  bool claimed = false;                           // for an insertion or an erasure
  bool there = false, gone = false;               // as its inserter and its eraser know
  std::map<int, std::size_t> must_from;           // by sender: what was sent since then must come
  std::map<int, std::vector<std::size_t>> got;    // numbers of broadcasts, by sender
  std::map<int, std::vector<std::size_t>> single; // numbers of invocations, likewise
};
struct model {
  std::int64_t columns = 0;
  std::vector<element> elements;
  std::map<int, std::vector<box>> sent; // by sender: the n-th operation
  std::int64_t made = 0, dropped = 0;
  element& at(const tern::indices<2>& i) { return elements[static_cast<std::size_t>(i[0] * columns + i[1])]; }
};
per_case<model> all;

std::string text_of(const tern::indices<2>& i) { return "(" + text(i[0]) + ", " + text(i[1]) + ")"; }

class cell {
public:
  cell() { ++all->made; }
  explicit cell(const tern::indices<2>& at) : at_(at) {
    ++all->made;
    take_time();
  }
  cell(const cell&) = delete;
  cell& operator=(const cell&) = delete;
  ~cell() { ++all->dropped; }
  template <class A> void serialize(A& ar) { ar(at_, counted_); }

  void note(int from, std::int64_t number) {
    element& e = all->at(at_);
    TERN_HOLDS(!e.gone, "operation " + text(number) + " of rank " + text(from) + " reached element " + text_of(at_) +
                            ", which had been erased");
    auto& got = e.got[from];
    TERN_HOLDS(got.empty() || static_cast<std::size_t>(number) > got.back(),
               "operation " + text(number) + " of rank " + text(from) + " reached element " + text_of(at_) +
                   " behind operation " + text(static_cast<std::int64_t>(got.empty() ? 0 : got.back())));
    got.push_back(static_cast<std::size_t>(number));
    ++counted_;
    TERN_HOLDS(tern::array_index<2>() == at_, "an element has another place than it was made for");
    if (rolls().chance(0.2)) take_time();
  }
  std::string name() const {
    if (rolls().chance(0.1)) take_time();
    return text_of(at_);
  }
  std::int64_t counted() const { return counted_; }

private:
  tern::indices<2> at_{};
  std::int64_t counted_ = 0;
};
using grid = tern::mobile_array<cell, 2>;

int diagonal(const tern::indices<2>& at, const tern::extents<2>&, int ranks) {
  return static_cast<int>((3 * at[0] + at[1]) % ranks);
}

box any_box(const tern::extents<2>& size) {
  box b{{0, 0}, size, {1, 1}};
  if (rolls().chance(0.5)) return b;
  for (std::size_t d = 0; d < 2; ++d) {
    b.low[d] = rolls().below(size[d]);
    b.high[d] = rolls().between(b.low[d] + 1, size[d]);
    b.step[d] = rolls().between(1, 3);
  }
  return b;
}

// Those that have come to an element are those that were sent to it, one after the other.
void check_element(const tern::indices<2>& at) {
  const element& e = all->at(at);
  for (const auto& [from, sent] : all->sent) {
    std::vector<std::size_t> expected;
    for (std::size_t n = 0; n < sent.size(); ++n)
      if (sent[n].has(at)) expected.push_back(n);
    const auto found = e.got.find(from);
    const std::vector<std::size_t> got = found == e.got.end() ? std::vector<std::size_t>() : found->second;
    const auto begin = got.empty() ? expected.end() : std::find(expected.begin(), expected.end(), got.front());
    const auto what = " of rank " + text(from) + " for element " + text_of(at);
    TERN_HOLDS(static_cast<std::size_t>(expected.end() - begin) >= got.size() &&
                   std::equal(got.begin(), got.end(), begin),
               "operations" + what + " were lost, or came twice");
    if (!e.there) continue;
    if (!e.gone)
      TERN_HOLDS(begin + static_cast<std::ptrdiff_t>(got.size()) == expected.end(), "the last" + what + " is missing");
    const auto must = e.must_from.find(from);
    const std::size_t since = must == e.must_from.end() ? 0 : must->second;
    if (!e.gone || !got.empty())
      TERN_HOLDS(begin == expected.end() ? expected.empty() || expected.back() < since
                                         : begin == expected.begin() || *(begin - 1) < since,
                 "the first" + what + " is missing");
  }
}

TERN_PROPERTY(each_element_once_and_in_order,
              "ranks=1..10 workers=1..3 faults=delay:reorder:slow:pause network=any room=0..8 aggregate=0..2 "
              "known=0..100 rows=1..5 columns=1..6 operations=1..30 moves=0..8 mapping=0..2 sparse=0..1 "
              "debug=0..3 memory=0..3") {
  const bool sparse = knob("sparse") > 0;
  const tern::extents<2> extent{knob("rows"), knob("columns")};
  const int maker = static_cast<int>(common().below(size()));
  grid array;
  if (rank() == maker) {
    all->columns = extent[1];
    all->elements.resize(static_cast<std::size_t>(extent[0] * extent[1]));
    for (element& e : all->elements) e.there = !sparse;
    static const tern::array_mapping mappings[] = {tern::block_mapping, tern::cyclic_mapping, tern::map_by<&diagonal>};
    array = grid({.mapping = mappings[knob("mapping")], .sparse = sparse, .name = "grid"}, extent);
    afterwards([](const ending&) {
      TERN_HOLDS(all->made == all->dropped,
                 text(all->made) + " copies were made and " + text(all->dropped) + " destroyed");
    });
  }
  array = tern::broadcast(array, maker);
  const auto any_place = [&] { return tern::indices<2>{rolls().below(extent[0]), rolls().below(extent[1])}; };
  std::vector<tern::future<void>> open;
  const auto settle = [](tern::future<void>& f) {
    try {
      f.get();
    } catch (const tern::error& e) { // of elements that are not there
      TERN_HOLDS(e.code() == tern::errc::not_found, std::string("unexpected: ") + e.what());
    }
  };
  const auto expect_gone = [](tern::future<std::int64_t> f) {
    try {
      f.get();
    } catch (const tern::error& e) {
      TERN_HOLDS(e.code() == tern::errc::not_found, std::string("unexpected: ") + e.what());
      return;
    }
    TERN_HOLDS(false, "an element has outlived its array");
  };
  for (std::int64_t i = 0; i < knob("operations"); ++i) {
    if (rolls().chance(0.3)) take_time();
    const tern::indices<2> at = any_place();
    element& e = all->at(at);
    if (rolls().chance(0.08 * static_cast<double>(knob("moves")))) {
      open.push_back(tern::migrate(array(at), any_rank()));
    } else if (sparse && rolls().chance(0.3)) {
      if (e.claimed || e.there) continue;
      e.claimed = true;
      const auto made = array.insert(at).get();
      TERN_HOLDS(made == array(at), "insert gave another element");
      for (const auto& [from, sent] : all->sent) e.must_from[from] = sent.size();
      e.there = true;
      e.claimed = false;
    } else if (rolls().chance(0.1)) {
      if (e.claimed || e.gone || !e.there) continue;
      e.claimed = true; // for ever: an index is used once
      array.erase(at).get();
      e.gone = true;
    } else {
      const box b = any_box(extent);
      auto& mine = all->sent[rank()];
      const auto number = static_cast<std::int64_t>(mine.size());
      mine.push_back(b);
      const auto section = array.part(b.low, b.high, b.step);
      if (rolls().chance(0.3)) {
        tern::call<&cell::note>(section, rank(), number).get();
        for (std::size_t n = 0; n < all->elements.size(); ++n) {
          const auto row = static_cast<std::int64_t>(n) / extent[1], column = static_cast<std::int64_t>(n) % extent[1];
          element& one = all->elements[n];
          if (!b.has({row, column}) || one.claimed || sparse) continue;
          TERN_HOLDS(!one.got[rank()].empty() && one.got[rank()].back() >= static_cast<std::size_t>(number),
                     "a call has ended before an element was reached");
        }
      } else {
        tern::send<&cell::note>(section, rank(), number);
      }
    }
    if (!open.empty() && rolls().chance(0.3)) settle(open.back()), open.pop_back();
  }
  for (auto& one : open) settle(one);
  tern::quiesce();
  std::int64_t reached = 0;
  std::string names;
  for (std::int64_t i = 0; i < extent[0]; ++i)
    for (std::int64_t j = 0; j < extent[1]; ++j) {
      const tern::indices<2> at{i, j};
      if (rank() == 0) check_element(at);
      const element& e = all->at(at);
      if (!e.there || e.gone) continue;
      names += text_of(at);
      for (const auto& [from, got] : e.got) reached += static_cast<std::int64_t>(got.size());
    }
  if (!names.empty() && rolls().chance(0.5)) {
    TERN_HOLDS(tern::reduce<&cell::name>(array, std::plus<>()).get() == names, "a reduction is not in order");
    TERN_HOLDS(tern::reduce<&cell::counted>(array, std::plus<>()).get() == reached,
               "an element has lost what it counted");
  }
  tern::barrier();
  if (rank() == 0 && rolls().chance(0.5)) {
    tern::destroy(array).get();
    for (std::size_t n = 0; n < all->elements.size(); ++n) {
      const auto row = static_cast<std::int64_t>(n) / extent[1], column = static_cast<std::int64_t>(n) % extent[1];
      expect_gone(tern::call<&cell::counted>(array(row, column)));
    }
  }
  tern::barrier();
}

// What is sent to an array within an epoch is over at its end.
TERN_PROPERTY(epochs_follow_arrays, "ranks=1..8 workers=1..3 faults=delay:reorder:slow:pause network=any rows=1..4 "
                                    "columns=1..5 operations=1..8 moves=0..5 mapping=0..2") {
  const tern::extents<2> extent{knob("rows"), knob("columns")};
  grid array;
  if (rank() == 0) {
    all->columns = extent[1];
    all->elements.resize(static_cast<std::size_t>(extent[0] * extent[1]));
    static const tern::array_mapping mappings[] = {tern::block_mapping, tern::cyclic_mapping, tern::map_by<&diagonal>};
    array = grid({.mapping = mappings[knob("mapping")]}, extent);
  }
  array = tern::broadcast(array);
  for (std::int64_t i = 0; i < knob("operations"); ++i) {
    auto& mine = all->sent[rank()];
    const auto number = static_cast<std::int64_t>(mine.size());
    mine.push_back({{0, 0}, extent, {1, 1}});
    if (rolls().chance(0.1 * static_cast<double>(knob("moves"))))
      tern::migrate(array(rolls().below(extent[0]), rolls().below(extent[1])), any_rank()).get();
    tern::finish([&] { tern::send<&cell::note>(array, rank(), number); });
    for (element& e : all->elements)
      TERN_HOLDS(!e.got[rank()].empty() && e.got[rank()].back() == static_cast<std::size_t>(number),
                 "an epoch was over when operation " + text(number) + " of rank " + text(rank()) +
                     " had not reached all elements");
  }
  tern::quiesce();
}

} // namespace array_properties
