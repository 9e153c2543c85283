// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Objects go in and out by pieces, between memory outside and wherever they are. Internal; for
/// layers above.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>

#include <tern/hetero/access.hpp>
#include <tern/hetero/record/box.hpp>

namespace tern::hetero::detail {

/// A box of an object, cut along its slowest dimension into pieces of about `bytes`: whole slices,
/// at least one. Packed, they follow each other.
class slices {
public:
  slices(const box& part, std::size_t element, std::size_t bytes) noexcept : part_(part) {
    while (d_ < 2 && part.extent(d_) == 1) ++d_;
    slice_bytes_ = element * static_cast<std::size_t>(part.size() / part.extent(d_));
    each_ = static_cast<std::int32_t>(
        std::clamp<std::int64_t>(static_cast<std::int64_t>(bytes / slice_bytes_), 1, part.extent(d_)));
  }
  std::size_t count() const noexcept { return static_cast<std::size_t>((part_.extent(d_) + each_ - 1) / each_); }
  box at(std::size_t i) const noexcept {
    box b = part_;
    b.low[d_] += static_cast<std::int32_t>(i) * each_;
    b.high[d_] = static_cast<std::int32_t>(std::min<std::int64_t>(part_.high[d_], std::int64_t{b.low[d_]} + each_));
    return b;
  }
  std::size_t offset(std::size_t i) const noexcept { return i * slice_bytes_ * static_cast<std::size_t>(each_); }
  std::size_t bytes(std::size_t i) const noexcept { return static_cast<std::size_t>(at(i).extent(d_)) * slice_bytes_; }

private:
  box part_;
  std::size_t d_ = 0, slice_bytes_ = 0;
  std::int32_t each_ = 1;
};

/// Told once, on a worker of the object's scheduler, when a piece has been copied, or with the
/// reason why not. Must not wait.
struct piece_request {
  virtual void over(std::exception_ptr failed) noexcept = 0;

protected:
  ~piece_request() = default;
};

/// Copies a box to `to`, packed, from wherever it is valid. \pre a task that reads it has been
/// given its turn and is held (waits_release) until `tells` is told; the object has no layouts of
/// its own on devices, and is not the pager's. Any thread of the rank.
void copy_piece_out(object_state& o, const box& part, std::byte* to, piece_request& tells) noexcept;
/// Copies packed bytes into an instance on a device. Nothing is said of what is valid. \pre as
/// above for a task that writes; the instance stays.
void copy_piece_in(object_state& o, std::uint8_t instance, const box& part, const std::byte* from,
                   piece_request& tells) noexcept;

} // namespace tern::hetero::detail
