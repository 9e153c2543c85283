// SPDX-License-Identifier: Apache-2.0
#include <tern/net/rank/exit_guard.hpp>

#include <cstdlib>
#include <mutex>
#include <string>

#include <unistd.h>

#include <tern/base/error.hpp>
#include <tern/net/node.hpp>
#include <tern/task/wait/waiting.hpp>

namespace tern::net::detail {

struct exit_guard::list {
  tern::detail::spin_lock lock;
  exit_guard* newest = nullptr;
  pid_t process = 0; // a forked child may exit as it likes
  bool armed = true, exiting = false;
  static list& all() noexcept {
    static list one;
    return one;
  }
};

exit_guard::exit_guard(node& here) noexcept : here_(here) {
  static const int asked = on_exit(&exit_guard::at_exit, nullptr); // glibc's: an `atexit` does not know the code
  static_cast<void>(asked);
  list& l = list::all();
  const std::lock_guard hold(l.lock);
  l.process = getpid();
  older_ = l.newest;
  if (older_) older_->newer_ = this;
  l.newest = this;
}

exit_guard::~exit_guard() {
  list& l = list::all();
  l.lock.lock();
  while (l.exiting) { // another thread ends the job
    l.lock.unlock();
    pause();
    l.lock.lock();
  }
  const std::lock_guard hold(l.lock, std::adopt_lock);
  (newer_ ? newer_->older_ : l.newest) = older_;
  if (older_) older_->newer_ = newer_;
}

void exit_guard::disarm() noexcept {
  list& l = list::all();
  const std::lock_guard hold(l.lock);
  l.armed = false;
}

void exit_guard::at_exit(int code, void*) {
  list& l = list::all();
  node* some = nullptr;
  {
    const std::lock_guard hold(l.lock);
    if (!l.newest || !l.armed || l.process != getpid()) return;
    some = &l.newest->here_;
    l.exiting = true; // it stays until the process has gone
  }
  const node* const caller = node::current();
  some->fatal(error(errc::invalid_state,
                    (caller ? "rank " + std::to_string(caller->rank()) : std::string("a thread of the program")) +
                        " called exit(" + std::to_string(code) + ") before the job had ended",
                    "return the code from the function given to tern::run, or throw: so all ranks end together")
                  .what(),
              (code & 255) == 0 ? 1 : code & 255);
}

} // namespace tern::net::detail
