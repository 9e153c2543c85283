// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Data that tasks use on any device: arrays of up to three dimensions, of which the runtime keeps
/// copies where they are needed, and all of them right. The program never holds a device's pointer.
///
///     tern::hetero_object<double, 2> a({1000, 1000}, 0.0);           // all elements 0
///     tern::submit(blas::scale, tern::items(1000, 1000), 2.0, tern::read_write(a)); // on any device
///     {
///       auto host = a.host(tern::access_mode::read).get();                // waits for that task, brings the data here
///       std::printf("%g\n", host(3, 4));
///     }                                                             // tasks that write it may go on
///     auto top = a.rows(0, 10);                                      // a part, coherent with the whole
///
/// States are those of MSI (modified, shared, invalid), for each part that views have ever named: a
/// copy that a task reads is fetched if it is not valid; what it writes makes the others invalid;
/// what it only writes is not fetched.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <source_location>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include <tern/base/error.hpp>
#include <tern/base/extents.hpp>
#include <tern/hetero/access.hpp>
#include <tern/hetero/devices.hpp>
#include <tern/task/future.hpp>

namespace tern {

template <class T, int N> class hetero_object;
template <class T, int N> class host_access;

namespace hetero::detail {
template <class T> const char* name_of_element();
} // namespace hetero::detail

/// Elements in the host's memory, as a kernel or the holder of an access sees them: `v(i, j)`, or
/// the address of the first one. Rows follow each other after `pitch()` elements, slices after
/// `slice()`. Valid as long as its task or access.
template <class T, int N> class host_view {
public:
  host_view() = default;
  host_view(T* data, const extents<N>& size, std::int64_t pitch, std::int64_t slice) noexcept
      : data_(data), size_(size), pitch_(pitch), slice_(slice) {}
  operator T*() const noexcept { return data_; } // NOLINT(google-explicit-constructor): kernels written for pointers
  T* data() const noexcept { return data_; }
  std::int64_t extent(int d) const noexcept { return size_[static_cast<std::size_t>(d)]; }
  std::int64_t size() const noexcept {
    std::int64_t n = 1;
    for (const std::int64_t e : size_) n *= e;
    return n;
  }
  std::int64_t pitch() const noexcept { return pitch_; }
  std::int64_t slice() const noexcept { return slice_; }
  template <class I>
  requires(N == 1 && std::is_integral_v<I>) T& operator[](I i) const noexcept { return data_[i]; }
  T& operator()(std::int64_t i) const noexcept requires(N == 1) { return data_[i]; }
  T& operator()(std::int64_t i, std::int64_t j) const noexcept requires(N == 2) { return data_[i * pitch_ + j]; }
  T& operator()(std::int64_t i, std::int64_t j, std::int64_t k) const noexcept requires(N == 3) {
    return data_[i * slice_ + j * pitch_ + k];
  }
  T* begin() const noexcept requires(N == 1) { return data_; }
  T* end() const noexcept requires(N == 1) { return data_ + size_[0]; }

private:
  T* data_ = nullptr;
  extents<N> size_{};
  std::int64_t pitch_ = 0, slice_ = 0;
};

/// A part of an object, or all of it: what tasks name as their arguments. A handle: copies name the
/// same data. The data live until the last handle is gone and the last task that uses them has
/// ended.
///
/// Views of an object may overlap, and a task may use several; a task that writes elements in one
/// of its views that another one of its views has too gets an undefined mixture there. Naming very
/// many parts is cheap if they are tiles (`tiles`); each other part makes every later use a little
/// slower.
///
/// Threads: handles like a shared_ptr; data only through tasks and `host`. All but copying, in a
/// fiber of the scheduler in which the object was made. \throws error(invalid_argument) for parts
/// outside the object or empty ones, error(invalid_state) for a handle that was moved from.
template <class T, int N = 1> class hetero_view {
  static_assert(N >= 1 && N <= 3, "objects have one to three dimensions");
  static_assert(std::is_trivially_copyable_v<T>, "elements are copied as bytes between devices");

public:
  using element = T;
  static constexpr int dimensions = N;

  extents<N> size() const noexcept {
    extents<N> e;
    for (int d = 0; d < N; ++d) e[static_cast<std::size_t>(d)] = part_.extent(static_cast<std::size_t>(3 - N + d));
    return e;
  }
  std::int64_t extent(int d) const noexcept { return part_.extent(static_cast<std::size_t>(3 - N + d)); }
  std::int64_t count() const noexcept { return part_.size(); } ///< elements

  /// Elements from `low` up to `high`, not included, counted within this view.
  hetero_view part(const extents<N>& low, const extents<N>& high) const {
    hetero::detail::box b = part_;
    for (int d = 0; d < N; ++d) {
      const auto i = static_cast<std::size_t>(d), k = static_cast<std::size_t>(3 - N + d);
      hetero::detail::check_part(*inside(), part_, d, low[i], high[i], extent(d));
      b.low[k] = part_.low[k] + static_cast<std::int32_t>(low[i]);
      b.high[k] = part_.low[k] + static_cast<std::int32_t>(high[i]);
    }
    return hetero_view(inside(), b);
  }
  /// From index `first` up to `last` in the first dimension.
  hetero_view rows(std::int64_t first, std::int64_t last) const {
    extents<N> low{}, high = size();
    low[0] = first;
    high[0] = last;
    return part(low, high);
  }
  /// This view and `width` more elements in each direction, as far as the object goes.
  hetero_view halo(std::int64_t width) const {
    hetero::detail::check_halo(*inside(), part_, width);
    hetero::detail::box b = part_;
    const hetero::detail::box all = hetero::detail::all_of(*inside());
    for (std::size_t k = 3 - N; k < 3; ++k) {
      b.low[k] = static_cast<std::int32_t>(std::max<std::int64_t>(all.low[k], b.low[k] - width));
      b.high[k] = static_cast<std::int32_t>(std::min<std::int64_t>(all.high[k], b.high[k] + width));
    }
    return hetero_view(inside(), b);
  }
  /// Where it begins in the object.
  extents<N> origin() const noexcept {
    extents<N> e;
    for (int d = 0; d < N; ++d) e[static_cast<std::size_t>(d)] = part_.low[static_cast<std::size_t>(3 - N + d)];
    return e;
  }

  /// Access on the host. The future is ready when all tasks before have ended that matter for it,
  /// and the data are here; tasks that come later and are in conflict wait until the access is
  /// released, which its destructor does. With `access_mode::write` nothing is fetched. What went
  /// wrong with the data comes out of the future. Reports of hangs name accesses that are held by
  /// `where` they were asked for.
  future<host_access<T, N>> host(access_mode how, std::source_location where = std::source_location::current()) const;
  /// Copies to memory of the program's own, packed, straight from the device that has the data, if
  /// the host has not; ready when that is done. `to` must live until then, and be this object's own
  /// memory nowhere.
  future<void> copy_to(T* to) const;
  /// Brings a valid copy to a device before a task there needs it. \param device its id, as
  /// "opencl0" or "host".
  /// \throws error(not_found) if there is none.
  void prefetch(std::string_view device) const { hetero::detail::prefetch(inside(), part_, device, false); }
  /// That, and keeps the copy's memory there until `unpin` or the object's end.
  void pin(std::string_view device) const { hetero::detail::prefetch(inside(), part_, device, true); }
  void unpin(std::string_view device) const { hetero::detail::unpin(inside(), part_, device); }
  /// What only the device has comes home, then its memory for this is given back; not what a task
  /// there is still reading. In the order of submission.
  void drop(std::string_view device) const { hetero::detail::drop(inside(), part_, device); }
  /// The same on all devices.
  void drop() const { hetero::detail::drop(inside(), part_, {}); }
  /// A hint: no task that is submitted next uses it. Copies on devices stay, but are the first to
  /// go where memory is short, and what only a device has is copied home then before that is
  /// needed. In the order of submission; a task that does use it takes the hint back.
  void wont_use() const { hetero::detail::wont_use(inside(), part_); }

  /// For errors and reports.
  void name(std::string_view text) const { hetero::detail::set_name(*inside(), text); }
  std::string text() const { return hetero::detail::text_of(*inside(), part_); }

  hetero_view(const hetero_view& other) noexcept : state_(other.state_), part_(other.part_) {
    if (state_) hetero::detail::add_handle(*state_);
  }
  hetero_view(hetero_view&& other) noexcept : state_(std::exchange(other.state_, nullptr)), part_(other.part_) {}
  hetero_view& operator=(hetero_view other) noexcept {
    std::swap(state_, other.state_);
    std::swap(part_, other.part_);
    return *this;
  }
  ~hetero_view() {
    if (state_) hetero::detail::drop_handle(state_);
  }

  /// Names an object. False: it was moved from, or is a hetero_object that was made without one.
  explicit operator bool() const noexcept { return state_ != nullptr; }

  /// For messages: the layer above the network says how (tern/global/travel.hpp).
  template <class A> void serialize(A&) const {
    static_assert(sizeof(A) == 0, "a hetero_object travels in messages where <tern/global/travel.hpp> is included, "
                                  "and a view only as the argument for a hetero_object");
  }

  hetero::detail::object_state* inside() const {
    if (!state_) [[unlikely]]
      hetero::detail::moved_from();
    return state_;
  }
  /// Gives the handle up. \return it, counted; null: there was none.
  hetero::detail::object_state* release_handle() noexcept { return std::exchange(state_, nullptr); }
  const hetero::detail::box& inside_part() const noexcept { return part_; }
  bool whole() const { return part_ == hetero::detail::all_of(*inside()); }

private:
  template <class U, int M> friend class hetero_object;
  hetero_view(hetero::detail::object_state* counted_by_us, const hetero::detail::box& part) noexcept
      : state_(counted_by_us), part_(part) {
    hetero::detail::add_handle(*state_);
  }
  struct adopt {};
  hetero_view(adopt, hetero::detail::object_state* s, const hetero::detail::box& part) noexcept
      : state_(s), part_(part) {}
  explicit hetero_view(adopt) noexcept : state_(nullptr) {}

  hetero::detail::object_state* state_;
  hetero::detail::box part_;
};

/// The tiles of a regular partition: `t(i, j)`.
template <class T, int N> class hetero_tiles {
public:
  hetero_tiles(const hetero_view<T, N>& whole, const extents<N>& tile) : whole_(whole), tile_(tile) {
    for (std::size_t d = 0; d < static_cast<std::size_t>(N); ++d) {
      tile_[d] = std::min(tile[d], whole.size()[d]);
      count_[d] = (whole.size()[d] + tile_[d] - 1) / tile_[d];
    }
  }
  std::int64_t count(int d) const noexcept { return count_[static_cast<std::size_t>(d)]; }
  template <class... I> hetero_view<T, N> operator()(I... index) const {
    static_assert(sizeof...(I) == static_cast<std::size_t>(N), "one index for each dimension");
    const extents<N> at{static_cast<std::int64_t>(index)...};
    extents<N> low, high;
    const extents<N> size = whole_.size();
    for (std::size_t d = 0; d < static_cast<std::size_t>(N); ++d) {
      low[d] = at[d] * tile_[d];
      high[d] = std::min(size[d], low[d] + tile_[d]);
    }
    return whole_.part(low, high);
  }

private:
  hetero_view<T, N> whole_;
  extents<N> tile_, count_{};
};

/// Data with copies on devices. \tparam T trivially copyable.
template <class T, int N = 1> class hetero_object : public hetero_view<T, N> {
  using base = hetero_view<T, N>;

public:
  /// A handle to no object, until one is assigned.
  hetero_object() noexcept : base(typename base::adopt{}) {}
  /// Nothing has been written: a task that reads it fails and says so. Memory is taken when it is
  /// first used.
  /// \throws error(invalid_argument) for an extent < 1 or beyond 2^31 - 1; error(invalid_state) on
  /// a thread that is no worker.
  explicit hetero_object(const extents<N>& size)
      : base(typename base::adopt{}, hetero::detail::new_object(box_of(size), sizeof(T), name_of_type(), nullptr),
             box_of(size)) {}
  explicit hetero_object(std::int64_t size) requires(N == 1) : hetero_object(extents<1>{size}) {}
  /// All elements are `value`.
  hetero_object(const extents<N>& size, const T& value) : hetero_object(size) {
    T* const p = reinterpret_cast<T*>(hetero::detail::fill_memory(*this->inside()));
    std::fill(p, p + this->count(), value);
    hetero::detail::filled(*this->inside());
  }
  hetero_object(std::int64_t size, const T& value) requires(N == 1) : hetero_object(extents<1>{size}, value) {}
  /// The user's own memory, packed, is the host's copy; nothing is copied. What is in it is valid.
  /// It must live until the last handle of the object is gone (which may wait for a copy that is
  /// under way) and the last task that uses it has ended; look at it only inside `host`. Keep a
  /// handle until then where devices have little memory: what only a device has cannot be saved to
  /// free memory there once no handle is left, as it would have to go home to this memory.
  static hetero_object adopt(T* memory, const extents<N>& size) {
    if (!memory)
      throw error(errc::invalid_argument, "hetero_object::adopt: there is no memory at a null pointer",
                  "give it the address of the first element");
    hetero_object o(size, memory);
    return o;
  }

  /// For layers above. \param counted one of its handles, which this is from now on; null: none.
  static hetero_object from_handle(hetero::detail::object_state* counted) noexcept {
    hetero_object o;
    if (counted) static_cast<base&>(o) = base(typename base::adopt{}, counted, hetero::detail::all_of(*counted));
    return o;
  }
  /// On devices of this kind that have memory of their own the elements lie otherwise, in as many
  /// bytes: as `pack(const T* host, T* device)` puts them, say an array of structures as a
  /// structure of arrays; `unpack(const T* device, T* host)` is the reverse. A kernel learns from
  /// `own_layout` how it finds them. Both are called on any thread, on several at once, whenever a
  /// copy goes that way, and must not wait; what they throw the tasks fail with that wait for the
  /// copy. All of the object is used at a time: it has no parts.
  /// \throws error(invalid_argument) for the host; error(invalid_state) if it has been used, or has
  /// parts or other handles.
  template <class Pack, class Unpack> void layout_on(hetero::device_kind kind, Pack pack, Unpack unpack) const {
    hetero::detail::set_layout(*this->inside(), kind,
                               {[pack](const std::byte* host, std::byte* device) {
                                  pack(reinterpret_cast<const T*>(host), reinterpret_cast<T*>(device));
                                },
                                [unpack](const std::byte* device, std::byte* host) {
                                  unpack(reinterpret_cast<const T*>(device), reinterpret_cast<T*>(host));
                                }});
  }
  /// Cuts it into tiles (those at the ends may be smaller), all at once: afterwards each of them is
  /// found at once.
  /// \throws error(invalid_argument) for a tile with an extent < 1.
  hetero_tiles<T, N> tiles(const extents<N>& tile) const {
    std::array<std::int32_t, 3> size{1, 1, 1};
    for (int d = 0; d < N; ++d) {
      const std::int64_t e = tile[static_cast<std::size_t>(d)];
      if (e < 1)
        throw error(errc::invalid_argument, this->text() + ": tiles with an extent of " + std::to_string(e),
                    "tiles have at least one element in each dimension");
      size[static_cast<std::size_t>(3 - N + d)] = static_cast<std::int32_t>(std::min(e, this->extent(d)));
    }
    hetero::detail::cut_tiles(*this->inside(), size);
    return hetero_tiles<T, N>(*this, tile);
  }

private:
  hetero_object(const extents<N>& size, T* memory)
      : base(typename base::adopt{}, hetero::detail::new_object(box_of(size), sizeof(T), name_of_type(), memory),
             box_of(size)) {}
  static hetero::detail::box box_of(const extents<N>& size) {
    hetero::detail::box b;
    for (int d = 0; d < N; ++d) {
      const std::int64_t e = size[static_cast<std::size_t>(d)];
      hetero::detail::check_extent(name_of_type(), d, e);
      b.high[static_cast<std::size_t>(3 - N + d)] = static_cast<std::int32_t>(e);
    }
    return b;
  }
  static const char* name_of_type() { return hetero::detail::name_of_element<T>(); }
};

/// Access to a part of an object in the host's memory, until it is released or destroyed.
/// Move-only. Any thread may release it.
template <class T, int N> class host_access : public host_view<T, N> {
public:
  host_access() = default;
  host_access(host_view<T, N> v, hetero::detail::task_record* held) noexcept : host_view<T, N>(v), held_(held) {}
  host_access(host_access&& other) noexcept : host_view<T, N>(other), held_(std::exchange(other.held_, nullptr)) {}
  host_access& operator=(host_access&& other) noexcept {
    if (this == &other) return *this;
    release();
    host_view<T, N>::operator=(other);
    held_ = std::exchange(other.held_, nullptr);
    return *this;
  }
  ~host_access() { release(); }
  /// Tasks that were in conflict with it may go on. Twice does no harm.
  void release() noexcept {
    if (held_) hetero::detail::release_access(std::exchange(held_, nullptr));
  }

private:
  hetero::detail::task_record* held_ = nullptr;
};

} // namespace tern

#include <tern/hetero/data/object_body.hpp>
