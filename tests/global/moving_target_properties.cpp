// SPDX-License-Identifier: Apache-2.0
// Operations on views of mobile objects, against a sequential model: each rank has a side of each
// object, which no other rank changes, so that its value is known at each call; what all ranks add
// commutes. Objects move, go to disk and are packed in place meanwhile.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <tern/global/moving_target.hpp>
#include <tern/hetero/devices.hpp>
#include <tern/hetero/hetero_task.hpp>
#include <tern/mobile/entry/rank_objects.hpp>
#include <tern/mobile/object.hpp>
#include <tern/net/collectives.hpp>
#include <tern/net/runtime.hpp>
#include <tern/task/future.hpp>

#include "property.hpp"

namespace moving_target_properties {

using namespace tern::property;
using tern::access_mode;
using tern::accumulation;
using tern::rank;
using tern::size;
using object = tern::hetero_object<std::int64_t>;
using view = tern::hetero_view<std::int64_t>;

const option_knob debug_knob{"debug", [](tern::options& of, std::int64_t value) {
                               static const char* const words[] = {"none", "rotate", "random", "reserialize"};
                               of.set(tern::mobile::debug_option, words[std::clamp<std::int64_t>(value, 0, 3)]);
                             }};
const option_knob memory_knob{"memory", [](tern::options& of, std::int64_t value) {
                                static const char* const words[] = {"0", "1", "2000", "20000"};
                                of.set(tern::mobile::memory_option, words[std::clamp<std::int64_t>(value, 0, 3)]);
                              }};
const option_knob devices_knob{"devices", [](tern::options& of, std::int64_t value) {
                                 if (value == 0) return;
                                 of.set(tern::hetero::hetero_devices, "host,simulated");
                                 of.set(tern::hetero::hetero_simulated, "2");
                               }};

struct model {
  std::int64_t sent = 0, seen = 0; // objects that are compared
  std::vector<std::int64_t> sum;   // by the rank that has made the object
};
per_case<model> all;

std::string text(std::int64_t n) { return std::to_string(n); }
std::size_t index(int r) { return static_cast<std::size_t>(r); }

/// A new object, which a task fills with `value`, late by chance.
object computed(std::int64_t n, std::int64_t value) {
  object x(n, 0);
  if (rolls().chance(0.3)) { // it is there at once
    tern::host_access<std::int64_t, 1> v = x.host(access_mode::write).get();
    for (std::int64_t& e : v) e = value;
    return x;
  }
  tern::submit(
      [value](tern::host_view<std::int64_t, 1> v) {
        take_time();
        for (std::int64_t& e : v) e = value;
      },
      tern::read_write(x));
  return x;
}

template <class T> std::int64_t value_of(const tern::host_view<T, 1>& v, const char* what) {
  for (const std::int64_t e : v)
    TERN_HOLDS(e == v(0), std::string(what) + " is a mixture of " + text(v(0)) + " and " + text(e));
  return v(0);
}
/// What is read of it, later, is `value`.
void check(const view& x, std::int64_t value, const char* what) {
  ++all->sent;
  tern::submit(
      [value, what](tern::host_view<const std::int64_t, 1> v) {
        const std::int64_t got = value_of(v, what);
        TERN_HOLDS(got == value, std::string(what) + " gave " + text(got) + " in place of " + text(value));
        ++all->seen;
      },
      tern::read(x));
}

class board {
public:
  board() = default;
  board(std::int64_t n, int ranks) : n_(n), whole_(rolls().chance(0.5)) {
    if (!whole_) sides_.emplace_back(n * ranks, 0);
    for (int r = 0; whole_ && r < ranks; ++r) sides_.emplace_back(n, 0);
    sum_ = object(n, 0);
  }
  view side(int of) const { return whole_ ? view(sides_[index(of)]) : sides_.front().part({of * n_}, {(of + 1) * n_}); }
  object sum() const { return sum_; }
  /// What a task finds that an invocation submits behind operations.
  void look(int of, std::int64_t value) const { check(side(of), value, "what an invocation looks at"); }
  /// Keeps it busy, so that data come before they may be written.
  void work(int of) {
    tern::submit(
        [](tern::host_view<const std::int64_t, 1> v) {
          static_cast<void>(value_of(v, "what a task of the object reads"));
          take_time();
          static_cast<void>(value_of(v, "what a task of the object reads"));
        },
        tern::read(side(of)));
  }
  std::int64_t ask(int of) const { return value_of(side(of).host(access_mode::read).get(), "what a call looks at"); }
  template <class A> void serialize(A& ar) { ar(n_, whole_, sides_, sum_); }

private:
  std::int64_t n_ = 0;
  bool whole_ = false; ///< each side is an object of its own
  std::vector<object> sides_;
  object sum_;
};
using pointer = tern::mobile_ptr<board>;

TERN_PROPERTY(operations_follow_their_objects,
              "ranks=1..6 workers=1..3 faults=delay:reorder:slow:pause network=any room=0..8 aggregate=0..2 "
              "steps=1..40 elements=1..3000 moves=0..8 memory=0..3 debug=0..3 devices=0..1") {
  const std::int64_t n = knob("elements");
  if (rank() == 0) all->sum.assign(index(size()), 0);
  const std::vector<pointer> boards = tern::broadcast(tern::gather(tern::create<board>(n, size())));
  std::vector<std::int64_t> value(index(size()), 0); // of this rank's sides
  std::vector<tern::shared_future<void>> open_ones;
  std::vector<tern::future<void>> moves;
  std::vector<std::pair<tern::future<object>, std::int64_t>> coming;
  std::int64_t next = 1;
  const auto expect_end = [&](const tern::transfer& t) {
    auto f = t.done();
    open_ones.push_back(f);
    if (rolls().chance(0.2)) f.get();
  };
  for (std::int64_t step = 0; step < knob("steps"); ++step) {
    const auto to = static_cast<int>(rolls().below(size()));
    const pointer b = boards[index(to)];
    std::int64_t& v = value[index(to)];
    if (rolls().chance(0.3)) take_time();
    if (rolls().chance(0.06 * static_cast<double>(knob("moves"))))
      moves.push_back(rolls().chance(0.3) ? tern::swap_out(b)
                                          : tern::migrate(b, static_cast<int>(rolls().below(size()))));
    if (rolls().chance(0.2)) tern::send<&board::work>(b, static_cast<int>(rolls().below(size())));
    switch (rolls().below(8)) {
    case 0:
      v = ++next;
      expect_end(tern::put<&board::side>(b, rank(), computed(n, v)));
      break;
    case 1:
      v = ++next;
      tern::put<&board::side>(b, rank(), computed(n, v), tern::notify<&board::look>(rank(), v));
      break;
    case 2:
      coming.emplace_back(tern::get<&board::side>(b, rank()), v);
      break;
    case 3: {
      object x(n, -9);
      const tern::transfer t = tern::get<&board::side>(b, rank(), x);
      check(x, v, "get");
      expect_end(t);
      break;
    }
    case 4: {
      const std::int64_t d = rolls().below(1000);
      tern::accumulate<&board::sum>(b, computed(n, d), accumulation::plus);
      all->sum[index(to)] += d;
      break;
    }
    case 5:
      coming.emplace_back(tern::fetch_accumulate<&board::side>(b, rank(), computed(n, 5), accumulation::plus), v);
      v += 5;
      break;
    case 6:
      tern::accumulate<&board::side>(b, rank(), computed(n, 3), accumulation::plus, tern::in_order);
      v += 3;
      tern::send<&board::look>(b, rank(), v);
      break;
    default: {
      const std::int64_t got = tern::call<&board::ask>(b, rank()).get();
      TERN_HOLDS(got == v, "a call finds " + text(got) + " in place of " + text(v));
    }
    }
    if (rolls().chance(0.05)) {
      tern::fence().get();
      for (const auto& f : open_ones) TERN_HOLDS(f.ready(), "a fence is over, and an operation before it is not");
    }
  }
  for (auto& [f, expected] : coming) check(f.get(), expected, "a future's object");
  for (auto& f : moves) f.get();
  tern::quiesce();
  for (const auto& f : open_ones) TERN_HOLDS(f.ready(), "an operation is not over after quiesce");
  const auto c = tern::global::count_pointers();
  TERN_HOLDS(c.announced == c.finished,
             text(static_cast<std::int64_t>(c.announced - c.finished)) + " operations are not over after quiesce");
  TERN_HOLDS(c.serving == 0, text(static_cast<std::int64_t>(c.serving)) + " operations are served after quiesce");
  tern::wait_all();
  tern::quiesce(); // what was to move when tasks have ended
  for (int r = 0; r < size(); ++r) {
    const std::int64_t got = tern::call<&board::ask>(boards[index(r)], rank()).get();
    TERN_HOLDS(got == value[index(r)], "at the end there is " + text(got) + " in place of " + text(value[index(r)]));
  }
  tern::barrier();
  check(tern::get<&board::sum>(boards[index(rank())]).get(), all->sum[index(rank())], "a sum of all ranks");
  tern::quiesce();
  tern::wait_all();
  const auto t = tern::global::count_transfers();
  TERN_HOLDS(t.departing == 0 && t.arriving == 0, "data are on their way at the end");
  tern::barrier();
  TERN_HOLDS(all->sent == all->seen, text(all->sent) + " values were to be seen, and " + text(all->seen) + " were");
  tern::barrier();
}

} // namespace moving_target_properties
