// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Whether small equal tasks that are ready at the same time are put into one launch. Internal.
///
/// One launch of many costs little more than one of one, but all of it ends together, and is in one
/// stream. What is better depends on the kernel, its size and the device, so it is measured: the
/// device's time for each task of a kind, while there is any at it, over an epoch of tasks launched
/// apart and over one of tasks launched together. The better way is kept, and the other one is
/// tried again now and then, the less often the more often it was worse.
///
/// What else the machine does only ever adds to such times. So the least of the last few epochs of
/// each way counts, and what is kept changes only for a clear difference. Where both ways take
/// about as long, tasks are launched together: that is fewer calls for the host.
///
/// Threads: the device worker's alone. The clock is the caller's, so a simulation decides the same
/// each time.

#include <array>
#include <cstddef>
#include <cstdint>
#include <unordered_map>

#include <tern/hetero/device/device.hpp>

namespace tern::hetero::detail {

/// Tasks of one kernel and one shape.
class fused_kind {
public:
  static constexpr std::size_t epoch = 128; ///< tasks that are measured together
  static constexpr std::size_t hot = 64;    ///< tasks that could have been together, before it is tried
  static constexpr int looks = 3;           ///< epochs of each way, before one is chosen
  static constexpr int remembered = 8;      ///< the last ones of each, of which the quickest counts
  /// Epochs of the better way, then one of the other; so many times as many as that costs more, and
  /// up to `rarest` times that if it has been worse again and again.
  static constexpr std::uint64_t every = 32, rarest = 8;
  /// Together from the first pair of epochs on if that is so many times as quick.
  static constexpr std::int64_t evident = 4;

  /// Is the next batch to be launched together?
  bool together() const noexcept { return together_; }
  /// It cannot be: from now on apart.
  void never() noexcept;
  /// So many tasks that were ready at once have been launched.
  void began(std::int64_t now, std::size_t n) noexcept;
  /// So many of those that began have ended.
  void ended(std::int64_t now, std::size_t n) noexcept;
  /// Nanoseconds for a task; 0: not known yet.
  std::int64_t cost(bool together) const noexcept;

private:
  struct measured {
    std::array<std::int64_t, remembered> last{};
    std::uint64_t count = 0;
    std::int64_t least() const noexcept; ///< 0: none
  };
  void end_epoch() noexcept;
  bool is_learning() const noexcept;
  bool better_together() const noexcept;
  bool look_at_other_way() noexcept;

  bool together_ = false, never_ = false;
  std::size_t at_device_ = 0, old_ = 0; ///< old: launched before the way was changed
  std::size_t done_ = 0, could_be_ = 0;
  std::int64_t since_ = 0, busy_ = 0;
  bool kept_ = false, knows_ = false; // the better way: together; it has been chosen
  std::uint64_t epochs_ = 0;          // since the other way was tried
  std::uint64_t patience_ = 1;        // how many times as many are to pass, for what was seen so far
  std::array<measured, 2> modes_;     ///< apart, together
};

/// The kinds of a device's tasks.
class fusion {
public:
  /// Always the same one for a kernel and a shape. \pre the device fuses it.
  fused_kind& of(const launch_request& what) { return kinds_[{what.code, what.shape, what.dynamic_bytes}]; }
  /// Can they be in one launch?
  static bool equal(const launch_request& a, const launch_request& b) noexcept {
    return key{a.code, a.shape, a.dynamic_bytes} == key{b.code, b.shape, b.dynamic_bytes};
  }

private:
  struct key {
    const kernel_code* code;
    grid shape;
    std::size_t dynamic_bytes;
    bool operator==(const key& o) const noexcept {
      return code == o.code && shape.groups == o.shape.groups && shape.items == o.shape.items &&
             dynamic_bytes == o.dynamic_bytes;
    }
  };
  struct hash {
    std::size_t operator()(const key& k) const noexcept;
  };
  std::unordered_map<key, fused_kind, hash> kinds_; // address: looked up only; references stay
};

} // namespace tern::hetero::detail
