// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Many small messages in one. Internal.
///
/// A batch is the head of a message for the handler "tern batch", whose `wire_header::reply` is the number of records.
/// After the header each record is the size of a message (8 bytes), the message, and padding to 8 bytes.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include <tern/base/bytes.hpp>
#include <tern/net/handler.hpp>
#include <tern/net/transport.hpp>

namespace tern::net {

inline constexpr std::size_t most_gathered = 256; ///< bytes of a message above which it travels alone

inline constexpr std::size_t record_bytes(std::size_t message) noexcept {
  return 8 + ((message + 7) & ~std::size_t{7});
}

/// One that is being filled.
class batch_writer {
public:
  /// \pre room for at least one message of `most_gathered` bytes. \param id of the handler of batches.
  batch_writer(std::byte* room, std::size_t size, std::uint32_t id) noexcept : room_(room), size_(size), id_(id) {}

  bool empty() const noexcept { return count_ == 0; }
  bool has_room(std::size_t message) const noexcept { return used_ + record_bytes(message) <= size_; }
  /// \pre has_room
  void add(std::span<const std::byte> message) noexcept {
    const std::uint64_t size = message.size();
    std::memcpy(room_ + used_, &size, sizeof size);
    std::memcpy(room_ + used_ + sizeof size, message.data(), message.size());
    used_ += record_bytes(message.size());
    ++count_;
  }
  /// The whole message; the batch is empty afterwards, its bytes stay until the next `add`.
  std::span<std::byte> finish() noexcept {
    const wire_header h{id_, flag_uncounted, count_};
    std::memcpy(room_, &h, sizeof h);
    const std::span<std::byte> all(room_, used_);
    used_ = sizeof h;
    count_ = 0;
    return all;
  }

private:
  std::byte* room_;
  std::size_t size_, used_ = sizeof(wire_header);
  std::uint32_t id_, count_ = 0;
};

/// One that has arrived: takes it apart, and gives its memory back when the last of its messages is needed no more.
class batch_reader final : public byte_lender {
public:
  /// \throws error(invalid_data) if it cannot be one.
  static batch_reader* open(arrival&& whole);
  /// The next message, which lies in the batch. \return false if that was the last; then nothing may be called any
  /// more. \throws error(invalid_data). Owner.
  bool next(arrival& into);
  /// Instead of further calls of `next`.
  void abandon() noexcept {
    const std::uint64_t mine = unread_ + 1;
    if (left_.fetch_sub(mine, std::memory_order_acq_rel) == mine) delete this;
  }
  void take_back(std::byte*) noexcept override {
    if (left_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
  }

private:
  batch_reader(arrival&& whole, std::uint64_t count) noexcept
      : whole_(std::move(whole)), left_(count + 1), // and the reader's own
        unread_(count) {}
  ~batch_reader() = default;
  arrival whole_;
  std::atomic<std::uint64_t> left_;
  std::uint64_t unread_;
  std::size_t at_ = sizeof(wire_header);
};

} // namespace tern::net
