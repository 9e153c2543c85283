// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The three archives: `size_archive` counts, `output_archive` writes, `input_archive` reads.
/// Everything on the path of a message is inline and without virtual calls; everything that fails
/// is out of line in archive.cpp.

#include <cstdint>
#include <cstring>
#include <limits>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <typeindex>
#include <typeinfo>
#include <utility>
#include <vector>

#include <tern/base/archive/archive_traits.hpp>
#include <tern/base/bytes.hpp>
#include <tern/base/language/type_name.hpp>
#include <tern/base/unique_function.hpp>

namespace tern {

/// What the bytes of an archive are for. What travels by more than its bytes needs to know.
enum class archive_purpose : std::uint8_t {
  storage, ///< they may be kept, copied, and read later, often or never
  message, ///< they are delivered once, or abandoned, and then the archive's `on_abandon` runs
  /// The same for a value that moves: if it cannot be unpacked it is abandoned, so what unpacks it
  /// does nothing before the archive's `on_complete`.
  move
};

/// What takes back what was packed, if that is not delivered. An `output_archive` enters functions;
/// whatever delivers the bytes calls `delivered`. Else the destructor runs them, the last one
/// first. Threads: one at a time.
class packing_undo {
public:
  packing_undo() noexcept = default;
  packing_undo(const packing_undo&) = delete;
  packing_undo& operator=(const packing_undo&) = delete;
  ~packing_undo() {
    while (!all_.empty()) {
      unique_function<void()> last = std::move(all_.back());
      all_.pop_back();
      last();
    }
  }
  /// \param undo must not throw. \throws std::bad_alloc: then it has been run.
  void add(unique_function<void()> undo) {
    try {
      all_.reserve(all_.size() + 1);
    } catch (...) {
      undo();
      throw;
    }
    all_.push_back(std::move(undo));
  }
  /// Another owner has what was packed.
  void delivered() noexcept { all_.clear(); }
  bool empty() const noexcept { return all_.empty(); }

private:
  std::vector<unique_function<void()>> all_;
};

/// What is to be done once a value has been unpacked, all of it. An `input_archive` enters
/// functions; whatever unpacks calls `run` when nothing can fail any more. Else they go without
/// having been called. Threads: one at a time.
class unpacking_steps {
public:
  unpacking_steps() noexcept = default;
  unpacking_steps(const unpacking_steps&) = delete;
  unpacking_steps& operator=(const unpacking_steps&) = delete;
  /// \throws std::bad_alloc: then it is gone.
  void add(unique_function<void()> step) { all_.push_back(std::move(step)); }
  /// In the order in which they were entered, once. Throws what one throws, and the others go.
  void run() {
    for (auto& step : std::exchange(all_, {})) step();
  }

private:
  std::vector<unique_function<void()>> all_;
};

/// How many pointers and containers of non-bitwise elements may lie inside each other, and how much
/// stack (bytes) going down through them may take. Deeper data is refused on saving and on loading,
/// so that a forged message cannot overrun a fiber's stack (256 KiB). Classes with large frames,
/// and builds without optimisation, meet the second limit first.
inline constexpr int archive_max_depth = 500;
inline constexpr std::size_t archive_max_stack = 128 * 1024;

namespace detail {

[[noreturn]] void archive_truncated(std::size_t offset, std::size_t wanted, std::size_t available);
[[noreturn]] void archive_bad_length(std::size_t offset, std::uint64_t length, std::size_t element,
                                     std::size_t available);
[[noreturn]] void archive_bad_value(std::size_t offset, std::string_view what, std::uint64_t value,
                                    std::string_view allowed);
[[noreturn]] void archive_left_over(std::size_t offset, std::size_t size);
[[noreturn]] void archive_too_deep(int depth);
[[noreturn]] void archive_cycle(std::string_view type);
[[noreturn]] void archive_size_mismatch(std::string_view type, std::size_t counted, std::size_t written);
[[noreturn]] void archive_not_static_type(std::string_view type, const std::type_info& dynamic);
[[noreturn]] void archive_unsavable(std::string_view type, std::string_view why);

template <class A, class T> void save_value(A& ar, const T& x);
template <class T> void load_value(input_archive& ar, T& x);

/// Which shared objects an archive has met while saving. Keyed by address and type, since an object
/// and its first member share an address. The addresses are only looked up; numbers follow the
/// order of first encounter, the same on each run.
class saved_objects {
public:
  struct entry {
    std::uint32_t id;
    bool fresh, finished;
  };
  saved_objects();
  ~saved_objects();
  entry enter(std::shared_ptr<const void> object, const std::type_info& type);
  void finish(std::uint32_t id) { objects_[id - 1].finished = true; }

private:
  struct known {
    std::shared_ptr<const void> alive; // or a temporary's address might be used again
    bool finished;
  };
  // address: only looked up, never gone through; the numbers are in the order of saving
  std::map<std::pair<const void*, std::type_index>, std::uint32_t> ids_;
  std::vector<known> objects_;
};

/// What all archives share: the syntax, and how deep they are.
template <class Archive> class archive_base {
public:
  archive_base(const archive_base&) = delete;
  archive_base& operator=(const archive_base&) = delete;

  template <class T> Archive& operator&(T&& x) { return self()(std::forward<T>(x)); }

protected:
  archive_base() = default;
  ~archive_base() = default;

private:
  template <class A> friend class nesting;
  Archive& self() noexcept { return static_cast<Archive&>(*this); }
  int depth_ = 0;
  std::uintptr_t stack_ = 0; // the outermost level's frame
};

/// Stands on the stack while an archive is inside a pointer or container.
template <class Archive> class nesting {
public:
  explicit nesting(archive_base<Archive>& ar) : depth_(ar.depth_) {
    // Counting levels alone would not do: a level's frames are as large as the user's class makes
    // them.
    // address: only the distance within one stack counts, wherever the stack lies
    const auto here = reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0));
    if (depth_ == 0) ar.stack_ = here;
    const std::uintptr_t used = ar.stack_ > here ? ar.stack_ - here : here - ar.stack_;
    if (depth_ >= archive_max_depth || used > archive_max_stack) [[unlikely]]
      archive_too_deep(depth_);
    ++depth_;
  }
  ~nesting() { --depth_; }
  nesting(const nesting&) = delete;
  nesting& operator=(const nesting&) = delete;

private:
  int& depth_;
};

/// What the two saving archives share.
template <class Archive> class saving_archive : public archive_base<Archive> {
public:
  static constexpr bool is_saving = true;
  static constexpr bool is_loading = false;

  template <class... T> Archive& operator()(T&&... x) {
    (save_value(static_cast<Archive&>(*this), static_cast<const std::remove_reference_t<T>&>(x)), ...);
    return static_cast<Archive&>(*this);
  }
  template <class T> Archive& operator<<(T&& x) { return (*this)(std::forward<T>(x)); }
  /// For codecs.
  saved_objects& objects() {
    if (!objects_) objects_ = std::make_unique<saved_objects>();
    return *objects_;
  }

private:
  std::unique_ptr<saved_objects> objects_; // most messages share nothing
};
} // namespace detail

/// Counts the bytes that an `output_archive` would write. One thread at a time, as all archives.
class size_archive : public detail::saving_archive<size_archive> {
public:
  explicit size_archive(archive_purpose purpose = archive_purpose::storage) noexcept : purpose_(purpose) {}
  /// Bytes so far.
  std::size_t size() const noexcept { return size_; }
  archive_purpose purpose() const noexcept { return purpose_; }
  /// For codecs: `n` bytes belong to the value that do not stand in the archive, but travel beside
  /// it.
  void beside(std::size_t n) noexcept { beside_ += n; }
  /// The sum of those.
  std::size_t beside() const noexcept { return beside_; }
  /// For codecs: `n` bytes go by.
  void write(const void*, std::size_t n) noexcept { size_ += n; }
  /// For codecs: as `output_archive::position`.
  std::size_t position() const noexcept { return size_; }

private:
  std::size_t size_ = 0, beside_ = 0;
  const archive_purpose purpose_;
};

/// Writes into memory of a fixed size; counts on, without writing, when that is too small.
class output_archive : public detail::saving_archive<output_archive> {
public:
  /// For storage.
  explicit output_archive(std::span<std::byte> destination) noexcept
      : data_(destination.data()), capacity_(destination.size()) {}
  /// For a message that `undo`, which outlives the archive, knows as abandoned or delivered.
  output_archive(std::span<std::byte> destination, packing_undo& undo,
                 archive_purpose purpose = archive_purpose::message) noexcept
      : data_(destination.data()), capacity_(destination.size()), purpose_(purpose), undo_(&undo) {}
  archive_purpose purpose() const noexcept { return purpose_; }
  /// For codecs that give something away: `undo` takes it back. It runs once if what is packed is
  /// not delivered: another value cannot be packed, or the message cannot be sent; on the thread
  /// that packs. It must not throw. In storage it never runs: there is no telling what becomes of
  /// the bytes. Throws as packing_undo::add.
  template <class F> void on_abandon(F&& undo) {
    if (undo_) undo_->add(unique_function<void()>(std::forward<F>(undo)));
  }
  /// Bytes that were to be written so far; more than the destination's size if it was too small.
  std::size_t position() const noexcept { return position_; }
  /// \throws error(invalid_data) if the values took another number of bytes than the destination
  /// has.
  void finish() const {
    if (position_ != capacity_) detail::archive_size_mismatch({}, capacity_, position_);
  }
  /// For codecs: copies `n` bytes.
  void write(const void* source, std::size_t n) noexcept {
    if (position_ <= capacity_ && n <= capacity_ - position_) [[likely]] {
      if (n > 0) std::memcpy(data_ + position_, source, n);
    }
    position_ += n;
  }

private:
  std::byte* data_;
  std::size_t capacity_, position_ = 0;
  const archive_purpose purpose_ = archive_purpose::storage;
  packing_undo* const undo_ = nullptr;
};

/// Reads from memory that it does not trust: whatever the bytes are, it yields values or throws
/// error(invalid_data), and never takes more memory than the bytes can justify. After a throw the
/// values that were being read are valid but unspecified.
class input_archive : public detail::archive_base<input_archive> {
public:
  static constexpr bool is_saving = false;
  static constexpr bool is_loading = true;

  /// The bytes must outlive the archive and stay as they are.
  explicit input_archive(std::span<const std::byte> source) noexcept : data_(source.data()), size_(source.size()) {}
  /// \param discards nothing will be done with the values but to destroy them.
  input_archive(std::span<const std::byte> source, bool discards) noexcept
      : data_(source.data()), size_(source.size()), discards_(discards) {}
  /// \param later takes what `on_complete` is given.
  input_archive(std::span<const std::byte> source, unpacking_steps& later) noexcept
      : data_(source.data()), size_(source.size()), later_(&later) {}
  /// For codecs that ask others for something: `step` does that, at once, or when all that is being
  /// unpacked has been (archive_purpose::move), and never if it cannot be. Throws what it throws.
  template <class F> void on_complete(F&& step) {
    if (later_)
      later_->add(unique_function<void()>(std::forward<F>(step)));
    else
      step();
  }
  /// For codecs: need the value not come, as it will be destroyed at once?
  bool discards() const noexcept { return discards_; }

  template <class... T> input_archive& operator()(T&&... x) {
    (detail::load_value(*this, x), ...);
    return *this;
  }
  template <class T> input_archive& operator>>(T&& x) { return (*this)(std::forward<T>(x)); }

  /// Bytes read so far.
  std::size_t position() const noexcept { return position_; }
  std::size_t remaining() const noexcept { return size_ - position_; }
  /// The bytes not read yet.
  std::span<const std::byte> rest() const noexcept { return {data_ + position_, remaining()}; }
  /// \throws error(invalid_data) if bytes are left over.
  void finish() const {
    if (position_ != size_) detail::archive_left_over(position_, size_);
  }

  /// For codecs: copies the next `n` bytes.
  void read(void* destination, std::size_t n) {
    const std::byte* source = take(n);
    if (n > 0) std::memcpy(destination, source, n);
  }
  /// For codecs: the next `n` bytes where they lie.
  const std::byte* take(std::size_t n) {
    if (n > remaining()) [[unlikely]]
      detail::archive_truncated(position_, n, remaining());
    const std::byte* at = data_ + position_;
    position_ += n;
    return at;
  }
  /// For codecs: a value of an arithmetic type.
  template <class T> T read_number() {
    T value;
    read(&value, sizeof value);
    return value;
  }
  /// For codecs: a number of elements that take at least `element` > 0 bytes each, refused if the
  /// rest cannot hold them.
  std::size_t read_length(std::size_t element) {
    const auto length = read_number<std::uint64_t>();
    if (length > remaining() / element) [[unlikely]]
      detail::archive_bad_length(position_ - sizeof length, length, element, remaining());
    return static_cast<std::size_t>(length);
  }
  /// For codecs: a byte that must be 0 or 1.
  bool read_flag(std::string_view what) {
    const auto value = read_number<std::uint8_t>();
    if (value > 1) [[unlikely]]
      detail::archive_bad_value(position_ - 1, what, value, "0 or 1");
    return value == 1;
  }

  /// For codecs: the table of shared objects, number i at index i - 1; `object` is null while it is
  /// being read.
  struct shared_object {
    std::shared_ptr<void> object;
    const std::type_info* type;
  };
  std::vector<shared_object>& objects() noexcept { return objects_; }

private:
  const std::byte* data_;
  std::size_t size_, position_ = 0;
  const bool discards_ = false;
  unpacking_steps* const later_ = nullptr;
  std::vector<shared_object> objects_;
};

} // namespace tern
