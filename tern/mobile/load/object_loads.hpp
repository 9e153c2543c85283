// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What there is to do for the objects of a rank. Internal; load.hpp is for programs.

#include <atomic>
#include <cstdint>
#include <utility>
#include <vector>

#include <tern/mobile/entry/entry.hpp>
#include <tern/mobile/entry/rank_objects.hpp>
#include <tern/mobile/load/load_model.hpp>
#include <tern/task/wait/waiting.hpp>

namespace tern::mobile {
namespace detail {

/// The load of each object of one rank, and their sum. Thread-safe.
class object_loads {
public:
  explicit object_loads(rank_objects& objects) noexcept : objects_(objects) {}

  /// Before loads are watched.
  void count_as(load_model m) noexcept { model_.store(m, std::memory_order_relaxed); }
  /// Of all objects that are here.
  double sum() const noexcept { return sum_.load(std::memory_order_relaxed); }
  void add_first(const entry& e) noexcept { sum_.fetch_add(e.known().load, std::memory_order_relaxed); }
  /// Under the shard's lock.
  void set(entry& e, double load) noexcept;

  /// Before another thread knows the object.
  void weigh_first(entry& e, const void* object) noexcept;
  /// It has arrived from another rank, and all that comes for it is held.
  void weigh_landed(entry& e, const type_record& type, const void* object) noexcept;
  /// By the fiber that has the access: the class is asked without the lock. \param ending of those
  /// that are pending. \return the load of one more.
  double weigh(entry& e, std::uint32_t ending);
  /// Under the shard's lock. The fiber that has the access may be changing what the class would
  /// look at: so the load grows by as much as it did last time.
  void weigh_arrival(entry& e) noexcept { set(e, e.known().load + e.known().each); }
  /// An invocation has run for so many seconds of a worker.
  void note_time(entry& e, double seconds);
  /// What an invocation has submitted was so much load for devices; 0: nothing is noted. Under the
  /// shard's lock.
  static void note_device(entry& e, double load) noexcept;

private:
  float typical_of(const type_record& type) const noexcept;
  double undeclared(const extra_state& x, const type_record& type) const noexcept;
  void note_typical(const type_record& type, float seconds);
  double sound(double says, const type_record& type) noexcept;

  rank_objects& objects_;
  std::atomic<double> sum_{0};
  std::atomic<load_model> model_{load_model::declared};
  std::atomic<bool> unsound_{false}; ///< a class has said what is no load
  mutable tern::detail::spin_lock guard_;
  std::vector<std::pair<const type_record*, float>> typical_; ///< seconds that invocations take
};

} // namespace detail
} // namespace tern::mobile
