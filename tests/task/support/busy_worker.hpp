// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// A worker that is kept in one long body.

#include <atomic>
#include <thread>

#include <tern/task/fiber.hpp>
#include <tern/task/worker/worker.hpp>

namespace tern::test_support {

/// Of two workers, the one on which the calling fiber does not run, from now until `let_go`. In a
/// fiber.
class busy_worker {
public:
  busy_worker()
      : body_(
            [this] {
              busy_ = true;
              while (!free_) std::this_thread::yield();
            },
            {.worker = 1 - tern::detail::this_worker()->index}) {
    while (!busy_) std::this_thread::yield();
  }
  /// Any thread.
  void let_go() noexcept { free_ = true; }
  bool is_free() const noexcept { return free_; }
  /// \pre let_go()
  void join() { body_.join(); }

private:
  std::atomic<bool> busy_{false}, free_{false};
  fiber body_; // goes first
};

} // namespace tern::test_support
