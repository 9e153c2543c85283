// SPDX-License-Identifier: Apache-2.0
// What the end of a job promises, at whatever moment it comes: what a send has taken is handled;
// what comes too late is refused; nothing begins after that.
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <tern/base/error.hpp>
#include <tern/net/collectives.hpp>
#include <tern/net/message.hpp>
#include <tern/net/multicast.hpp>
#include <tern/net/runtime.hpp>
#include <tern/task/fiber.hpp>
#include <tern/task/future.hpp>

#include "property.hpp"

namespace shutdown_properties {

using namespace tern::property;
using tern::rank;
using tern::size;

std::string text(std::int64_t n) { return std::to_string(n); }
int any_rank() { return static_cast<int>(rolls().below(size())); }

struct counts {
  std::int64_t taken = 0, refused = 0, handled = 0;
  bool over = false;
};
per_case<counts> all;

// \return whether it was taken. What is refused, is refused for ever.
template <class F> bool attempt(F&& send) {
  try {
    send();
  } catch (const tern::error& e) {
    TERN_HOLDS(e.code() == tern::errc::invalid_state, "it was refused with: " + std::string(e.what()));
    ++all->refused;
    return false;
  }
  ++all->taken;
  return true;
}

void work(std::int64_t left, const std::vector<char>& ballast);
void send_work(std::int64_t left) {
  attempt([&] {
    tern::send<&work>(any_rank(), left,
                      std::vector<char>(static_cast<std::size_t>(rolls().chance(0.05) ? rolls().below(20'000) : 0)));
  });
}
// A fiber without a waiter: it may outlive all main functions.
void start_loose(std::int64_t left) {
  static_cast<void>(tern::async([left] {
    for (std::int64_t n = rolls().below(3); n >= 0; --n) {
      tern::this_fiber::sleep_for(std::chrono::nanoseconds(rolls().below(rolls().chance(0.3) ? 200'000 : 5'000)));
      if (rolls().chance(0.3)) {
        tern::future<void> answer;
        if (!attempt([&] { answer = tern::call<&work>(any_rank(), left, std::vector<char>()); })) continue;
        answer.get(); // a call that was taken is answered, or this fiber would wait for ever
      } else {
        send_work(left);
      }
    }
  }));
}
void work(std::int64_t left, const std::vector<char>&) {
  TERN_HOLDS(!all->over, "a handler began after the end");
  take_time();
  if (left > 0)
    for (std::int64_t n = rolls().below(3); n > 0; --n) {
      if (rolls().chance(0.3))
        start_loose(left - 1);
      else
        send_work(left - 1);
    }
  take_time();
  ++all->handled;
}

TERN_PROPERTY(what_is_taken_is_handled, "ranks=1..9 workers=1..3 faults=delay:reorder:slow:pause network=any room=0..8 "
                                        "aggregate=0..2 loose=0..4 messages=0..8 depth=0..4") {
  if (rank() == 0)
    afterwards([](const ending&) {
      all->over = true;
      TERN_HOLDS(all->taken == all->handled, text(all->taken) + " messages were taken, " + text(all->handled) +
                                                 " handled, " + text(all->refused) + " refused");
    });
  for (std::int64_t n = rolls().below(knob("loose") + 1); n > 0; --n) start_loose(knob("depth"));
  for (std::int64_t n = rolls().below(knob("messages") + 1); n > 0; --n) {
    send_work(knob("depth"));
    take_time();
  }
}

} // namespace shutdown_properties
