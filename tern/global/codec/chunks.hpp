// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// An array in chunks, each of which is encoded by itself. Internal.

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include <tern/global/codec.hpp>

namespace tern::global::detail {

/// An array cut along its slowest dimension of more than one element, into chunks of about `bytes`:
/// whole slices, a multiple of 4 of them in each chunk but the last, and never a last one alone.
/// So blocks of 4 elements in each dimension are those of the whole array, and a codec of such
/// blocks gives each element what it would without chunks. Packed, chunks follow each other.
class array_chunks {
public:
  array_chunks(const array_shape& s, std::size_t bytes) noexcept : whole_(s) {
    while (d_ < 2 && s.extent[d_] == 1) ++d_;
    slices_ = static_cast<std::size_t>(s.extent[d_]);
    slice_bytes_ = s.bytes() / slices_;
    slices_each_ = std::max<std::size_t>(bytes / slice_bytes_ / block, 1) * block;
    while (slices_each_ < slices_ && slices_ % slices_each_ == 1) slices_each_ += block;
    slices_each_ = std::min(slices_each_, slices_);
  }
  std::size_t count() const noexcept { return (slices_ + slices_each_ - 1) / slices_each_; }
  /// Bytes of each but the last.
  std::size_t each() const noexcept { return slices_each_ * slice_bytes_; }
  array_shape shape(std::size_t i) const noexcept {
    array_shape s = whole_;
    s.extent[d_] = static_cast<std::int32_t>(std::min(slices_each_, slices_ - i * slices_each_));
    return s;
  }
  std::size_t offset(std::size_t i) const noexcept { return i * each(); }

private:
  static constexpr std::size_t block = 4;
  array_shape whole_;
  std::size_t d_ = 0, slices_ = 1, slice_bytes_ = 1, slices_each_ = 1;
};

} // namespace tern::global::detail
