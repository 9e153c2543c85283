// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Memory for large messages. Internal.

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include <tern/base/bytes.hpp>
#include <tern/task/wait/waiting.hpp>

namespace tern::net {

/// Gives memory and keeps what comes back for the next. The system's allocator gives large blocks
/// back to the kernel at once, and takes them page by page again: that costs more than to send
/// them. Any thread. What it gave may outlive it.
class memory_pool {
public:
  /// \param most bytes that are kept for later.
  explicit memory_pool(std::size_t most = std::size_t{256} << 20);
  ~memory_pool();
  memory_pool(const memory_pool&) = delete;
  memory_pool& operator=(const memory_pool&) = delete;

  /// `size` uninitialised bytes, aligned to a cache line; of what the host's processes share, if
  /// they share such. \throws error(out_of_memory).
  byte_buffer take(std::size_t size);
  /// The same in two steps, for C. \return null if there is no memory.
  std::byte* try_take(std::size_t size) noexcept { return store_->try_take(size); }
  byte_buffer wrap(std::byte* taken, std::size_t size) noexcept { return byte_buffer::borrow(taken, size, *store_); }

  std::size_t kept() const noexcept { return store_->kept(); } ///< bytes

private:
  class store final : public byte_lender {
  public:
    explicit store(std::size_t most) noexcept : most_(most) {}
    std::byte* take(std::size_t size);
    std::byte* try_take(std::size_t size) noexcept;
    void take_back(std::byte* data) noexcept override;
    void forget() noexcept; ///< by one of its users
    std::size_t kept() const noexcept { return kept_.load(std::memory_order_relaxed); }

  private:
    struct alignas(64) block { // before the bytes
      block* next;
      unsigned kind;
    };
    // Four sizes to each power of two, from 4 KiB to 1 TiB: at most a fifth is wasted.
    static constexpr unsigned kinds = 4 * 28;
    static unsigned kind_of(std::size_t size) noexcept;
    static std::size_t bytes_of(unsigned kind) noexcept;
    ~store() = default;

    const std::size_t most_;
    std::atomic<std::size_t> kept_{0};  // changes under the lock
    std::atomic<std::size_t> users_{1}; // blocks that are out, and the pool itself
    tern::detail::spin_lock lock_;
    std::unique_ptr<std::array<block*, kinds>> free_; // by kind; made when the first block is kept
  };
  store* const store_;
};

} // namespace tern::net
