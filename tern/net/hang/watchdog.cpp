// SPDX-License-Identifier: Apache-2.0
#include <tern/net/hang/watchdog.hpp>

#include <algorithm>
#include <cstdio>
#include <string>

#include <tern/base/clock.hpp>
#include <tern/net/node.hpp>
#include <tern/net/report/reporter.hpp>
#include <tern/task/scheduler/scheduler_core.hpp>

namespace tern::net {
namespace {

const option<double> watchdog_option{
    "watchdog", 0, "write a report when nothing has gone on for so many seconds; 0: never", at_least<double>(0)};
const option<bool> abort_option{"watchdog-abort", false, "and end the job then, with code 1"};

} // namespace

watchdog::watchdog(const options& opts)
    : limit_(opts[watchdog_option]), tick_(limit_ > 0 ? std::clamp(limit_ / 8, 0.02, 5.0) : 0),
      abort_(opts[abort_option]), watched_(steady_seconds()), last_look_(watched_), still_since_(watched_) {}

void watchdog::look_if_due() {
  const double now = steady_seconds();
  if (tick_ <= 0 || now - watched_ < 0.9 * tick_) return;
  // No fiber could progress while all threads were stopped, by SIGSTOP or a debugger: the pause
  // counts as one tick.
  const double since_watch = now - watched_;
  watched_ = now;
  const bool was_stopped = since_watch > 2 * tick_;
  if (was_stopped) still_since_ += since_watch - tick_;
  std::uint64_t progress = 0;
  std::size_t ranks = 0;
  double used = 0;
  busy_.begin();
  if (!with_ranks([&](const auto& all) {
        ranks = all.size();
        for (node* n : all) {
          progress += progress_of(*n);
          used += busy_.look(n->fibers().inside());
        }
      }))
    return;
  // A computation enters no fiber and sends nothing, but it uses its CPU.
  const bool computes = used > 0.01 * (was_stopped ? tick_ : now - last_look_);
  const bool moved = progress != progress_ || ranks != ranks_ || ranks == 0;
  progress_ = progress;
  ranks_ = ranks;
  last_look_ = now;
  if (moved || computes) {
    still_since_ = now;
    told_ = false;
    return;
  }
  if (told_ || now - still_since_ < limit_) return;
  told_ = true;
  char reason[100];
  std::snprintf(reason, sizeof reason, "no rank of this process has made progress for %.1f s", now - still_since_);
  bool alone = true;
  const std::string path = compose_report({std::string("the watchdog: ") + reason, {}, {}}, &alone, &busy_);
  if (alone || abort_) say_where(path, std::string(" (") + reason + ")");
  if (abort_)
    with_ranks([&](const auto& all) {
      if (!all.empty()) all.front()->fatal(std::string("the watchdog ends the job: ") + reason);
    });
}

} // namespace tern::net
