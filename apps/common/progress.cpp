// SPDX-License-Identifier: Apache-2.0
#include "apps/common/progress.hpp"

#include <algorithm>
#include <cstdio>
#include <mutex>
#include <string>
#include <utility>

#include <unistd.h>

#include <tern/base/clock.hpp>
#include <tern/net/runtime.hpp>
#include <tern/task/sync.hpp>

namespace apps {
namespace {

struct bar {
  tern::mutex lock; // steps may be reported by several workers
  progress_words words;
  std::size_t steps = 0, done = 0;
  bool quiet = true, terminal = false;
  int shown = -1;
  tern::stopwatch clock;
};
const tern::rank_local<bar> the_bar;

// Under the launcher rank 0's output passes through a pipe, which is no terminal.
bool on_terminal() { return isatty(STDERR_FILENO) == 1; }

void show(bar& b) {
  const int percent = b.steps ? static_cast<int>(100 * b.done / b.steps) : 100;
  if (b.quiet || percent == b.shown) return;
  if (b.terminal) {
    const int width = 40, filled = percent * width / 100;
    std::fprintf(stderr, "\r%s  [%s%s] %3d %%  %zu of %zu %s  %.1f s ", b.words.doing.c_str(),
                 std::string(static_cast<std::size_t>(filled), '#').c_str(),
                 std::string(static_cast<std::size_t>(width - filled), '.').c_str(), percent, b.done, b.steps,
                 b.words.steps.c_str(), b.clock.seconds());
    b.shown = percent;
  } else if (percent / 25 > b.shown / 25) {
    std::fprintf(stderr, "%s: %3d %%, %zu of %zu %s, %.1f s\n", b.words.doing.c_str(), percent, b.done, b.steps,
                 b.words.steps.c_str(), b.clock.seconds());
    b.shown = percent;
  }
  std::fflush(stderr);
}

} // namespace

void progress_begin(progress_words words, std::size_t steps, bool quiet) {
  if (tern::rank() != 0) return;
  bar& b = *the_bar;
  std::lock_guard hold(b.lock);
  b.words = std::move(words);
  b.steps = steps;
  b.quiet = quiet;
  b.terminal = on_terminal();
  b.shown = 0;
  b.clock.restart();
}

void progress_one() {
  bar& b = *the_bar;
  std::lock_guard hold(b.lock);
  ++b.done;
  if (b.steps) show(b); // a fast rank's first step may arrive before rank 0 has begun to count
}

void progress_end() {
  if (tern::rank() != 0) return;
  bar& b = *the_bar;
  std::lock_guard hold(b.lock);
  if (b.terminal && !b.quiet) std::fputs("\n", stderr);
}

} // namespace apps
