// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Where objects are saved to, and what they are restored from. Internal; knows no objects.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace tern::mobile::detail {

/// Takes the packed objects of one rank, one after the other, and then its tables.
class object_sink {
public:
  /// \return the object's offset, at which a source of the same content reads it.
  virtual std::uint64_t add(std::span<const std::byte> object) = 0;
  /// The last of it.
  virtual void finish(std::span<const std::byte> tables) = 0;

protected:
  ~object_sink() = default;
};

/// The packed objects of one rank.
class object_source {
public:
  /// \throws error(invalid_data) if there are not so many bytes.
  virtual void read(std::uint64_t offset, std::span<std::byte> to) const = 0;
  /// No object ends beyond.
  virtual std::uint64_t bytes() const noexcept = 0;
  /// For messages.
  virtual std::string name() const = 0;

protected:
  ~object_source() = default;
};

} // namespace tern::mobile::detail
