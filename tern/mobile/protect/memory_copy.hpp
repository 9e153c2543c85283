// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// A copy of one rank's objects in memory. Internal.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include <tern/base/bytes.hpp>
#include <tern/mobile/checkpoint/object_storage.hpp>
#include <tern/mobile/checkpoint/saved_tables.hpp>
#include <tern/net/buffer.hpp>

namespace tern::mobile::detail {

/// What a rank has packed, in pieces as they travel: objects one behind the other, and its tables.
/// Threads: as a vector.
class memory_copy final : public object_source {
public:
  using piece = shared_buffer<std::byte>;
  memory_copy(int rank, std::uint64_t number) : rank_(rank), number_(number) {}
  int rank() const noexcept { return rank_; }
  std::uint64_t number() const noexcept { return number_; }
  /// Piece `index`, from 0; in any order, each once. \param is_tables it has the tables, and is the
  /// last.
  void put(std::uint32_t index, bool is_tables, piece p);
  /// Bytes that it takes.
  std::size_t size() const noexcept { return size_; }
  /// \pre all pieces are there, as for the next.
  saved_tables tables() const;
  // object_source
  void read(std::uint64_t offset, std::span<std::byte> to) const override;
  std::uint64_t bytes() const noexcept override { return tables_ > 0 ? begins_[tables_] : 0; }
  std::string name() const override;

private:
  const int rank_;
  const std::uint64_t number_;
  std::vector<piece> pieces_;
  std::size_t size_ = 0, tables_ = 0; ///< bytes; the piece that has the tables
  std::vector<std::uint64_t> begins_; ///< of pieces, once the tables are there and all before them
};

/// Packs into pieces, and passes each on as it is full.
class piece_writer final : public object_sink {
public:
  /// \param each gets the number of the piece, and whether it has the tables.
  using function = std::function<void(std::uint32_t index, bool is_tables, memory_copy::piece p)>;
  explicit piece_writer(function each) : each_(std::move(each)) {}
  std::uint64_t add(std::span<const std::byte> object) override;
  void finish(std::span<const std::byte> tables) override;

private:
  void flush();
  void pass(std::span<const std::byte> bytes, bool is_tables);

  static constexpr std::size_t most_together = std::size_t{1} << 20;
  const function each_;
  std::uint32_t next_ = 0;
  std::uint64_t at_ = 0; ///< bytes in pieces that have been passed on
  std::vector<std::byte> some_;
};

} // namespace tern::mobile::detail
