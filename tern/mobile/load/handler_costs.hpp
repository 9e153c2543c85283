// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// How long the functions take that are invoked on objects. Internal.

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include <tern/mobile/entry/long_rhythm.hpp>

namespace tern::mobile {

struct type_record;

namespace detail {

/// What is expected of an invocation of a function.
enum class expected : std::uint8_t {
  quick,      ///< hardly any is long
  by_object,  ///< some are long: `handler_costs::waits` looks at the object
  takes_long, ///< hardly any is quick, or the function has never run
};

/// How often the invocations of each function were long lately: by function, by class of objects,
/// and by the place in the object's rhythm. Tells those that begin at once also while a policy is
/// in use from those that wait for a worker. Thread-safe after `prepare`; two threads that note at
/// once may lose one of the times.
class handler_costs {
public:
  handler_costs() noexcept = default;
  ~handler_costs();
  handler_costs(const handler_costs&) = delete;
  handler_costs& operator=(const handler_costs&) = delete;

  /// Makes room for all handlers of the program, once. One thread at a time; all others come after
  /// it.
  void prepare();
  /// Is this what is called long: worth a place in a queue?
  static bool is_long(double seconds) noexcept { return seconds >= long_seconds; }
  expected expects(std::uint32_t handler) const noexcept;
  /// Should an invocation wait for a worker? For functions that are judged `by_object`.
  /// \param place in the object's rhythm. \param wanted a worker or another rank would take the
  /// object now: then the time counts that the invocation takes on average, even if most are quick.
  bool waits(std::uint32_t handler, const type_record& type, int place, bool wanted) const noexcept;
  /// An invocation has run for so long. \param place before it ran.
  void note(std::uint32_t handler, const type_record& type, int place, double seconds) noexcept;
  /// Counts a quick invocation. \return whether this one is to be measured: one in sixteen is, at
  /// irregular distances, so that no rhythm of the program hides its long ones.
  bool measures_next() noexcept;

private:
  static constexpr double long_seconds = 5e-6;

  /// Of one function on objects of one class. What is not known is negative.
  struct class_costs {
    const type_record* of;
    class_costs* next;
    std::atomic<float> seconds{-1};                            ///< of the long ones
    std::array<std::atomic<float>, long_rhythm::places> share; ///< of long ones, by place
    std::atomic<float> share_unknown{-1};                      ///< likewise, where the place is not known
  };
  struct function_costs {
    std::atomic<float> share{-1}; ///< of long ones among those that were measured lately
    std::atomic<class_costs*> classes{nullptr};
  };
  static expected judge(float share) noexcept;
  static class_costs* find(const function_costs& h, const type_record& type) noexcept;
  static class_costs* of(function_costs& h, const type_record& type) noexcept;

  std::unique_ptr<function_costs[]> functions_; ///< made when it is wanted first
  std::size_t count_ = 0;
  std::atomic<std::uint32_t> quick_runs_{0}, measure_at_{1};
};

} // namespace detail
} // namespace tern::mobile
