// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The last few messages of a rank, for reports. Internal.

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace tern::net {

/// Several threads may note and others read meanwhile. Two that note at the same moment may take
/// the same place, and one of them is lost: these lines are for people, and a message must not pay
/// for a read-modify-write of a shared word.
class message_log {
public:
  static constexpr std::size_t kept = 16;
  struct line {
    std::int64_t when = 0; ///< of tern::detail::ticks
    std::uint64_t reply = 0;
    std::uint64_t bytes = 0;
    std::uint32_t handler = 0;
    std::int32_t peer = 0;
  };

  void note(const line& l) noexcept {
    const std::uint64_t n = count_.load(std::memory_order_relaxed);
    count_.store(n + 1, std::memory_order_relaxed);
    place& p = places_[n % kept];
    p.when.store(l.when, std::memory_order_relaxed);
    p.reply.store(l.reply, std::memory_order_relaxed);
    p.bytes.store(l.bytes, std::memory_order_relaxed);
    p.who.store(std::uint64_t{l.handler} << 32 | static_cast<std::uint32_t>(l.peer), std::memory_order_relaxed);
  }
  /// About how many were noted.
  std::uint64_t count() const noexcept { return count_.load(std::memory_order_relaxed); }
  /// The latest first.
  std::vector<line> latest() const {
    std::vector<line> lines;
    const std::uint64_t n = count();
    for (std::uint64_t i = n; i > 0 && lines.size() < kept; --i) {
      const place& p = places_[(i - 1) % kept];
      const std::uint64_t who = p.who.load(std::memory_order_relaxed);
      lines.push_back({p.when.load(std::memory_order_relaxed), p.reply.load(std::memory_order_relaxed),
                       p.bytes.load(std::memory_order_relaxed), static_cast<std::uint32_t>(who >> 32),
                       static_cast<std::int32_t>(static_cast<std::uint32_t>(who))});
    }
    return lines;
  }

private:
  struct alignas(32) place {
    std::atomic<std::int64_t> when{0};
    std::atomic<std::uint64_t> reply{0}, bytes{0}, who{0};
  };
  alignas(64) std::atomic<std::uint64_t> count_{0};
  std::array<place, kept> places_;
};

} // namespace tern::net
