// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Encoding and decoding where a device has the data. Internal.

#include <cstddef>
#include <cstdint>

#include <tern/global/codec.hpp>
#include <tern/hetero/devices.hpp>
#include <tern/hetero/hetero_object.hpp>

namespace tern::global::detail {

/// Of an array that kernels have encoded: the bytes of libzfp, in units of 16 bits.
using encoded_object = hetero_object<std::uint16_t>;

/// The rate at which kernels (codec/zfp_kernels.hpp) make of such an array what the codec makes of
/// it; 0: they do not.
int kernel_rate(const codec& c, const array_shape& s) noexcept;
inline constexpr int largest_kernel_rate = 32;                              ///< all are multiples of 4
inline constexpr std::int64_t most_kernel_elements = std::int64_t{1} << 28; ///< they count in int
/// Units that they make of so many elements.
std::int64_t encoded_units(std::int64_t elements, int rate) noexcept;

/// Submits a task on devices of that kind that reads `from`. Counts what it makes. In a fiber.
encoded_object encode_on_device(const hetero_view<float, 1>& from, int rate, hetero::device_kind where);
/// Submits one that writes `to`. \pre as many units as its elements become.
void decode_on_device(const encoded_object& from, int rate, const hetero_view<float, 1>& to, hetero::device_kind where);

} // namespace tern::global::detail
