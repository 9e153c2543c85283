// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Memory that is lent to messages by a fiber that waits until it has come back. Internal.

#include <cstddef>
#include <memory>
#include <utility>

#include <tern/base/bytes.hpp>
#include <tern/task/semaphore.hpp>

namespace tern::net::detail {

/// Keeps its share of an owner's memory until a message needs it no more.
class share_lender final : public byte_lender {
public:
  /// \param constant nobody changes the memory as long as it has an owner: a receiver may keep it.
  share_lender(std::shared_ptr<const void> owner, bool constant) noexcept
      : owner_(std::move(owner)), constant_(constant) {}
  void take_back(std::byte*) noexcept override;
  bool read_only() const noexcept override { return true; }
  std::shared_ptr<const void> share() const noexcept override { return constant_ ? owner_ : nullptr; }
  /// Ends the job with an error's text. Set before `main`, by the room that knows how jobs end.
  static inline void (*tell_waited)(const char* text) noexcept = nullptr;

private:
  friend class deferred_releases;
  std::shared_ptr<const void> owner_;
  const bool constant_;
  share_lender* next_ = nullptr;
};

/// As long as one exists, its thread lets no such share go; then all that came back meanwhile. To
/// let one go may run code of the program's, which may send: not where a lock of ours is held. Made
/// before the lock is taken.
class deferred_releases {
public:
  deferred_releases() noexcept;
  ~deferred_releases();
  deferred_releases(const deferred_releases&) = delete;
  deferred_releases& operator=(const deferred_releases&) = delete;

private:
  friend class share_lender;
  deferred_releases* const outer_;
  share_lender* first_ = nullptr;
};

/// Does the calling thread let go of a share? Then what it sends must not wait for space: it may be
/// in the middle of receiving, and the fiber would go on on another thread than the one that may
/// ask the network.
bool releasing() noexcept;

/// Lends memory, and knows when it comes back.
class loan final : public byte_lender {
public:
  void take_back(std::byte*) noexcept override { returned_.release(1); }
  bool read_only() const noexcept override { return true; }
  void wait() noexcept { returned_.acquire(); } ///< for one that has been lent
  /// The same if it is back already. \return whether it is.
  bool try_wait() noexcept { return returned_.try_acquire(); }

private:
  semaphore returned_{0};
};

} // namespace tern::net::detail
