// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Objects that were saved are made again. Internal.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <tern/base/bytes.hpp>
#include <tern/mobile/checkpoint/object_storage.hpp>
#include <tern/mobile/checkpoint/saved_tables.hpp>
#include <tern/mobile/directory.hpp>

namespace tern::mobile::detail {

/// What an object weighs when objects are spread over ranks.
inline std::uint64_t weight_of(const saved_object& o) noexcept { return o.bytes + 64; }

/// Spreads objects that come one after the other over ranks, so that each gets about as many bytes.
class even_spread {
public:
  even_spread(int ranks, std::uint64_t total) noexcept : ranks_(ranks), total_(total) {}
  /// \return the place, from 0, of the rank that gets the next one.
  int next(const saved_object& o) noexcept {
    const auto middle = static_cast<double>(before_) + static_cast<double>(weight_of(o)) / 2;
    before_ += weight_of(o);
    const int place = static_cast<int>(middle * ranks_ / static_cast<double>(total_));
    return place < ranks_ ? place : ranks_ - 1;
  }

private:
  const int ranks_;
  const std::uint64_t total_;
  std::uint64_t before_ = 0;
};

/// Makes objects of a source on the calling rank. \pre nothing is sent to them meanwhile. One
/// fiber.
class object_restorer {
public:
  explicit object_restorer(directory& all) : all_(all) {}
  /// \param type its class. \param credit that references have of it; counts only if it is counted.
  /// \throws error(invalid_argument) naming object and source if it cannot be unpacked.
  void restore(const object_source& from, const type_record& type, const saved_object& o, std::uint64_t credit);

private:
  std::span<const std::byte> read(const object_source& from, const saved_object& o);

  static constexpr std::size_t most_together = std::size_t{1} << 20;
  directory& all_;
  byte_buffer window_;
  const object_source* of_ = nullptr; ///< what the window shows; address: compared only
  std::uint64_t begin_ = 0;
  std::size_t filled_ = 0;
};

} // namespace tern::mobile::detail
