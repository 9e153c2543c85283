// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Memory that is lent to messages by whoever waits until it has come back. Internal.

#include <cstddef>
#include <memory>
#include <utility>

#include <tern/base/bytes.hpp>
#include <tern/task/semaphore.hpp>

namespace tern::net::detail {

/// Keeps its share of somebody's memory until a message needs it no more.
class share_lender final : public byte_lender {
public:
  explicit share_lender(std::shared_ptr<const void> owner) noexcept : owner_(std::move(owner)) {}
  void take_back(std::byte*) noexcept override;
  bool read_only() const noexcept override { return true; }

private:
  friend class shares_later;
  std::shared_ptr<const void> owner_;
  share_lender* next_ = nullptr;
};

/// As long as one exists, its thread lets no such share go; then all that came back meanwhile. To let one go may run
/// code of the program's, which may send: not where a lock of ours is held. Made before the lock is taken.
class shares_later {
public:
  shares_later() noexcept;
  ~shares_later();
  shares_later(const shares_later&) = delete;
  shares_later& operator=(const shares_later&) = delete;

private:
  friend class share_lender;
  shares_later* const outer_;
  share_lender* first_ = nullptr;
};

/// Does the calling thread let go of a share? Then what it sends must not wait for room: it may be in the middle of
/// receiving, and the fiber would go on on another thread than the one that may ask the network.
bool letting_go() noexcept;

/// Lends memory, and knows when it comes back.
class loan final : public byte_lender {
public:
  void take_back(std::byte*) noexcept override { returned_.release(1); }
  bool read_only() const noexcept override { return true; }
  void wait() noexcept { returned_.acquire(); } ///< for one that has been lent

private:
  semaphore returned_{0};
};

} // namespace tern::net::detail
