// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// On which devices keys are at home. Internal.

#include <array>
#include <cstddef>
#include <cstdint>
#include <list>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include <tern/hetero/policy.hpp>

namespace tern::hetero::detail {

/// Where tasks of a key belong, for policies that go by keys (`ready_task::affinity`).
///
/// A key that is not known is settled on the device on which the loads of all keys at home there,
/// and that of the task, are over first. The load of a key is what its tasks have taken, as far as
/// that was expected, where older ones count less: half of it is forgotten each `remembered` tasks.
/// A task whose time is not known counts as the mean of the others.
///
/// A task may leave its key's home if it is expected to end there later than elsewhere by a fifth
/// and by the time that all of the key's data take to get there. After `leaves_most` such tasks in
/// a row the key is at home where the last one of them went. It is looked at as if all keys came
/// once more before the task: to what a device has to do, one is added of each key that is at home
/// there and has come not long ago. So no task leaves because another device has been a little
/// faster, or because its tasks have not been submitted yet. Tasks of the same key that wait at
/// home do not count: they would be in the way elsewhere, too.
///
/// Guarantees: `keys_most` keys; then the one that has been used longest ago goes. Of a key the
/// last `pieces_most` pieces of data count. Threads: one at a time, the policy's. Costs: a look-up
/// for each question; a look at all keys each `remembered` tasks, and for a task that might leave.
///
/// Source: hints as in OpenMP's clause `affinity`; keys are settled by list scheduling (Graham
/// 1969).
class affinity_table {
public:
  static constexpr std::size_t keys_most = 4096, pieces_most = 16;
  static constexpr std::size_t remembered = 4096; ///< tasks
  static constexpr int leaves_most = 3;
  static constexpr double much_later = 1.2;
  /// A key of which no task waits may come again if, of all keys' tasks, no more have come since
  /// than so many a key.
  static constexpr std::size_t recent = 8;

  /// A device on which a task could run.
  struct choice {
    std::size_t device = 0;
    double seconds = -1;      ///< that the task takes there; below 0: not known
    std::int64_t missing = 0; ///< bytes
    int units = 1;            ///< tasks that run there at once
  };

  /// Nothing if the key is not known, or has been at home on a device that is lost.
  std::optional<std::size_t> home(std::uint64_t key, std::span<const device_load> devices) const;
  /// The same, also of a device that is lost.
  std::optional<std::size_t> home(std::uint64_t key) const;
  /// The key is at home on one of these from now on. Of several equal ones, where the fewest bytes
  /// are missing. \pre there is one.
  std::size_t settle(std::uint64_t key, std::span<const choice> all);
  /// A task of the key has come that takes so long at home, below 0: not known, and reads these
  /// data. \pre the key has been settled, and is the last one that was.
  void came(std::uint64_t key, double seconds, std::span<const read_data> data);
  /// A task of the key that could run at home goes to this device. \return whether the key moves
  /// with it.
  bool went(std::uint64_t key, std::size_t device);

  /// A task of the key that has come is over, or comes again.
  void ended(std::uint64_t key) noexcept;

  /// Where a task could run, and until when, in seconds.
  struct expectation {
    std::size_t device;
    double end, seconds;
  };
  /// May the task of the key leave its home? \pre it has not come yet, or waits in a queue there.
  bool may_leave(const ready_task& t, std::uint64_t key, const expectation& home, const expectation& elsewhere,
                 double now) const;

  std::size_t size() const noexcept { return keys_.size(); }
  /// Of what its tasks have read, each piece once.
  std::int64_t bytes_of(std::uint64_t key) const;
  /// What all keys at home there take, in seconds, or in tasks if no time is known.
  double load_of(std::size_t device) const noexcept;

private:
  struct load {
    double seconds = 0, unknown = 0; ///< of tasks; how many tasks of which it is not known
    load& operator+=(const load& o) noexcept {
      seconds += o.seconds;
      unknown += o.unknown;
      return *this;
    }
    load& operator-=(const load& o) noexcept {
      seconds -= o.seconds;
      unknown -= o.unknown;
      return *this;
    }
  };
  struct piece {
    std::uint64_t number;
    std::int64_t bytes;
  };
  struct entry {
    std::uint64_t key = 0;
    std::size_t home = 0;
    load tasks;
    int left = 0;            ///< in a row
    std::size_t waiting = 0; ///< tasks that have come and not ended
    double last = -1;        ///< seconds of the last that came; below 0: not known
    std::uint64_t at = 0;    ///< how many tasks of all keys had come then
    std::vector<piece> pieces;
    std::size_t next_piece = 0; ///< the oldest of `pieces_most`
  };
  using list = std::list<entry>; // the one used last comes first

  entry& used(std::uint64_t key, std::size_t home);
  load& of_device(std::size_t d);
  double in_seconds(const load& l) const noexcept;
  /// Seconds of what may come there, but for `key`.
  double to_come(std::size_t device, std::uint64_t key) const noexcept;
  void forget_half() noexcept;

  list keys_;
  std::unordered_map<std::uint64_t, list::iterator> find_;
  std::vector<load> devices_;
  double known_seconds_ = 0, known_tasks_ = 0; ///< of the mean
  std::size_t tasks_ = 0;                      ///< since half was forgotten
  std::uint64_t came_ = 0;                     ///< tasks
};

/// How long a copy takes, in seconds; a guess where the models know too little.
double seconds_of_copy(const ready_task& t, std::size_t from, std::size_t to, std::int64_t bytes);

} // namespace tern::hetero::detail
