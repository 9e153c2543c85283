// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Cuts blocks out of large slabs of memory that is slow to allocate: a device's, for which the
/// driver waits until the device is idle, or host memory to be page-locked, which takes 0.3 ms a
/// MiB. Internal.
///
/// The memory itself is never touched, as it may be a device's: all bookkeeping lies outside it.
/// The smallest free block that is large enough is cut, of several the one at the lowest address; a
/// block that is freed is merged with its free neighbours. A caller that repeats a sequence of
/// allocations and frees causes, after the first rounds, neither new slabs nor allocations for the
/// bookkeeping.

#include <cstddef>
#include <cstdint>
#include <set>
#include <vector>

namespace tern::hetero::detail {

/// Where slabs come from.
struct slab_source {
  virtual ~slab_source() = default;
  /// \return 0 if there is not that much; otherwise memory that is aligned as the pool's blocks.
  /// What it throws is passed on by `allocate`.
  virtual std::uintptr_t get(std::size_t bytes) = 0;
  virtual void give_back(std::uintptr_t at, std::size_t bytes) noexcept = 0;
};

struct block_pool_settings {
  std::size_t alignment = 256;                ///< of blocks, and of their sizes; a power of two
  std::size_t granule = std::size_t{2} << 20; ///< slabs are multiples of it
  std::size_t first_slab = std::size_t{16} << 20;
  std::size_t largest_slab = std::size_t{256} << 20; ///< each slab is twice the one before, up to this
  std::size_t limit = SIZE_MAX;                      ///< of all slabs together, in bytes
};

/// Not for several threads at a time. `allocate` and `free` take logarithmic time in the number of
/// blocks, besides what the source takes.
class block_pool {
public:
  /// \param source must outlive the pool.
  explicit block_pool(slab_source& source, const block_pool_settings& how = {});
  /// Gives back all slabs, whatever is used in them.
  ~block_pool();
  block_pool(const block_pool&) = delete;
  block_pool& operator=(const block_pool&) = delete;

  /// At least so many bytes (of 0, too, a block of its own). If no block is large enough, a new
  /// slab is got: more than half of what would be the slab's size gets one for itself, which is
  /// kept for others when it is free. If the source or the limit refuses it, one that is just large
  /// enough is tried, and then the same again without the slabs that nothing is used of.
  /// \return 0 if there is none. \throws std::bad_alloc for the bookkeeping, and what the source
  /// throws; then the pool is as before, but for unused slabs that may have been given back.
  std::uintptr_t allocate(std::size_t bytes);
  /// \pre `at` is from `allocate`, and has not been freed since; otherwise the process ends.
  void free(std::uintptr_t at) noexcept;
  /// Gives back all slabs that nothing is used of.
  void trim() noexcept;

  std::size_t bytes_used() const noexcept { return used_bytes_; } ///< whole blocks
  std::size_t bytes_reserved() const noexcept { return reserved_; }
  std::size_t bytes_idle() const noexcept { return idle_; } ///< what `trim` would give back
  std::size_t slabs() const noexcept { return slabs_.size(); }
  std::size_t largest_free() const noexcept { return free_.empty() ? 0 : free_.rbegin()->bytes; }
  /// What the block has, which may be more than was asked for. \pre as for `free`
  std::size_t size_of(std::uintptr_t at) const noexcept { return find(at)->bytes; }

private:
  // A piece of a slab. It lives in a node of one of the two sets below, and moves between them with
  // its node: so neither `free` nor most of `allocate` allocates anything.
  struct block {
    std::uintptr_t at = 0;
    std::size_t bytes = 0;
    bool used = false;
    // The neighbours in the slab; mutable, as nothing is ordered by them.
    mutable const block* before = nullptr;
    mutable const block* after = nullptr;
    bool whole_slab() const noexcept { return !before && !after; }
  };
  struct by_size {
    bool operator()(const block& a, const block& b) const noexcept {
      return a.bytes != b.bytes ? a.bytes < b.bytes : a.at < b.at;
    }
  };
  struct by_place {
    using is_transparent = void;
    bool operator()(const block& a, const block& b) const noexcept { return a.at < b.at; }
    bool operator()(const block& a, std::uintptr_t b) const noexcept { return a.at < b; }
    bool operator()(std::uintptr_t a, const block& b) const noexcept { return a < b.at; }
  };
  using free_blocks = std::set<block, by_size>;
  using used_blocks = std::set<block, by_place>;
  using node = free_blocks::node_type; // of both: they differ in their order only
  struct slab {
    std::uintptr_t at;
    std::size_t bytes;
    // The one at its beginning is always the same: what is cut off, or becomes one with it, lies
    // behind it.
    const block* first;
  };

  used_blocks::const_iterator find(std::uintptr_t at) const noexcept;
  void prepare(std::size_t nodes);
  node take_spare() noexcept;
  free_blocks::const_iterator add_slab(std::size_t need);
  std::uintptr_t get(std::size_t bytes);
  void absorb(node& into, node behind) noexcept;

  slab_source& source_;
  block_pool_settings how_;
  free_blocks free_;
  used_blocks used_;
  std::vector<node> spare_; // has room for all nodes that there are
  std::size_t nodes_ = 0;
  std::vector<slab> slabs_;
  std::size_t next_slab_;
  std::size_t used_bytes_ = 0, reserved_ = 0;
  std::size_t idle_ = 0; // bytes of slabs that nothing is used of
};

} // namespace tern::hetero::detail
