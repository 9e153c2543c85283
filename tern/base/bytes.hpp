// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// `byte_buffer`: the owned bytes of a message. Unlike `std::vector<std::byte>` it never fills memory that is about to
/// be overwritten, and its memory comes from `malloc`, so that ownership can cross a C interface (the MPI plug-ins).

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string>
#include <utility>

#include <tern/base/error.hpp>

namespace tern {

/// A move-only, growing array of bytes. New bytes are uninitialised. Aligned as by `malloc` (16 bytes here).
/// Threads: like a standard container. Every function that allocates throws error(out_of_memory) and changes nothing
/// then.
class byte_buffer {
public:
  using value_type = std::byte;

  byte_buffer() noexcept = default;
  /// `size` uninitialised bytes.
  explicit byte_buffer(std::size_t size) : data_(allocate(size)), size_(size), capacity_(size) {}
  byte_buffer(byte_buffer&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)),
        capacity_(std::exchange(other.capacity_, 0)) {}
  byte_buffer& operator=(byte_buffer&& other) noexcept {
    byte_buffer moved(std::move(other));
    swap(moved);
    return *this;
  }
  byte_buffer(const byte_buffer&) = delete;
  byte_buffer& operator=(const byte_buffer&) = delete;
  ~byte_buffer() { std::free(data_); }

  /// Takes over `size` bytes that came from `malloc`; they will be given to `free`. A null pointer goes with size 0.
  static byte_buffer adopt(void* malloced, std::size_t size) noexcept {
    byte_buffer buffer;
    buffer.data_ = static_cast<std::byte*>(malloced);
    buffer.size_ = buffer.capacity_ = malloced ? size : 0;
    return buffer;
  }
  /// A buffer with the same bytes as `bytes`.
  static byte_buffer copy_of(std::span<const std::byte> bytes) {
    byte_buffer buffer(bytes.size());
    if (!bytes.empty()) std::memcpy(buffer.data_, bytes.data(), bytes.size());
    return buffer;
  }
  /// Hands the memory over: the caller gives it to `free`. The buffer is empty afterwards. Null if nothing was
  /// allocated.
  [[nodiscard]] std::byte* release() noexcept {
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

  /// Appends `n` bytes; capacity at least doubles when it must grow. `source` must not point into this buffer.
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
  }
  friend void swap(byte_buffer& a, byte_buffer& b) noexcept { a.swap(b); }
  /// Same size and same bytes.
  friend bool operator==(const byte_buffer& a, const byte_buffer& b) noexcept {
    return a.size_ == b.size_ && (a.size_ == 0 || std::memcmp(a.data_, b.data_, a.size_) == 0);
  }

private:
  // Half the address space: what malloc itself refuses, and small enough that doubling cannot overflow.
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
  void reallocate(std::size_t capacity) {
    void* p = capacity > max_size ? nullptr : std::realloc(data_, capacity);
    if (!p) no_memory(capacity);
    data_ = static_cast<std::byte*>(p);
    capacity_ = capacity;
  }

  std::byte* data_ = nullptr;
  std::size_t size_ = 0, capacity_ = 0;
};

} // namespace tern
