// SPDX-License-Identifier: Apache-2.0
/// \file
/// The parts of an all-to-all exchange: where their elements lie.
#include <tern/global/exchange/parts.hpp>

#include <cstring>

namespace tern::global::detail {

void part::acquire() {
  if (!some_ || held_) return;
  auto [where, held] = get_();
  where_ = where;
  held_ = std::move(held);
}

bool part::in_one_piece() const noexcept {
  const auto e = [&](std::size_t d) { return static_cast<std::size_t>(shape_.extent[d]); };
  return (e(1) * e(0) == 1 || where_.pitch == e(2) * shape_.element) &&
         (e(0) == 1 || where_.slice == where_.pitch * e(1));
}

std::span<const std::byte> part::packed() {
  if (!some_) return {};
  if (in_one_piece()) return {where_.data, bytes()};
  const std::span<std::byte> to = room();
  const std::size_t row = static_cast<std::size_t>(shape_.extent[2]) * shape_.element;
  std::byte* at = to.data();
  for (std::int32_t z = 0; z < shape_.extent[0]; ++z)
    for (std::int32_t y = 0; y < shape_.extent[1]; ++y, at += row)
      std::memcpy(at,
                  where_.data + static_cast<std::size_t>(z) * where_.slice + static_cast<std::size_t>(y) * where_.pitch,
                  row);
  return to;
}

std::span<std::byte> part::room() {
  if (!some_) return {};
  if (in_one_piece()) return {where_.data, bytes()};
  if (copy_.empty()) copy_ = byte_buffer(bytes());
  return copy_.bytes();
}

void part::unpack() {
  if (copy_.empty()) return;
  const std::size_t row = static_cast<std::size_t>(shape_.extent[2]) * shape_.element;
  const std::byte* at = copy_.data();
  for (std::int32_t z = 0; z < shape_.extent[0]; ++z)
    for (std::int32_t y = 0; y < shape_.extent[1]; ++y, at += row)
      std::memcpy(where_.data + static_cast<std::size_t>(z) * where_.slice + static_cast<std::size_t>(y) * where_.pitch,
                  at, row);
}

} // namespace tern::global::detail
