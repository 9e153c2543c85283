// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The copies that a rank keeps in memory. Internal.

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include <tern/mobile/protect/memory_copy.hpp>
#include <tern/net/node.hpp>
#include <tern/task/wait/waiting.hpp>

namespace tern::mobile::detail {

/// A copy of the whole job, as one rank knows it.
struct job_copy {
  std::uint64_t number = 0;
  std::vector<std::int32_t> ranks;   ///< that have parts of it, ascending
  std::vector<std::int32_t> buddies; ///< of these, in their order
  std::vector<std::int32_t> homes;   ///< by home, the rank where it was
  std::shared_ptr<memory_copy> own;
  /// Of a rank that is one of `ranks`.
  std::int32_t buddy_of(std::int32_t rank) const;
};

/// The copies of one rank: its own, and those of the ranks whose buddy it is. Thread-safe.
class copy_shelf {
public:
  static copy_shelf& of(net::node& here);
  copy_shelf() = default;

  /// This rank's part of a copy is complete.
  void add(job_copy copy);
  /// A piece of another rank's copy has come.
  void keep(int rank, std::uint64_t number, std::uint32_t index, bool is_tables, memory_copy::piece p);
  /// Null: it is not here.
  std::shared_ptr<const job_copy> own(std::uint64_t number) const;
  std::shared_ptr<const memory_copy> other(int rank, std::uint64_t number) const;
  /// Copies of that number count from now on, and others are forgotten.
  void settle(std::uint64_t number) noexcept;
  void clear() noexcept;
  std::size_t bytes() const;

private:
  static constexpr std::uint64_t no_copy = ~std::uint64_t{0};
  mutable tern::detail::spin_lock lock_;
  std::map<std::uint64_t, std::shared_ptr<const job_copy>> own_;
  std::map<std::pair<std::uint64_t, int>, std::shared_ptr<memory_copy>> others_; // by number, and rank
};

/// On the buddy of `rank`.
void keep_piece(std::int32_t rank, std::uint64_t number, std::uint32_t index, bool is_tables, memory_copy::piece p);

} // namespace tern::mobile::detail
