// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// `byte_buffer`: the owned bytes of a message. Unlike `std::vector<std::byte>` it never fills
/// memory that is about to be overwritten, and its memory comes from `malloc`, so that ownership
/// can cross a C interface (the MPI plug-ins).

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include <tern/base/error.hpp>

namespace tern {

/// The owner of memory that a `byte_buffer` borrows.
class byte_lender {
public:
  /// The buffer needs it no more. Any thread.
  virtual void take_back(std::byte* data) noexcept = 0;
  /// Is it shared with another buffer?
  virtual bool read_only() const noexcept { return false; }
  /// A share of memory that nobody changes as long as a share of it exists. Null: it is not shared
  /// so.
  virtual std::shared_ptr<const void> share() const noexcept { return nullptr; }
  /// Does it wait for what it has lent? Then a buffer that is to lie for some time gives it back.
  virtual bool waits() const noexcept { return false; }

protected:
  ~byte_lender() = default;
};

/// A move-only, growing array of bytes. New bytes are uninitialised. Aligned as by `malloc` (16
/// bytes here). Threads: like a standard container. Every function that allocates throws
/// error(out_of_memory) and changes nothing then.
class byte_buffer {
public:
  using value_type = std::byte;

  byte_buffer() noexcept = default;
  /// `size` uninitialised bytes.
  explicit byte_buffer(std::size_t size) : data_(allocate(size)), size_(size), capacity_(size) {}
  byte_buffer(byte_buffer&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)),
        capacity_(std::exchange(other.capacity_, 0)), lender_(std::exchange(other.lender_, nullptr)) {}
  byte_buffer& operator=(byte_buffer&& other) noexcept {
    byte_buffer moved(std::move(other));
    swap(moved);
    return *this;
  }
  byte_buffer(const byte_buffer&) = delete;
  byte_buffer& operator=(const byte_buffer&) = delete;
  ~byte_buffer() { give_away(); }

  /// Takes over `size` bytes that came from `malloc`; they will be given to `free`. A null pointer
  /// goes with size 0.
  static byte_buffer adopt(void* malloced, std::size_t size) noexcept {
    byte_buffer buffer;
    buffer.data_ = static_cast<std::byte*>(malloced);
    buffer.size_ = buffer.capacity_ = malloced ? size : 0;
    return buffer;
  }
  /// Uses `size` bytes of another owner's memory, and gives it back when it is destroyed or needs
  /// more.
  static byte_buffer borrow(std::byte* data, std::size_t size, byte_lender& from) noexcept {
    byte_buffer buffer;
    buffer.data_ = data;
    buffer.size_ = buffer.capacity_ = size;
    buffer.lender_ = &from;
    return buffer;
  }
  /// A buffer with the same bytes as `bytes`.
  static byte_buffer copy_of(std::span<const std::byte> bytes) {
    byte_buffer buffer(bytes.size());
    if (!bytes.empty()) std::memcpy(buffer.data_, bytes.data(), bytes.size());
    return buffer;
  }
  /// Is its memory borrowed?
  bool borrowed() const noexcept { return lender_ != nullptr; }
  bool borrowed_from(const byte_lender& lender) const noexcept { return lender_ == &lender; }
  bool writable() const noexcept { return !lender_ || !lender_->read_only(); }
  /// See byte_lender.
  std::shared_ptr<const void> share() const noexcept { return lender_ ? lender_->share() : nullptr; }
  bool is_waited_for() const noexcept { return lender_ && lender_->waits(); }
  /// Forgets what was borrowed: the lender knows that it is not needed, and is not told.
  void forget() noexcept {
    data_ = nullptr;
    size_ = capacity_ = 0;
    lender_ = nullptr;
  }
  /// Hands the memory over: the caller gives it to `free`. What is borrowed is copied first. The
  /// buffer is empty afterwards. Null if nothing was allocated.
  [[nodiscard]] std::byte* release() {
    if (lender_) reallocate(capacity_);
    size_ = capacity_ = 0;
    return std::exchange(data_, nullptr);
  }
  /// A second buffer with the same bytes; written out, because copying a message is never cheap.
  [[nodiscard]] byte_buffer copy() const { return copy_of({data_, size_}); }

  std::byte* data() noexcept { return data_; }
  const std::byte* data() const noexcept { return data_; }
  std::size_t size() const noexcept { return size_; }
  std::size_t capacity() const noexcept { return capacity_; }
  bool empty() const noexcept { return size_ == 0; }
  std::byte* begin() noexcept { return data_; }
  std::byte* end() noexcept { return data_ + size_; }
  const std::byte* begin() const noexcept { return data_; }
  const std::byte* end() const noexcept { return data_ + size_; }
  std::byte& operator[](std::size_t i) noexcept { return data_[i]; }
  const std::byte& operator[](std::size_t i) const noexcept { return data_[i]; }
  std::span<std::byte> bytes() noexcept { return {data_, size_}; }
  std::span<const std::byte> bytes() const noexcept { return {data_, size_}; }
  operator std::span<std::byte>() noexcept { return bytes(); }
  operator std::span<const std::byte>() const noexcept { return bytes(); }

  /// Appends `n` bytes; capacity at least doubles when it must grow. `source` must not point into
  /// this buffer.
  void append(const void* source, std::size_t n) {
    if (n == 0) return;
    if (n > capacity_ - size_) grow(n);
    std::memcpy(data_ + size_, source, n);
    size_ += n;
  }
  void append(std::span<const std::byte> source) { append(source.data(), source.size()); }
  /// Grows with uninitialised bytes, or drops bytes at the end; never gives memory back.
  void resize(std::size_t size) {
    if (size > capacity_) grow(size - size_);
    size_ = size;
  }
  /// Capacity for at least `capacity` bytes.
  void reserve(std::size_t capacity) {
    if (capacity > capacity_) reallocate(capacity);
  }
  /// No bytes; keeps the capacity.
  void clear() noexcept { size_ = 0; }
  void swap(byte_buffer& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    std::swap(capacity_, other.capacity_);
    std::swap(lender_, other.lender_);
  }
  friend void swap(byte_buffer& a, byte_buffer& b) noexcept { a.swap(b); }
  /// Same size and same bytes.
  friend bool operator==(const byte_buffer& a, const byte_buffer& b) noexcept {
    return a.size_ == b.size_ && (a.size_ == 0 || std::memcmp(a.data_, b.data_, a.size_) == 0);
  }

private:
  // Half the address space: what malloc itself refuses, and small enough that doubling cannot
  // overflow.
  static constexpr std::size_t max_size = static_cast<std::size_t>(-1) / 2;

  [[noreturn]] static void no_memory(std::size_t wanted) {
    throw error(errc::out_of_memory, "cannot allocate a buffer of " + std::to_string(wanted) + " bytes",
                "send less at a time, or give the process more memory");
  }
  static std::byte* allocate(std::size_t size) {
    if (size == 0) return nullptr;
    void* p = size > max_size ? nullptr : std::malloc(size);
    if (!p) no_memory(size);
    return static_cast<std::byte*>(p);
  }
  void grow(std::size_t more) {
    if (more > max_size - size_) no_memory(more);
    const std::size_t needed = size_ + more, doubled = capacity_ < 32 ? 64 : 2 * capacity_;
    reallocate(needed > doubled ? needed : doubled);
  }
  void give_away() noexcept {
    if (!data_) return; // moved from, mostly
    if (lender_)
      lender_->take_back(data_);
    else
      std::free(data_);
  }
  void reallocate(std::size_t capacity) {
    void* p = capacity > max_size ? nullptr : lender_ ? std::malloc(capacity) : std::realloc(data_, capacity);
    if (!p) no_memory(capacity);
    if (lender_) {
      std::memcpy(p, data_, size_);
      std::exchange(lender_, nullptr)->take_back(data_);
    }
    data_ = static_cast<std::byte*>(p);
    capacity_ = capacity;
  }

  std::byte* data_ = nullptr;
  std::size_t size_ = 0, capacity_ = 0;
  byte_lender* lender_ = nullptr; // of memory that is not malloc's
};

} // namespace tern
