// SPDX-License-Identifier: Apache-2.0
// What the net layer promises of messages where networks have little room, whether small ones
// travel together or not.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <tern/net/collectives.hpp>
#include <tern/net/message.hpp>
#include <tern/net/node.hpp>
#include <tern/net/runtime.hpp>
#include <tern/task/fiber.hpp>
#include <tern/task/future.hpp>
#include <tern/task/semaphore.hpp>
#include <tern/task/sim.hpp>

#include "property.hpp"

namespace message_properties {

using namespace tern::property;
using tern::rank;
using tern::size;

int any_rank() { return static_cast<int>(rolls().below(size())); }
std::string text(std::int64_t n) { return std::to_string(n); }

// Mostly small; around the sizes from which messages travel in other ways: alone, as a body, as a
// range of their own.
std::size_t some_bytes() {
  static constexpr std::array<std::size_t, 6> borders{200, 256, 512, 4096, 8192, 16384};
  if (rolls().chance(0.7)) return static_cast<std::size_t>(rolls().below(64));
  const std::size_t border = borders[static_cast<std::size_t>(rolls().below(borders.size()))];
  return border - 64 + static_cast<std::size_t>(rolls().below(128));
}
std::vector<std::uint32_t> made(std::int64_t salt, std::size_t bytes) {
  std::vector<std::uint32_t> v(bytes / sizeof(std::uint32_t));
  for (std::size_t i = 0; i < v.size(); ++i)
    v[i] = static_cast<std::uint32_t>(salt * 1009) + static_cast<std::uint32_t>(i);
  return v;
}
void check_load(std::int64_t salt, std::span<const std::uint32_t> v) {
  for (std::size_t i = 0; i < v.size(); ++i)
    if (v[i] != static_cast<std::uint32_t>(salt * 1009) + static_cast<std::uint32_t>(i)) {
      TERN_HOLDS(v[i] == 0,
                 "element " + text(static_cast<std::int64_t>(i)) + " of message " + text(salt) + " is another");
      TERN_HOLDS(v[i] != 0, "element " + text(static_cast<std::int64_t>(i)) + " of message " + text(salt) +
                                " has been changed by its sender");
      return;
    }
}

// The messages of one fiber to one rank start in the order in which it sent them, each once,
// whatever their kinds.
using channels = std::map<std::tuple<int, std::int64_t, int>, std::int64_t>; // rank, fiber, destination
per_case<channels> sent, started;

void arrive(int from, std::int64_t fiber, std::int64_t number) {
  auto& due = (*started)[{from, fiber, rank()}];
  TERN_HOLDS(number == due, "message " + text(number) + " of fiber " + text(fiber) + " of rank " + text(from) +
                                " started when " + text(due) + " was due");
  due = std::max(due, number + 1);
}
void small(int from, std::int64_t fiber, std::int64_t number) {
  arrive(from, fiber, number);
  take_time();
}
void large(int from, std::int64_t fiber, std::int64_t number, const std::vector<std::uint32_t>& v) {
  arrive(from, fiber, number);
  check_load(number, v);
  take_time();
}
void view(int from, std::int64_t fiber, std::int64_t number, std::span<const std::uint32_t> v) {
  arrive(from, fiber, number);
  take_time();
  check_load(number, v);
}
void kept(int from, std::int64_t fiber, std::int64_t number, tern::buffer<std::uint32_t> b) {
  arrive(from, fiber, number);
  take_time();
  check_load(number, std::span<const std::uint32_t>(b));
}
std::int64_t answered(int from, std::int64_t fiber, std::int64_t number) {
  arrive(from, fiber, number);
  take_time();
  return number;
}
void send_one(std::int64_t fiber, int to) {
  const std::int64_t number = (*sent)[{rank(), fiber, to}]++;
  std::vector<std::uint32_t> v = made(number, some_bytes());
  switch (rolls().below(8)) {
  case 0:
    return tern::send<&large>(to, rank(), fiber, number, v);
  case 1:
    return tern::send<&view>(to, rank(), fiber, number, v);
  case 2:
    return tern::send<&view>(to, rank(), fiber, number, std::move(v));
  case 3:
    return tern::send<&kept>(to, rank(), fiber, number, tern::buffer<std::uint32_t>(std::move(v)));
  case 4:
    tern::send<&view>(to, rank(), fiber, number, tern::lend(v));
    std::fill(v.begin(), v.end(), 0);
    return;
  case 5:
    if (rolls().chance(0.3))
      TERN_HOLDS(tern::call<&answered>(to, rank(), fiber, number).get() == number, "another call's answer");
    else
      static_cast<void>(tern::call<&answered>(to, rank(), fiber, number));
    return;
  default:
    return tern::send<&small>(to, rank(), fiber, number);
  }
}
void send_many(std::int64_t fiber) {
  for (std::int64_t i = 0; i < knob("messages"); ++i) {
    send_one(fiber, any_rank());
    if (rolls().chance(0.2)) take_time();
  }
}
void in_fibers(const std::function<void(std::int64_t)>& body) {
  std::vector<tern::future<void>> fibers;
  for (std::int64_t f = 1; f < knob("fibers"); ++f) fibers.push_back(tern::async([&body, f] { body(f); }));
  body(0);
  for (auto& f : fibers) f.get();
}

TERN_PROPERTY(order_of_all_kinds, "ranks=1..8 workers=1..3 faults=delay:reorder:slow:pause network=any room=0..8 "
                                  "aggregate=0..2 fibers=1..4 messages=1..80") {
  in_fibers(send_many);
  tern::quiesce();
  TERN_HOLDS(*started == *sent, "not all that was sent has started");
  tern::barrier();
}

// Once nothing is under way, a channel has all its room again: for as many messages as it says, and
// for urgent ones.
constexpr int urgent_room = 4;
per_case<std::map<int, std::int64_t>> direct; // by receiver

void count_direct() { ++(*direct)[rank()]; }
bool send_direct(int to, bool urgent) {
  // Past the send queue, which would keep what finds no room; and past what quiesce counts.
  const tern::net::wire_header head{tern::net::detail::function_handler<&count_direct>.id(), tern::net::flag_uncounted,
                                    0};
  tern::byte_buffer none;
  return tern::net::node::here().wire().send(to, std::as_bytes(std::span(&head, 1)), none, urgent);
}
void fill_room() {
  const int room = the_world().slots;
  for (int to = 0; to < size(); ++to) {
    for (int i = 0; i < room; ++i)
      TERN_HOLDS(send_direct(to, false),
                 "a channel to " + text(to) + " took " + text(i) + " messages instead of " + text(room));
    for (int i = 0; i < urgent_room; ++i)
      TERN_HOLDS(send_direct(to, true), "a full channel to " + text(to) + " took " + text(i) + " urgent messages");
  }
}

TERN_PROPERTY(room_comes_back, "ranks=1..6 workers=1..3 faults=delay:reorder:slow:pause network=any room=1..8 "
                               "aggregate=0..2 fibers=1..3 messages=1..30 rounds=1..12") {
  using namespace std::chrono_literals;
  std::int64_t due = 0;
  for (std::int64_t round = 0; round < knob("rounds"); ++round) {
    in_fibers(send_many);
    tern::quiesce();
    tern::this_fiber::sleep_for(1s); // collectives have messages under way after their end
    fill_room();
    due += static_cast<std::int64_t>(size()) * (the_world().slots + urgent_room);
    tern::this_fiber::sleep_for(1s);
    TERN_HOLDS((*direct)[rank()] == due, text((*direct)[rank()]) + " messages of " + text(due) + " have arrived");
    tern::barrier();
  }
}

// A fiber that waits for what comes of one small message goes on, although no rank sends another
// and all ranks wait.
struct wanted {
  std::map<std::int64_t, tern::promise<std::int64_t>> of; // by question
  std::int64_t questions = 0;
};
per_case<wanted> open;

void come_back(std::int64_t question, std::int64_t hops) {
  if (hops > 0) return tern::send<&come_back>(any_rank(), question, hops - 1);
  open->of.at(question).set_value(question);
}
TERN_PROPERTY(one_small_message_is_enough, "ranks=1..8 workers=1..3 faults=delay:reorder:slow:pause network=any "
                                           "room=0..4 aggregate=0..2 fibers=1..4 messages=1..30 hops=0..6") {
  in_fibers([](std::int64_t) {
    for (std::int64_t i = 0; i < knob("messages"); ++i) {
      const std::int64_t question = open->questions++;
      auto answer = open->of[question].get_future();
      tern::send<&come_back>(any_rank(), question, rolls().between(0, knob("hops")));
      TERN_HOLDS(answer.get() == question, "another's answer");
      if (rolls().chance(0.2)) tern::this_fiber::sleep_for(std::chrono::microseconds(rolls().below(100)));
    }
  });
}

// What is lent is seen as it was, however late the handler looks, and given back once: the sender
// changes it at once.
per_case<std::map<std::int64_t, int>> looked;

void look_late(std::int64_t salt, std::span<const std::uint32_t> v, const std::vector<char>&) {
  for (std::int64_t i = rolls().below(5); i > 0; --i) take_time();
  check_load(salt, v);
  if (rolls().chance(0.2)) tern::this_fiber::sleep_for(std::chrono::microseconds(rolls().below(50)));
  check_load(salt, v);
  ++(*looked)[salt];
}
TERN_PROPERTY(lent_memory_is_seen_as_it_was, "ranks=1..6 workers=1..3 faults=delay:reorder:slow:pause network=any "
                                             "room=0..4 aggregate=0..2 fibers=1..5 messages=1..30") {
  in_fibers([](std::int64_t fiber) {
    std::vector<std::uint32_t> v;
    for (std::int64_t i = 0; i < knob("messages"); ++i) {
      const std::int64_t salt = 1 + i + 1000 * (fiber + 10 * rank());
      v = made(salt, rolls().chance(0.5) ? 16384 + static_cast<std::size_t>(rolls().below(9000)) : some_bytes());
      const std::vector<char> load(rolls().chance(0.3) ? some_bytes() : 0); // a large one joins what is lent
      tern::send<&look_late>(any_rank(), salt, tern::lend(v), load);
      std::fill(v.begin(), v.end(), 0);
    }
  });
  tern::quiesce();
  for (std::int64_t f = 0; f < knob("fibers"); ++f)
    for (std::int64_t i = 0; i < knob("messages"); ++i)
      TERN_HOLDS((*looked)[1 + i + 1000 * (f + 10 * rank())] == 1, "a message was not handled once");
  tern::barrier();
}

// The runtime's own messages get through while those of the application fill all room and their
// handlers wait for it.
struct gate {
  std::map<int, bool> open; // by rank
  std::int64_t passed = 0;
};
per_case<gate> gates;

void wait_at_gate(int from, const std::vector<std::uint32_t>& load) {
  check_load(from, load);
  switch (rolls().below(3)) {
  case 0:
    tern::sim::charge(2e-6);
    break;
  case 1:
    TERN_HOLDS(tern::call<&rank>(from).get() == from, "another call's answer");
    break;
  default:
    break;
  }
  tern::wait_until([] { return gates->open[rank()]; });
  ++gates->passed;
}
void open_gate() { gates->open[rank()] = true; }

TERN_PROPERTY(collectives_pass_stuck_messages, "ranks=2..8 workers=1..3 faults=delay:reorder:slow:pause network=any "
                                               "room=1..4 aggregate=0..2 messages=1..60 operations=1..6") {
  for (std::int64_t i = 0; i < knob("messages"); ++i)
    tern::send<&wait_at_gate>(any_rank(), rank(), made(rank(), some_bytes()));
  for (std::int64_t i = 0; i < knob("operations"); ++i) {
    const int sum = tern::allreduce(rank() + 1, std::plus<>());
    TERN_HOLDS(sum == size() * (size() + 1) / 2, "a sum of " + text(sum));
    const auto all = tern::gather(std::string(some_bytes(), 'x'));
    TERN_HOLDS(all.size() == (rank() == 0 ? static_cast<std::size_t>(size()) : 0),
               "gathered from " + text(static_cast<std::int64_t>(all.size())));
    tern::barrier();
  }
  TERN_HOLDS(gates->passed == 0 ||
                 std::any_of(gates->open.begin(), gates->open.end(), [](auto& g) { return g.second; }),
             "a handler has passed a closed gate");
  tern::barrier();
  tern::send<&open_gate>((rank() + 1) % size());
  tern::quiesce();
  TERN_HOLDS(gates->passed == size() * knob("messages"), text(gates->passed) + " handlers have passed");
  tern::barrier();
}

} // namespace message_properties
