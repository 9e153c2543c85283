// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Which way a body of middle size takes between two ranks of a host: by what both ways have cost.
/// Like spsc_ring.hpp it is used between processes and depends on nothing else of Tern. Internal.
///
/// Through the ring, the sender and the receiver each copy a body once, and each line of the ring
/// travels between their cores and back. A body that is read is copied once, by the receiver, in a
/// system call that pins each of its pages. Which of the two costs less depends on the distance of
/// the cores, and a virtual machine's CPUs move while a job runs. So both ends measure their
/// copies. The receiver tells its costs in memory that both share, and the sender takes the way
/// that costs less. From time to time it takes the other one, to learn whether that still costs
/// more: `burst` bodies each time, as often as costs `1 / share` of the time.
///
/// The choice changes neither what arrives nor its order. docs/decisions/0048 has measurements.

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace tern::net::detail {

/// What one end's part of one way costs, for bodies of like sizes.
class copy_cost {
public:
  static constexpr std::uint64_t page = 4096, most = 0xffff;
  static constexpr int learning = 4; ///< samples before a cost is known

  /// \param ticks of any clock that both ends share.
  void add(std::uint64_t ticks, std::size_t bytes) noexcept {
    const auto sample = static_cast<float>(std::clamp<std::uint64_t>(ticks * page / bytes, 1, most));
    if (samples_ < learning) {
      // The least: the first ones touch memory that is new.
      value_ = samples_++ == 0 ? sample : std::min(value_, sample);
    } else if (sample < value_) {
      value_ += (sample - value_) / 4;
    } else {
      // Interrupts lengthen a copy, and nothing shortens one: so a rise counts less, and at most
      // for a doubling.
      value_ += (std::min(sample, 2 * value_) - value_) / 8;
    }
  }
  /// Ticks for a page; 0: not known yet.
  std::uint32_t per_page() const noexcept { return samples_ < learning ? 0 : static_cast<std::uint32_t>(value_); }

private:
  float value_ = 0;
  int samples_ = 0;
};

/// Bodies that may go either way. What is smaller costs less through the ring wherever the ranks
/// are; what is larger does not fit into it.
inline constexpr std::size_t least_choice = std::size_t{8} << 10, most_choice = std::size_t{64} << 10;
constexpr bool has_choice(std::size_t bytes) noexcept { return bytes >= least_choice && bytes <= most_choice; }

/// Sizes whose costs are told apart: up to 16 KiB, up to 32 KiB, and above.
inline constexpr std::size_t body_classes = 3;
constexpr std::size_t body_class_of(std::size_t bytes) noexcept {
  return bytes <= std::size_t{16} << 10 ? 0 : bytes <= std::size_t{32} << 10 ? 1 : 2;
}

/// The receiver's costs of one way from one sender.
class told_costs {
public:
  using word = std::atomic<std::uint64_t>; ///< 16 bits for each class; 0 at first

  /// \param told the sender looks there, so it is written only when a cost has changed by an
  /// eighth.
  void add(std::uint64_t ticks, std::size_t bytes, word& told) noexcept {
    if (!has_choice(bytes)) return;
    const std::size_t c = body_class_of(bytes);
    costs_[c].add(ticks, bytes);
    const std::uint32_t now = costs_[c].per_page(), before = of(told_, c);
    if ((now > before ? now - before : before - now) <= before / 8) return;
    told_ = (told_ & ~(std::uint64_t{copy_cost::most} << 16 * c)) | std::uint64_t{now} << 16 * c;
    told.store(told_, std::memory_order_relaxed); // a number and nothing behind it
  }
  static std::uint32_t of(std::uint64_t told, std::size_t body_class) noexcept {
    return static_cast<std::uint32_t>(told >> 16 * body_class & copy_cost::most);
  }

private:
  std::array<copy_cost, body_classes> costs_{};
  std::uint64_t told_ = 0;
};

/// The sender's choice for one receiver.
class carrier_choice {
public:
  enum class way : std::uint8_t { ring, reading };
  static constexpr std::uint64_t share = 64; ///< one of so many parts of the time goes into learning
  static constexpr std::uint64_t burst = 4;  ///< bodies; the first finds the way's memory cold

  /// The sender's own copy into the ring.
  void sent(std::uint64_t ticks, std::size_t bytes) noexcept {
    if (has_choice(bytes)) puts_[body_class_of(bytes)].add(ticks, bytes);
  }

  /// For the next body. \param takes, reads what the receiver has told of its copies out of the
  /// ring, and of reading. \pre has_choice(bytes).
  way choose(std::size_t bytes, std::uint64_t takes, std::uint64_t reads) noexcept {
    const std::size_t c = body_class_of(bytes);
    const std::uint64_t put = puts_[c].per_page(), take = told_costs::of(takes, c), read = told_costs::of(reads, c);
    if (put == 0 || take == 0) return way::ring;
    if (read == 0) return way::reading;
    learner& l = learners_[c];
    const auto cost = [&](way w) { return w == way::ring ? put + take : read; };
    // By an eighth at least: the two ranks that send to each other had better do the same.
    const std::uint64_t now = cost(l.usual), then = cost(other(l.usual));
    if (then + then / 8 < now) l.usual = other(l.usual);
    if (l.left > 0) {
      --l.left;
      return other(l.usual);
    }
    const std::uint64_t usual = cost(l.usual), learning = cost(other(l.usual));
    l.spent += usual;
    const std::uint64_t loss = learning > usual ? learning - usual : 0;
    if (l.spent < burst * std::max(share * loss, share / 2 * usual)) return l.usual;
    l.spent = 0;
    l.left = burst - 1;
    return other(l.usual);
  }

private:
  struct learner {
    way usual = way::ring;
    std::uint64_t spent = 0; // on the usual way since the last burst, ticks for a page each
    std::uint64_t left = 0;  // of a burst
  };
  static constexpr way other(way w) noexcept { return w == way::ring ? way::reading : way::ring; }

  std::array<copy_cost, body_classes> puts_{};
  std::array<learner, body_classes> learners_{};
};

} // namespace tern::net::detail
