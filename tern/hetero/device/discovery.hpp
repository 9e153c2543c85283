// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What the process, and not one runtime, knows of devices: the libraries that drive them.
/// Internal.
///
/// Several runtimes (ranks, schedulers) of a process look for devices at the same time, and drivers
/// need not bear that: PoCL 3.1 answers the second thread before the first one has initialised it.
/// So a process opens each library once, and asks drivers for their devices under one lock
/// (docs/decisions/0036). What is kept here never changes once it is known and is never destroyed:
/// a runtime may end, or the process, while others go on.

#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>

namespace tern::hetero::detail {

/// Held while drivers are asked which devices there are, and while a device is made from what they
/// answer. Held for as long as a driver takes to initialise itself, a second at worst: other
/// runtimes' workers stand still meanwhile. Nothing that it protects may suspend the calling fiber.
/// Not recursive.
std::unique_lock<std::mutex> lock_discovery();

/// Runs `f` to its end on the stack of a thread. Drivers and their compilers expect one: what they
/// do when they begin, or compile, may take megabytes, and they look for its end. Where the caller
/// runs on one already, as in a thread of the program's, `f` is called there. Else the worker waits
/// for another thread, as it would for `f`. `f` must not need the fiber, nor wait as one. \throws
/// what `f` throws.
void on_thread_stack(const std::function<void()>& f);

/// The functions of libraries, by the name that each was opened by. Make it a static object that is
/// never destroyed. Thread-safe.
template <class Api> class opened_libraries {
public:
  /// \param open is called with no arguments unless the library is known, by one thread at a time,
  /// and returns `std::optional<Api>`: nothing if there is no such library, which is not
  /// remembered.
  template <class F> std::optional<Api> get(const std::string& name, F&& open) {
    const std::lock_guard hold(lock_);
    if (const auto at = known_.find(name); at != known_.end()) return at->second;
    std::optional<Api> found = open();
    if (found) known_.emplace(name, *found);
    return found;
  }

private:
  std::mutex lock_;
  std::map<std::string, Api> known_;
};

} // namespace tern::hetero::detail
