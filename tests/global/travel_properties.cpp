// SPDX-License-Identifier: Apache-2.0
// Device data in messages against a sequential model: what arrives is what the object was where it
// was sent, whatever tasks come before and after; and nothing is left of a transfer.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <tern/global/transfer/settings.hpp>
#include <tern/global/travel.hpp>
#include <tern/hetero/dialect.hpp>
#include <tern/hetero/hetero_task.hpp>
#include <tern/mobile/object.hpp>
#include <tern/net/call_options.hpp>
#include <tern/net/collectives.hpp>
#include <tern/net/epoch.hpp>
#include <tern/net/runtime.hpp>
#include <tern/task/fiber.hpp>
#include <tern/task/future.hpp>

#include "property.hpp"

TERN_KERNELS_BEGIN(travel_kernels)
TERN_KERNEL(put, int n, int value, TERN_GLOBAL int* x) {
  TERN_REGION_IN(n, 1, 1) { x[item.x] = value; };
}
TERN_KERNELS_END(travel_kernels)

namespace travel_properties {

using namespace tern::property;
using tern::access_mode;
using tern::hetero_object;
using tern::rank;
using tern::size;

constexpr int never = -1; // the task that was to compute it failed

struct model {
  std::int64_t sent = 0, seen = 0; // of objects whose values are compared
};
per_case<model> all;

std::string text(std::int64_t n) { return std::to_string(n); }
int any_rank() { return static_cast<int>(rolls().below(size())); }

bool there_is_zstd() {
  static const bool there = [] {
    try {
      tern::global::make_codec("zstd");
      return true;
    } catch (const tern::error&) {
      return false;
    }
  }();
  return there;
}
/// One that keeps everything.
const char* any_codec() {
  static constexpr const char* names[] = {"none", "none:auto", "zstd", "zstd:auto"};
  return names[rolls().below(there_is_zstd() ? 4 : 2)];
}

/// Knobs of options.
void limit(tern::options& of, std::int64_t kibibytes) {
  if (kibibytes > 0) of.set(tern::global::detail::landing_option, text(kibibytes) + "K");
}
const tern::property::option_knob landing_knob{"landing", limit};
const tern::property::option_knob ahead_knob{"ahead", [](tern::options& of, std::int64_t value) {
                                               constexpr int usual = 1024;
                                               of.set(tern::global::detail::ahead_option,
                                                      value == 0 ? usual : static_cast<int>(value - 1));
                                             }};
const tern::property::option_knob verify_knob{
    "verified", [](tern::options& of, std::int64_t value) { of.set(tern::global::detail::verify_option, value != 0); }};
const tern::property::option_knob codec_knob{"codec", [](tern::options& of, std::int64_t value) {
                                               if (value > 0 && there_is_zstd())
                                                 of.set(tern::global::codec_option, value == 1 ? "zstd" : "auto");
                                             }};
const tern::property::option_knob devices_knob{"devices", [](tern::options& of, std::int64_t value) {
                                                 if (value == 0) return;
                                                 of.set(tern::hetero::hetero_devices, "host,simulated");
                                                 of.set(tern::hetero::hetero_simulated,
                                                        text(value) + ":bandwidth=1G,latency=2us,launch=1us,item=1ns");
                                               }};

/// A task on a device, if there are some, that writes `value`.
bool set_on_device(const hetero_object<int>& x, int value) {
  const std::int64_t devices = knob("devices");
  if (devices == 0 || value == never || rolls().chance(0.5)) return false;
  const int n = static_cast<int>(x.count());
  tern::hetero_task(travel_kernels::put, tern::items(n), n, value, tern::write(x))
      .on(devices == 1 || rolls().chance(0.5) ? "simulated0" : "simulated1")
      .submit();
  return true;
}

/// A task that writes `value`, and finds `before` until then.
void set(const hetero_object<int>& x, int before, int value) {
  if (set_on_device(x, value)) return;
  tern::submit(
      [before, value](tern::host_view<int, 1> v) {
        for (const int e : v)
          TERN_HOLDS(e == before, "an object holds " + text(e) + " in place of " + text(before) + " at its source");
        take_time();
        if (value == never) throw tern::error(tern::errc::io, "fails by chance");
        for (int& e : v) e = value;
        take_time();
      },
      tern::read_write(x));
}

/// What is read of it, later, is `value`.
void check(const hetero_object<int>& x, int value) {
  if (value == never) {
    try {
      static_cast<void>(x.host(access_mode::read).get());
    } catch (const tern::error& e) {
      TERN_HOLDS(e.code() == tern::errc::io, std::string("unexpected: ") + e.what());
      ++all->seen;
      return;
    }
    TERN_HOLDS(false, "an object has come whose task failed");
  }
  tern::submit(
      [value](tern::host_view<const int, 1> v) {
        for (std::int64_t i = 0; i < v.size(); ++i)
          TERN_HOLDS(v(i) == value, "an object holds " + text(v(i)) + " in place of " + text(value));
        ++all->seen;
      },
      tern::read(x));
}

void take(int value, int hops, hetero_object<int> x);
void go_on(int value, int hops, hetero_object<int> x) {
  const int to = any_rank();
  if (rolls().chance(0.5)) return tern::send<&take>(to, value, hops - 1, std::move(x));
  tern::send<&take>(to, value, hops - 1, x);
  if (value != never) set(x, value, -7); // after it has left
}
void take(int value, int hops, hetero_object<int> x) {
  if (rolls().chance(0.2)) take_time();
  if (value != never && rolls().chance(0.3)) {
    set(x, value, value + 1000);
    ++value;
    value += 999;
  }
  if (hops > 0) return go_on(value, hops, std::move(x));
  check(x, value);
}
void ignore(hetero_object<int>) {}
hetero_object<int> answer(int value, hetero_object<int> x) {
  take_time();
  if (value != never) set(x, value, value + 5);
  return x;
}

class block {
public:
  void take(int value, int hops, hetero_object<int> x) { travel_properties::take(value, hops, std::move(x)); }
  template <class A> void serialize(A&) {}
};

struct misfit {
  template <class A> void save(A& ar) const {
    if constexpr (!std::is_same_v<A, tern::size_archive>) throw tern::error(tern::errc::cancelled, "a misfit");
    ar(1);
  }
  template <class A> void load(A&) {}
};
void take_misfit(hetero_object<int>, misfit) {}

void wait_for_tasks() {
  for (;;) {
    try {
      return tern::wait_all();
    } catch (const tern::error& e) {
      TERN_HOLDS(e.code() == tern::errc::io, std::string("unexpected: ") + e.what());
    }
  }
}

TERN_PROPERTY(objects_arrive_as_they_were_sent,
              "ranks=1..8 workers=1..3 faults=delay:reorder:slow:pause network=any room=0..8 aggregate=0..2 "
              "objects=1..4 steps=1..30 elements=1..6000 moves=0..3 failing=0..2 devices=0..2 landing=0..40 ahead=0..4 "
              "verified=0..1 large=0..1 codec=0..2") {
  std::vector<tern::mobile_ptr<block>> blocks;
  const auto own = tern::create<block>();
  blocks = tern::broadcast(tern::gather(own));
  const auto gone = tern::create<block>();
  tern::destroy(gone).get();
  struct local {
    hetero_object<int> object;
    int value;
  };
  std::vector<local> mine;
  const std::int64_t largest = std::max<std::int64_t>(knob("elements") * (knob("large") != 0 ? 50 : 1), 600);
  const auto fresh = [] {
    const auto most = knob("elements") * (knob("large") != 0 && rolls().chance(0.2) ? 50 : 1); // in several pieces
    const auto n = rolls().chance(0.5) ? rolls().between(1, 600) : rolls().between(1, most);
    return local{hetero_object<int>(n, 0), 0};
  };
  for (std::int64_t i = 0; i < knob("objects"); ++i) mine.push_back(fresh());
  int next = 1;
  std::vector<tern::future<void>> open;
  struct reply {
    tern::future<hetero_object<int>> object;
    int value;
  };
  std::vector<reply> replies;
  for (std::int64_t step = 0; step < knob("steps"); ++step) {
    local& x = mine[static_cast<std::size_t>(rolls().below(knob("objects")))];
    const auto what = rolls().below(12);
    const int hops = static_cast<int>(rolls().below(3));
    if (rolls().chance(0.3)) take_time();
    if (x.value == never) x = fresh();
    if (rolls().chance(0.5)) {
      const int value = rolls().chance(0.03 * static_cast<double>(knob("failing"))) ? never : next++;
      set(x.object, x.value, value);
      x.value = value;
    }
    switch (what) {
    case 0:
    case 1:
    case 2:
      ++all->sent;
      if (rolls().chance(0.3))
        tern::send<&take>(any_rank(), x.value, hops, tern::compressed(x.object, any_codec()));
      else
        tern::send<&take>(any_rank(), x.value, hops, x.object);
      break;
    case 3:
    case 4:
      ++all->sent;
      tern::send<&take>(any_rank(), x.value, hops, std::move(x.object));
      x = fresh();
      break;
    case 5:
    case 6:
      ++all->sent;
      tern::send<&block::take>(blocks[static_cast<std::size_t>(any_rank())], x.value, hops, x.object);
      if (rolls().chance(0.2 * static_cast<double>(knob("moves")))) open.push_back(tern::migrate(own, any_rank()));
      break;
    case 7:
      ++all->sent;
      replies.push_back({tern::call<&answer>(any_rank(), x.value, x.object), x.value == never ? never : x.value + 5});
      break;
    case 8:
      tern::send<&ignore>(any_rank(), x.object);
      break;
    case 9:
      try {
        tern::send<&take_misfit>(any_rank(), x.object, misfit());
        TERN_HOLDS(false, "a misfit was sent");
      } catch (const tern::error& e) {
        TERN_HOLDS(e.code() == tern::errc::cancelled, std::string("unexpected: ") + e.what());
      }
      break;
    case 10:
      try {
        tern::call<&block::take>(gone, x.value, 0, x.object).get();
        TERN_HOLDS(false, "an object that is gone was invoked");
      } catch (const tern::error& e) {
        TERN_HOLDS(e.code() == tern::errc::not_found, std::string("unexpected: ") + e.what());
      }
      break;
    default:
      try {
        auto late = tern::call<&answer>({.timeout = std::chrono::microseconds(rolls().below(20))}, any_rank(), x.value,
                                        x.object)
                        .get();
        ++all->sent;
        check(late, x.value == never ? never : x.value + 5);
      } catch (const tern::error& e) {
        TERN_HOLDS(e.code() == tern::errc::timeout, std::string("unexpected: ") + e.what());
      }
    }
  }
  for (auto& r : replies) check(r.object.get(), r.value);
  for (auto& f : open) f.get();
  tern::quiesce();
  // A descriptor counts until its data have landed: so nothing is under way now.
  const auto n = tern::global::count_transfers();
  TERN_HOLDS(n.departing == 0, text(static_cast<std::int64_t>(n.departing)) + " transfers have not left after quiesce");
  TERN_HOLDS(n.arriving == 0, text(static_cast<std::int64_t>(n.arriving)) + " transfers have not landed after quiesce");
  if (const std::int64_t most = knob("landing"); most > 0)
    TERN_HOLDS(n.landing_peak <= static_cast<std::uint64_t>(std::max(most * 1024, largest * 4)),
               text(static_cast<std::int64_t>(n.landing_peak)) + " bytes were to land at once");
  wait_for_tasks();
  for (const local& x : mine) check(x.object, x.value);
  all->sent += static_cast<std::int64_t>(mine.size());
  wait_for_tasks();
  tern::barrier();
  TERN_HOLDS(all->sent == all->seen, text(all->sent) + " objects were sent, and " + text(all->seen) + " were seen");
  tern::barrier();
}

} // namespace travel_properties
