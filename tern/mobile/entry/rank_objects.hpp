// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The entries of one rank. Internal.

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <tern/mobile/balancer.hpp>
#include <tern/mobile/entry/deferred_actions.hpp>
#include <tern/mobile/entry/entry.hpp>
#include <tern/mobile/entry/homes.hpp>
#include <tern/mobile/entry/object_labels.hpp>
#include <tern/mobile/entry/object_table.hpp>
#include <tern/mobile/object_id.hpp>
#include <tern/net/node.hpp>
#include <tern/task/wait/waiting.hpp>

namespace tern::mobile::detail {

/// Of the objects of one class, in one shard, on this rank.
struct class_counts {
  const type_record* type;
  std::uint64_t created = 0, destroyed = 0, arrived = 0, left = 0;
  std::uint64_t bytes = 0;       ///< of those that left
  std::uint64_t invocations = 0; ///< of objects that are no longer here; the others know theirs
};

inline constexpr unsigned shard_bits = 6;
inline constexpr std::size_t shard_count = std::size_t{1} << shard_bits;

/// A part of a rank's entries, and the lock that protects them.
struct alignas(64) shard {
  mutable tern::detail::owner_lock lock;   // a few instructions at a time, from fibers and the polling context alike
  object_table<entry, shard_bits> entries; // marked: those of objects that are here
  std::uint32_t posting = 0;               // messages to homes that fibers of this rank are sending
  std::vector<object_id> to_open;          // streams, as soon as `posting` is 0
  std::size_t remote = 0;                  // entries of objects that are elsewhere and have another home
  std::size_t hand = 0;                    // of the clock that finds one to forget
  std::vector<class_counts> counts;

  /// The counts of one class. Under the lock. \throws std::bad_alloc for a class that is new here.
  class_counts& of(const type_record& type);
  /// What is known of it, as an entry. Under the lock. \return null: nothing is known.
  /// \throws std::bad_alloc.
  entry* find_any(object_id id);
  /// Is anything known of it? Under the lock.
  bool knows(object_id id) const noexcept { return entries.find(id) || entries.number(id); }
  /// Under the lock, and the last to be done there with an object that may be elsewhere: keeps no
  /// entry of it if less will do. \return the entry, which is to be destroyed.
  [[nodiscard]] std::unique_ptr<entry> reduce(entry& e) noexcept;
  /// The object is no longer here. Under the lock.
  void add_runs(const type_record& type, entry& e) noexcept;
};

/// What the rooms of this layer share on one rank: the entries, in shards, and what is to be done
/// at an invocation's end. Thread-safe; an entry is protected by its shard's lock.
class rank_objects {
public:
  /// What an invocation's end is examined for.
  enum attention : unsigned {
    to_loads = 1,
    to_memory = 2,
    to_debug_moves = 4,
    to_balance = 8, ///< quick invocations are told from long ones
    to_contacts = 16,
    to_defer = 32 ///< with `to_balance`: long ones wait for a worker
  };

  /// \throws error(unsupported) if the job has more than 2^24 ranks.
  rank_objects(net::node& here, directory_services& services);
  ~rank_objects() { clear(); }
  rank_objects(const rank_objects&) = delete;
  rank_objects& operator=(const rank_objects&) = delete;

  /// Destroys the objects that are left. One thread, when nothing runs any more.
  void clear() noexcept;
  net::node& node() const noexcept { return node_; }
  int rank() const noexcept { return rank_; }
  shard& shard_of(object_id id) noexcept { return shards_[id.number() % shard_count]; }
  const shard& shard_of(object_id id) const noexcept { return shards_[id.number() % shard_count]; }
  std::array<shard, shard_count>& shards() noexcept { return shards_; }
  const std::array<shard, shard_count>& shards() const noexcept { return shards_; }
  /// Names of objects whose home is here.
  object_labels& labels() noexcept { return labels_; }
  home_table& homes() noexcept { return homes_; }
  const home_table& homes() const noexcept { return homes_; }
  /// The rank of the object's home.
  int home_of(object_id id) const noexcept { return homes_.rank_of(id); }
  bool is_home(object_id id) const noexcept { return homes_.rank_of(id) == rank_; }

  /// The id of a new object. \throws error(unsupported) for the 2^40th.
  object_id next_id() { return {rank_, reserve(1)}; }
  /// The numbers of so many objects, which follow each other. \return the first. Throws likewise.
  std::uint64_t reserve(std::uint64_t count);
  /// Has an object of this id ever been created, as far as this rank can know?
  bool was_created(object_id id) const noexcept {
    return id.home() != rank_ || id.number() < next_.load(std::memory_order_relaxed);
  }
  /// \throws error(invalid_argument) for a null pointer or one that cannot exist in this job.
  void check(object_id id) const {
    if (!id || id.home() >= homes_.count()) [[unlikely]]
      bad_pointer(id);
  }

  /// acquire: what was made for it is there.
  unsigned attends() const noexcept { return attention_.load(std::memory_order_acquire); }
  const std::atomic<unsigned>& attention() const noexcept { return attention_; }
  bool watches() const noexcept { return attends() & to_loads; }
  /// \return the bits before. release: a thread that sees the new bit sees what was made for it.
  unsigned attend(unsigned bits) noexcept { return attention_.fetch_or(bits, std::memory_order_release); }
  /// relaxed: a thread that sees it late does a little more.
  void ignore(unsigned bits) noexcept { attention_.fetch_and(~bits, std::memory_order_relaxed); }

  /// The layer above, if it balances; else null.
  mobile::balancer* balancer() const noexcept { return balancer_.load(std::memory_order_acquire); }
  void set_balancer(mobile::balancer& b) noexcept { balancer_.store(&b, std::memory_order_release); }

  /// Bytes of objects in memory, with those that are being read; 0 if memory is not limited.
  std::atomic<std::int64_t>& bytes_in_memory() noexcept { return bytes_in_memory_; }
  /// `e` takes so many bytes now. \pre the caller has its access, or no other thread knows it yet.
  void count_bytes(entry& e, std::uint64_t bytes) noexcept {
    if (!(attends() & to_memory)) return;
    bytes_in_memory_ += static_cast<std::int64_t>(bytes) - static_cast<std::int64_t>(e.known().bytes);
    e.extra().bytes = bytes;
  }
  /// Under its shard's lock: the object is on this rank no more. \return its copy on disk, which
  /// the caller drops.
  [[nodiscard]] std::optional<tern::detail::stored> discount(entry& e) noexcept {
    if (!e.extras) return {};
    bytes_in_memory_ -= static_cast<std::int64_t>(std::exchange(e.extras->bytes, 0));
    return std::exchange(e.extras->disk, {});
  }

  /// Credit has gone into what is being packed, by whatever fiber: it must be unpacked once.
  void note_split() noexcept { splits_.fetch_add(1, std::memory_order_relaxed); }
  std::uint64_t splits() const noexcept { return splits_.load(std::memory_order_relaxed); }

  /// Has the rank's work been given up, since a rank has died? No message waits for an object then.
  bool abandoned() const noexcept { return abandoned_.load(std::memory_order_acquire); }
  void abandon(bool on) noexcept { abandoned_.store(on, std::memory_order_seq_cst); }
  /// While they are frozen, no balancer moves objects.
  void freeze(bool on) noexcept { frozen_.store(on, std::memory_order_seq_cst); }
  bool frozen() const noexcept { return frozen_.load(std::memory_order_seq_cst); }
  /// From now on, until `end_restoring`, credit that objects give back is kept: those that it
  /// belongs to may not be there yet.
  void begin_restoring() noexcept {
    restoring_.store(true, std::memory_order_release);
    round_.fetch_add(1, std::memory_order_acq_rel); // before a shard's lock is taken to remove entries
  }
  /// How often that was: what an earlier round knew of entries is void.
  std::uint32_t round() const noexcept { return round_.load(std::memory_order_acquire); }
  /// \return whether it is kept
  bool keep_credit(object_id id, std::uint64_t credit);
  std::vector<std::pair<object_id, std::uint64_t>> end_restoring();
  /// The first number that was not given. \pre nothing is created meanwhile
  std::uint64_t next_number() const noexcept { return next_.load(std::memory_order_relaxed); }
  /// A home that was another rank's is here from now on. \param next the first number that it has
  /// not given, as far as is known.
  void adopt(int home, std::uint64_t next);
  /// As `reserve`, of a home that is here.
  std::uint64_t reserve_of(int home, std::uint64_t count);
  /// Of homes that are here beside the rank's own: the first number that was not given.
  std::vector<std::pair<std::int32_t, std::uint64_t>> adopted() const;
  /// Credit that has been kept belongs to what is no more.
  void drop_kept_credit() noexcept;
  /// Takes out all entries: the job goes back to an earlier state. Numbers go on. \pre nothing runs
  /// on an object, and no message is under way. \return those entries.
  std::vector<std::unique_ptr<entry>> take_all();
  /// Numbers go on from there, if that is more.
  void go_on_from(std::uint64_t number) noexcept {
    if (number > next_.load(std::memory_order_relaxed)) next_.store(number, std::memory_order_relaxed);
  }

  void perform(deferred_actions& then) { services_.perform(then); }
  directory_services& services() noexcept { return services_; }

private:
  [[noreturn]] void bad_pointer(object_id id) const;

  net::node& node_;
  const int rank_;
  directory_services& services_;
  home_table homes_;
  std::atomic<unsigned> attention_{0};
  std::atomic<mobile::balancer*> balancer_{nullptr}; ///< release when set, acquire when used: it has been made
  std::atomic<std::uint64_t> next_{1}, splits_{0};
  std::atomic<std::int64_t> bytes_in_memory_{0};
  std::atomic<std::uint32_t> round_{0};
  std::atomic<bool> frozen_{false}, restoring_{false}, abandoned_{false};
  mutable tern::detail::spin_lock keeping_; ///< of the next two
  std::vector<std::pair<object_id, std::uint64_t>> kept_credit_;
  std::map<int, std::uint64_t> adopted_; ///< homes, and what they give next
  object_labels labels_;
  std::array<shard, shard_count> shards_;
};

} // namespace tern::mobile::detail
