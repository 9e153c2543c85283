// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Arrays that travel without being copied.
///
///     void store(tern::buffer<double> block);             // a handler that keeps what it gets
///     void keep(tern::shared_buffer<double> block);       // one of many that keep the same
///     void add_up(std::span<const double> block);         // one that looks at it while it runs
///
///     tern::send<&add_up>(1, block);                      // copies the block into the message
///     tern::send<&add_up>(1, std::move(block));           // a std::vector or tern::buffer goes itself
///     tern::send<&add_up>(1, tern::lend(block));          // neither: waits until the block is needed no more
///     tern::send<&add_up>(1, tern::lend(shared));         // neither, nor waits: a std::shared_ptr to a std::vector
///     tern::send<&keep>(1, tern::shared_buffer(std::move(block))); // nor does a rank of this process copy it

#include <cstddef>
#include <cstring>
#include <iterator>
#include <limits>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include <tern/base/archive.hpp>
#include <tern/base/bytes.hpp>

namespace tern {

template <class T> class buffer;

namespace net::detail {
/// Uninitialised; many bytes lie where the other processes of the host can use them, if the job has
/// such memory. \throws error(out_of_memory).
byte_buffer memory_of_elements(std::size_t bytes);
template <class T> class vector_lender final : public byte_lender {
public:
  explicit vector_lender(std::vector<T>&& v) noexcept : vector_(std::move(v)) {}
  std::span<T> elements() noexcept { return vector_; }
  void take_back(std::byte*) noexcept override { delete this; }

private:
  std::vector<T> vector_;
};
struct buffer_access;
} // namespace net::detail

/// A fixed-size array of T, whose memory is handed over when it is moved to a handler, however
/// large it is. T is a number, or a class that `is_bitwise` declares to be one for this purpose.
/// Move-only. Threads: as a std::vector.
template <class T> class buffer {
  static_assert(detail::bitwise<T> && std::is_trivially_copyable_v<T> && alignof(T) <= alignof(std::max_align_t),
                "a buffer holds numbers, or classes declared by tern::is_bitwise");

public:
  using value_type = T;

  buffer() noexcept = default;
  /// `size` uninitialised elements. \throws error(out_of_memory).
  explicit buffer(std::size_t size)
      : memory_(net::detail::memory_of_elements(bytes(size))), data_(reinterpret_cast<T*>(memory_.data())),
        size_(size) {}
  /// Takes the vector's memory over.
  explicit buffer(std::vector<T>&& v) {
    if (v.empty()) return;
    auto owner = std::make_unique<net::detail::vector_lender<T>>(std::move(v));
    const std::span<T> all = owner->elements();
    memory_ = byte_buffer::borrow(reinterpret_cast<std::byte*>(all.data()), all.size_bytes(), *owner);
    static_cast<void>(owner.release()); // it ends itself when the memory is given back
    data_ = all.data();
    size_ = all.size();
  }
  /// With a copy of the elements.
  static buffer copy_of(std::span<const T> elements) {
    buffer b(elements.size());
    if (!elements.empty()) std::memcpy(b.data_, elements.data(), elements.size_bytes());
    return b;
  }
  buffer(buffer&& other) noexcept
      : memory_(std::move(other.memory_)), data_(std::exchange(other.data_, nullptr)),
        size_(std::exchange(other.size_, 0)) {}
  buffer& operator=(buffer&& other) noexcept {
    memory_ = std::move(other.memory_);
    data_ = std::exchange(other.data_, nullptr);
    size_ = std::exchange(other.size_, 0);
    return *this;
  }

  T* data() noexcept { return data_; }
  const T* data() const noexcept { return data_; }
  std::size_t size() const noexcept { return size_; }
  bool empty() const noexcept { return size_ == 0; }
  T* begin() noexcept { return data_; }
  T* end() noexcept { return data_ + size_; }
  const T* begin() const noexcept { return data_; }
  const T* end() const noexcept { return data_ + size_; }
  T& operator[](std::size_t i) noexcept { return data_[i]; }
  const T& operator[](std::size_t i) const noexcept { return data_[i]; }

private:
  friend struct net::detail::buffer_access;
  static std::size_t bytes(std::size_t size) {
    if (size > std::numeric_limits<std::size_t>::max() / 2 / sizeof(T))
      throw error(errc::out_of_memory, "cannot allocate a buffer of " + std::to_string(size) + " elements of " +
                                           std::to_string(sizeof(T)) + " bytes");
    return size * sizeof(T);
  }
  byte_buffer memory_; // exactly the elements
  T* data_ = nullptr;
  std::size_t size_ = 0;
};

/// A fixed-size array of T whose elements never change. A copy of it is another share of the same
/// memory, which is freed with the last one. Made of a `buffer` or a std::vector, whose memory it
/// takes over.
///
/// Requires: as `buffer` of T; no code changes the elements through a pointer from before.
///
/// Guarantees: `send` and `call` copy no elements on this side from 16 KiB on, however often the
/// same memory is sent. A handler with a parameter of this type gets a share without a copy. On a
/// rank of the sender's process, its own or another, it is a share of the sender's memory; also
/// in another process of the host, if the elements were made as a `buffer` of 16 KiB to 32 MiB and
/// the system lets processes share memory. Else it is a share of what has arrived there, which each
/// message brings anew.
///
/// Limits: one range of a message travels so. Others, and less than 16 KiB, are copied into the
/// message. An archive holds the elements: that of an object which migrates, of a result, of a
/// multicast. Each one that is loaded has memory of its own.
///
/// Threads: as std::shared_ptr to a constant. Several may read the elements, and copy and destroy
/// shares of them, at once; one share may be changed by one thread at a time.
///
///     tern::buffer<double> halo(8192);
///     fill(halo);
///     const tern::shared_buffer shared(std::move(halo));
///     for (const auto& one : neighbours) tern::send<&block::keep>(one, shared); // keep(tern::shared_buffer<double>)
template <class T> class shared_buffer {
public:
  using value_type = T;

  shared_buffer() noexcept = default;
  /// \throws error(out_of_memory) or std::bad_alloc; `elements` stay then.
  explicit shared_buffer(buffer<T>&& elements) {
    if (elements.empty()) return;
    const auto owner = std::make_shared<const buffer<T>>(std::move(elements));
    size_ = owner->size();
    first_ = {owner, owner->data()};
  }
  explicit shared_buffer(std::vector<T>&& elements) {
    if (elements.empty()) return;
    const auto owner = std::make_shared<const std::vector<T>>(std::move(elements));
    size_ = owner->size();
    first_ = {owner, owner->data()};
  }
  /// With a copy of the elements. \throws error(out_of_memory).
  static shared_buffer copy_of(std::span<const T> elements) { return shared_buffer(buffer<T>::copy_of(elements)); }
  shared_buffer(const shared_buffer&) noexcept = default;
  shared_buffer& operator=(const shared_buffer&) noexcept = default;
  shared_buffer(shared_buffer&& other) noexcept
      : first_(std::move(other.first_)), size_(std::exchange(other.size_, 0)) {}
  shared_buffer& operator=(shared_buffer&& other) noexcept {
    first_ = std::move(other.first_);
    size_ = std::exchange(other.size_, 0);
    return *this;
  }
  ~shared_buffer() = default;

  const T* data() const noexcept { return first_.get(); }
  std::size_t size() const noexcept { return size_; }
  bool empty() const noexcept { return size_ == 0; }
  const T* begin() const noexcept { return data(); }
  const T* end() const noexcept { return data() + size_; }
  const T& operator[](std::size_t i) const noexcept { return data()[i]; }
  /// How many shares there are in this process, messages included; 0 if empty. A guess while other
  /// threads have some.
  long use_count() const noexcept { return first_.use_count(); }

  template <class A> void save(A& ar) const { ar(std::span<const T>(*this)); }
  /// \throws error(invalid_data) for more elements than there are bytes, error(out_of_memory).
  void load(input_archive& ar) {
    buffer<T> elements(ar.read_length(sizeof(T)));
    ar.read(elements.data(), elements.size() * sizeof(T));
    *this = shared_buffer(std::move(elements));
  }

private:
  friend struct net::detail::buffer_access;
  std::shared_ptr<const T> first_; // shares what holds all elements
  std::size_t size_ = 0;
};

namespace net::detail {
template <class T> struct lent {
  std::span<const T> elements;
  std::shared_ptr<const void> owner; // null: the sender waits
};

struct buffer_access {
  template <class T> static byte_buffer release(buffer<T>& b) noexcept {
    b.data_ = nullptr;
    b.size_ = 0;
    return std::move(b.memory_);
  }
  /// \pre `memory` may be written to and is aligned for T.
  template <class T> static buffer<T> adopt(byte_buffer memory) noexcept {
    buffer<T> b;
    b.memory_ = std::move(memory);
    b.data_ = reinterpret_cast<T*>(b.memory_.data());
    b.size_ = b.memory_.size() / sizeof(T);
    return b;
  }
  template <class T> static std::shared_ptr<const void> owner(const shared_buffer<T>& b) noexcept { return b.first_; }
  /// \param owner of the elements, which stay as they are as long as it has shares.
  template <class T>
  static shared_buffer<T> share(std::shared_ptr<const void> owner, std::span<const T> elements) noexcept {
    shared_buffer<T> b;
    b.first_ = {std::move(owner), elements.data()};
    b.size_ = elements.size();
    return b;
  }
};

/// A contiguous range with a size. <ranges>, which has a concept for that, would cost each program
/// a tenth of a second.
template <class R>
concept elements_in_a_row = requires(const R& r) {
  std::ranges::data(r);
  std::ranges::size(r);
};
} // namespace net::detail

/// For an argument of `send` or `call`: the elements travel from where they are, without a copy on
/// this side. `send` returns when it no longer needs them; meanwhile the calling fiber waits and
/// other fibers run. It returns at once if they are few, else when they have left this process;
/// under `inproc`, when the handler on the other side has ended. Until then no code may change the
/// elements. Inside a fiber only.
template <net::detail::elements_in_a_row R> auto lend(const R& elements) {
  using element = std::remove_cvref_t<decltype(*std::ranges::data(elements))>;
  return net::detail::lent<element>{std::span<const element>(std::ranges::data(elements), std::ranges::size(elements)),
                                    nullptr};
}

/// The same without waiting, for elements that several share: the message keeps its share until it
/// has been sent (under `inproc`, until the handler has ended). May be used for any number of
/// messages at once. What frees the elements, if the message has the last share, runs where
/// messages arrive: it may send, but must not wait.
template <net::detail::elements_in_a_row R> auto lend(std::shared_ptr<R> elements) {
  auto l = lend(std::as_const(*elements));
  l.owner = std::move(elements);
  return l;
}

} // namespace tern
