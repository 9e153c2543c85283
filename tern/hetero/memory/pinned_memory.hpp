// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Host memory that a device's driver can page-lock, so that copies from and to it are fast and run
/// beside other work. Internal.
///
/// Locking takes 0.3 ms a MiB, so memory is got in slabs (2 MiB pages where the system has them),
/// which are locked once, and blocks are cut out of them. It is lazy: until a driver offers itself,
/// with the first use of its device, all of this is ordinary memory; a program that uses no such
/// device locks none.

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

#include <tern/hetero/memory/block_pool.hpp>

namespace tern::hetero::detail {

/// What that means, and what to do, for users.
constexpr const char* pages_not_locked =
    "copies from and to that memory take about twice as long, and nothing goes on beside them; let programs lock "
    "memory "
    "(ulimit -l unlimited; for a container --ulimit memlock=-1), or lock less: --tern-hetero-pinned";

/// How a driver locks pages. Called by whichever thread needs memory; must not call back.
struct locker {
  bool (*lock)(void* owner, void* at, std::size_t bytes) noexcept = nullptr; ///< false: it could not
  void (*unlock)(void* owner, void* at) noexcept = nullptr;                  ///< what `lock` has locked
  void* owner = nullptr;                                                     ///< not null
};

/// Any thread may call all of it. No call suspends a fiber, but one that gets a slab, or gives some
/// back, takes milliseconds, and meanwhile others that allocate or free sleep; `holds` and
/// `is_locked` never wait for that.
class pinned_memory {
public:
  /// \param budget how many bytes there may be in all; slabs are multiples of 2 MiB
  explicit pinned_memory(std::size_t budget);
  /// Gives all back, whatever is used of it, and unlocks it before.
  ~pinned_memory();
  pinned_memory(const pinned_memory&) = delete;
  pinned_memory& operator=(const pinned_memory&) = delete;

  /// Aligned to 64 bytes, from 16 KiB on to pages. Not zeroed: others may have used it before.
  /// \return null if the budget or the system has not that much: then take ordinary memory.
  std::byte* allocate(std::size_t bytes) noexcept;
  /// \pre null, or from `allocate` and not freed since (otherwise the process ends); no device
  /// still works on it.
  void free(std::byte* p) noexcept;
  /// Gives back what nothing is used of.
  void trim() noexcept;

  /// From now on `how` locks all slabs, present and future ones. A slab that cannot be locked stays
  /// ordinary memory and is not tried again. \return false if there is another locker already; it
  /// then stays.
  bool lock_with(const locker& how) noexcept;
  /// Unlocks everything; to be called before the driver's context goes. Afterwards another may
  /// lock.
  /// \pre none of its devices works on any of this memory. \return false if `owner` is not the one
  /// that locks.
  bool stop_locking(void* owner) noexcept;

  /// Does the byte lie in it, whether in use or not?
  bool holds(const void* p) const noexcept;
  bool is_locked(const void* p) const noexcept;

  std::size_t bytes_used() const noexcept; ///< whole blocks
  std::size_t bytes_reserved() const noexcept;
  std::size_t bytes_locked() const noexcept;
  std::size_t bytes_not_locked() const noexcept; ///< of slabs that could not be locked

private:
  enum class state : std::uint8_t { ordinary, locked, refused };
  struct slab {
    std::uintptr_t at;
    std::size_t bytes;
    block_pool* pool;
    state how;
  };
  struct source final : slab_source {
    source(pinned_memory& h, const block_pool_settings& how) : home(h), pool(*this, how) {}
    std::uintptr_t get(std::size_t bytes) override { return home.get(bytes, pool); }
    void give_back(std::uintptr_t at, std::size_t bytes) noexcept override { home.give_back(at, bytes); }
    pinned_memory& home;
    block_pool pool;
  };

  std::uintptr_t get(std::size_t bytes, block_pool& pool);
  void give_back(std::uintptr_t at, std::size_t bytes) noexcept;
  state try_to_lock(std::uintptr_t at, std::size_t bytes) const noexcept;
  void set(slab& s, state how) noexcept;
  const slab* find(const void* p) const noexcept;
  std::size_t bytes_that_are(state how) const noexcept;

  const std::size_t budget_;
  // For all but the look-ups. A std::mutex, not a spin_lock: it is held while the system maps
  // memory and the driver locks it. That takes tens of milliseconds for a large slab, so waiting
  // threads should sleep. No fiber suspends while it holds it.
  mutable std::mutex mutex_;
  // Held for moments: by look-ups, and, together with mutex_, by a thread that changes the table.
  // So a thread that holds mutex_ reads the table without it.
  mutable std::mutex table_mutex_;
  std::vector<slab> table_; // by address
  std::size_t reserved_ = 0;
  locker locker_;
  // Blocks of whole pages lie in slabs of their own: between others they would leave gaps.
  source small_, large_;
};

} // namespace tern::hetero::detail
