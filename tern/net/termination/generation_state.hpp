// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Which generation a rank is in, and which ranks it knows to be dead (failure/generation.hpp).
/// Internal.

#include <atomic>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <tern/task/wait/waiting.hpp>

namespace tern::net {

/// As long as no rank has been lost, one comparison that senders make anyway tells so, and the
/// receiver compares no more than ever: messages of the first generation look as they always have.
/// The generation stands in the handler number's upper bits. Threads: any, unless a member says
/// otherwise.
class generation_state {
public:
  static constexpr unsigned shift = 20; ///< of a handler's number in a message: the bits below are the handler's
  static constexpr std::uint32_t handler_mask = (std::uint32_t{1} << shift) - 1;
  static constexpr std::uint32_t modulus = (std::uint32_t{1} << (32 - shift)) - 1;

  explicit generation_state(int ranks);
  ~generation_state();
  generation_state(const generation_state&) = delete;
  generation_state& operator=(const generation_state&) = delete;

  /// Messages to ranks below it need no look at all this: all ranks, or none once one was lost.
  unsigned plain() const noexcept { return plain_.load(std::memory_order_relaxed); }
  int number() const noexcept { return number_.load(std::memory_order_acquire); }
  bool abandoned() const noexcept { return abandoned_.load(std::memory_order_acquire); }
  /// Does a death abandon the generation?
  bool guarded() const noexcept { return guarded_.load(std::memory_order_acquire); }
  void guard() noexcept { guarded_.store(true, std::memory_order_release); }

  std::uint32_t mark() const noexcept { return static_cast<std::uint32_t>(number()) % modulus << shift; }
  enum class age : std::uint8_t { older, same, newer };
  /// Of a message's handler number.
  age compare(std::uint32_t handler) const noexcept {
    const std::uint32_t mine = static_cast<std::uint32_t>(number()) % modulus;
    const std::uint32_t ahead = ((handler >> shift) + modulus - mine) % modulus;
    return ahead == 0 ? age::same : ahead < modulus / 2 ? age::newer : age::older;
  }

  struct death {
    int rank = -1;
    std::string text; ///< for people; may be empty
  };
  /// \return whether it was not known.
  bool add(death d);
  bool is_dead(int rank) const;
  std::size_t dead_count() const;
  std::vector<death> dead() const; ///< ascending
  std::vector<int> living() const; ///< ascending

  // Where messages arrive ---------------------------------------------------------------------------------------------
  void abandon() noexcept {
    abandoned_.store(true, std::memory_order_release);
    plain_.store(0, std::memory_order_relaxed);
  }
  void begin(int number) noexcept {
    number_.store(number, std::memory_order_release);
    abandoned_.store(false, std::memory_order_release);
  }

private:
  const int ranks_;
  std::atomic<unsigned> plain_;
  std::atomic<int> number_{0};
  std::atomic<bool> abandoned_{false}, guarded_{false};
  mutable tern::detail::spin_lock guard_; // of what follows
  std::vector<death> dead_;
};

} // namespace tern::net
