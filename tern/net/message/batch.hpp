// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Many small messages in one. Internal.
///
/// A batch is the head of a message for the handler "tern batch", whose `wire_header::reply` is the
/// number of records. After the header each record is the size of a message (8 bytes), the message,
/// and padding to 8 bytes.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include <tern/base/bytes.hpp>
#include <tern/net/handler.hpp>
#include <tern/net/transport.hpp>
#include <tern/net/transport/thread_id.hpp>

namespace tern::net {

/// The handler of batches: a batch in a batch is refused.
[[gnu::visibility("hidden")]] extern const handler_record batch_record;

inline constexpr std::size_t most_gathered = 256; ///< bytes of a message above which it travels alone

inline constexpr std::size_t record_bytes(std::size_t message) noexcept {
  return 8 + ((message + 7) & ~std::size_t{7});
}

/// One that is being filled.
class batch_writer {
public:
  /// \pre space for at least one message of `most_gathered` bytes. \param id of the handler of
  /// batches.
  batch_writer(std::byte* space, std::size_t size, std::uint32_t id) noexcept : space_(space), size_(size), id_(id) {}

  bool empty() const noexcept { return count_ == 0; }
  bool has_space(std::size_t message) const noexcept { return used_ + record_bytes(message) <= size_; }
  /// One more message, of `size` bytes. \return where they are to be written. \pre has_space
  std::byte* place(std::uint64_t size) noexcept {
    std::byte* const record = space_ + used_;
    std::memcpy(record, &size, sizeof size);
    used_ += record_bytes(size);
    ++count_;
    return record + sizeof size;
  }
  /// \pre has_space
  void add(std::span<const std::byte> message) noexcept {
    std::memcpy(place(message.size()), message.data(), message.size());
  }
  /// The whole message; the batch is empty afterwards, its bytes stay until the next `add`.
  std::span<std::byte> finish() noexcept {
    const wire_header h{id_, flag_uncounted, count_};
    std::memcpy(space_, &h, sizeof h);
    const std::span<std::byte> all(space_, used_);
    used_ = sizeof h;
    count_ = 0;
    return all;
  }

private:
  std::byte* space_;
  std::size_t size_, used_ = sizeof(wire_header);
  std::uint32_t id_, count_ = 0;
};

/// One that has arrived: takes it apart, and gives its memory back when the last of its messages is
/// needed no more.
class batch_reader final : public byte_lender {
public:
  /// \throws error(invalid_data) if it cannot be one.
  static batch_reader* open(arrival&& whole);
  /// The next message, which lies in the batch. \return false if there is none. \throws
  /// error(invalid_data). Owner.
  bool peek(std::span<std::byte>& message) const {
    const std::size_t left = whole_.head.size() - at_;
    if (unread_ == 0) [[unlikely]] {
      if (left != 0) left_over();
      return false;
    }
    std::byte* const record = const_cast<std::byte*>(whole_.head.data()) + at_;
    std::uint64_t size = 0;
    if (left >= sizeof size) [[likely]]
      std::memcpy(&size, record, sizeof size);
    if (left < sizeof size || size > left - sizeof size || record_bytes(size) > left) [[unlikely]]
      does_not_fit(size);
    message = {record + sizeof size, static_cast<std::size_t>(size)};
    return true;
  }
  /// Takes what `peek` found: it is given back by `take_back` or, by the owner while it still
  /// reads, by `done_here`.
  void take(std::span<const std::byte> message) noexcept {
    --unread_;
    at_ += record_bytes(message.size());
  }
  /// The next message as one that has arrived. \return false if there is none; then the batch has
  /// been abandoned.
  bool next(arrival& into) {
    std::span<std::byte> message;
    if (!peek(message)) {
      abandon();
      return false;
    }
    take(message);
    into.source = source();
    into.head = byte_buffer::borrow(message.data(), message.size(), *this);
    return true;
  }
  int source() const noexcept { return whole_.source; }
  void done_here() noexcept { ++finished_; }
  /// The owner reads no more of it. It may be gone afterwards.
  void abandon() noexcept {
    reading_ = false;
    forget(unread_ + 1 + finished_);
  }
  void take_back(std::byte*) noexcept override {
    // Most come back to the owner before the next is read: those it need not tell others of until
    // the end.
    if (this_thread_id() == owner_ && reading_) [[likely]]
      done_here();
    else
      forget(1);
  }

private:
  batch_reader(arrival&& whole, std::uint64_t count) noexcept
      : whole_(std::move(whole)), owner_(this_thread_id()), left_(count + 1), // and the reader's own
        unread_(count) {}
  ~batch_reader() = default;
  [[noreturn]] void left_over() const;
  [[noreturn]] void does_not_fit(std::uint64_t size) const;
  void forget(std::uint64_t n) noexcept {
    if (left_.fetch_sub(n, std::memory_order_acq_rel) == n) delete this;
  }
  arrival whole_;
  const void* const owner_; // thread
  std::atomic<std::uint64_t> left_;
  // The owner's.
  bool reading_ = true;
  std::uint64_t finished_ = 0; // of `left_`, not yet subtracted
  std::uint64_t unread_;
  std::size_t at_ = sizeof(wire_header);
};

} // namespace tern::net
