// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What a program may add to its trace: regions, counters and moments, beside what the runtime
/// records by itself.
///
///     void assemble() {
///       tern::trace::region r("assemble");        // a bar from here to the end of the scope
///       ...
///       tern::trace::counter("elements", 1.0 * n); // a curve
///     }
///
/// Without `--tern-trace FILE` each of these is one load and a branch that is not taken. With it
/// they take some tens of nanoseconds. All may be called by any thread and any fiber; none throws.
/// Names are copied: at most 255 bytes of each, at most 65,536 different ones in a process
/// (recorder.hpp); what is beyond goes under one common name.

#include <tern/base/language/compiler.hpp>

#include <atomic>
#include <cstdint>
#include <string_view>

namespace tern::trace {

namespace detail {
/// Which recording is under way: a number that differs between the recordings of a process; 0:
/// none.
extern std::atomic<std::uint32_t> recording;
void write_counter(std::string_view name, double value) noexcept;
void write_instant(std::string_view name) noexcept;
} // namespace detail

/// False in the benchmark's other side, which has no hooks.
#ifdef TERN_NO_TRACE
inline constexpr bool built = false;
#else
inline constexpr bool built = true;
#endif

/// Is anything recorded just now? For what would be expensive to prepare.
inline bool on() noexcept {
  if (!built) return false;
  // relaxed: a thread that writes looks again, under a lock, before it first touches what belongs
  // to the recording
  return detail::recording.load(std::memory_order_relaxed) != 0;
}

/// A bar in the trace from its construction to its destruction. Inside a fiber it belongs to the
/// fiber: it may contain anything that suspends, goes on when the fiber does, on whatever worker,
/// and must end in the fiber in which it began. Regions of one fiber, or of one thread outside
/// fibers, nest.
class region {
public:
  explicit region(std::string_view name) noexcept {
    if (on()) [[unlikely]]
      begin(name);
  }
  ~region() {
    if (recording_ != 0) [[unlikely]]
      end();
  }
  region(const region&) = delete;
  region& operator=(const region&) = delete;

private:
  void begin(std::string_view name) noexcept;
  void end() const noexcept;

  std::uint32_t recording_ = 0, name_ = 0;
};

/// The value of a quantity from now on, drawn as a curve for each rank.
inline void counter(std::string_view name, double value) noexcept {
  if (on()) [[unlikely]]
    detail::write_counter(name, value);
}

/// Something that happens now and takes no time.
inline void instant(std::string_view name) noexcept {
  if (on()) [[unlikely]]
    detail::write_instant(name);
}

} // namespace tern::trace
