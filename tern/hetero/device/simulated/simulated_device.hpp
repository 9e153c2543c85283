// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Simulated accelerators, for tests, demonstrations and simulations of machines that are not
/// there. Internal.
///
/// A simulated device has memory of its own and computes with the host's processor, but when its
/// operations end is said by a model: each stream has a timeline, on which an operation begins when
/// it was put there, when the stream's previous one has ended and when those have that it is
/// ordered after, whichever is the latest. Not before it has ended is the data moved or the kernel
/// run, by the first `done` or `poll_delay` after that moment, of several in the order in which
/// they end. What comes after an operation of another such device (`after_others`), and what ends
/// later, is done when that one is. So a program that does not wait for what it needs reads old
/// bytes, or those that fresh memory is filled with, rather than being right by chance.
///
/// The option `hetero-simulated` is `COUNT[:WORD=VALUE,…]`, say
/// `2:bandwidth=4G,latency=10us,memory=1G,launch=5us,speed=2`:
/// - `bandwidth` bytes a second of copies, in each direction for itself; 0: no limit;
/// - `peer-bandwidth` of copies from other simulated devices; 0: these go through the host;
/// - `latency` of each copy; one within the device takes no more than that;
/// - `memory` bytes;
/// - `launch` time of each kernel beside its work; `item` time of each of its items, all units
///   together;
/// - `speed` how many times as fast kernels do their work;
/// - `fuse` so many small equal kernels can be one launch; 1: none (fusion.hpp);
/// - `notice` time from an operation's end until the host can see it; `waits` time that a launch
///   takes more for each other stream that it has to wait for, and each operation of another device;
/// - `noise` standard deviation of kernels' times, as a part of them; `outlier=0.01x100` one in a
///   hundred takes a hundred times as long; `slow-first` times as long the first launch of each
///   kernel takes; `drift=2@0.5s` all take twice as long from half a second on;
/// - `power` watts while it computes, `idle-power` watts while it does not: what the policy
///   `energy` goes by;
/// - `units` compute units, which are only reported; `unit-memory` bytes of a group's local memory;
/// - `fail-allocation`, `fail-copy`, `fail-kernel` =N: the Nth of them fails; `lose=N`: the device
///   is lost when the Nth operation, a copy or a kernel, would have ended;
/// - `skip=false`: a kernel that fails loses the device, as on CUDA. Otherwise what was launched
///   behind it is not done.
///
/// Several such, separated by semicolons, are for the ranks of a job, which take them in turn (rank
/// r of n has number r mod n): `2:speed=4;2:speed=1` are slow nodes beside fast ones.
///
/// `VALUE@D` behind any word is for device D alone: `2:speed=1,speed=4@1`.
///
/// Sizes may have k, M, G or T behind them, powers of 1024; times have ns, us, ms or s.

#include <atomic>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <new>
#include <optional>
#include <random>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include <tern/base/error.hpp>
#include <tern/hetero/device/device.hpp>
#include <tern/task/wait/waiting.hpp>

namespace tern::hetero::detail {

/// Which allocation, copy, kernel, operation (copy or kernel) fails, counted from 1. 0: none.
struct simulated_faults {
  std::int64_t allocation = 0, copy = 0, kernel = 0, lose = 0;
};

/// How times of kernels differ from what the words say.
struct unsteady_times {
  double noise = 0;                             ///< standard deviation, of the time
  double outlier_share = 0, outlier_factor = 1; ///< how many take how many times as long
  double first_factor = 1;                      ///< that the first launch of each kernel takes
  double drift_factor = 1, drift_at = 0;        ///< from so many nanoseconds after the device was made on
};

struct simulated_settings {
  double bandwidth = 16.0 * (1 << 30); ///< bytes a second; 0: no limit
  double peer_bandwidth = 0;           ///< of copies from other simulated devices; 0: through the host only
  double latency = 5000;               ///< nanoseconds, as the other times
  double launch = 5000, item = 1;
  double notice = 0, waits = 0;
  bool skip = true; ///< what is behind a kernel that fails; else the device is lost
  double speed = 1;
  std::size_t memory = std::size_t{1} << 30;
  std::size_t unit_memory = std::size_t{64} << 10;
  int units = 8;
  int fuse = 1;                      ///< launches that can be one
  double power = -1, idle_power = 0; ///< watts; below 0: not known
  unsteady_times unsteady;
  simulated_faults faults;
  std::int64_t (*now)() = &tern::detail::clock_now; ///< nanoseconds; goes on while a fiber waits
};

/// What each device of an option's text is like; of a text for several ranks those of rank 0, but
/// all is checked (own_devices chooses). \throws error(invalid_option) saying which word is
/// wrong and what is allowed.
std::vector<simulated_settings> parse_simulated(std::string_view text);

/// Those that the option describes. \throws as `parse_simulated`.
std::vector<std::unique_ptr<device>> open_simulated(const options& opts);

/// What was done so far, and what there still is.
struct simulated_counters {
  struct copies {
    std::uint64_t count = 0, bytes = 0;
  };
  std::size_t allocations = 0, bytes = 0;         ///< not freed
  std::size_t tickets = 0;                        ///< not forgotten
  copies to_device, from_device, within, between; ///< that were put into streams
  std::uint64_t launches = 0;                     ///< the same; several that were one are one
};

/// Handles and tickets are numbers that no other simulated device has and that are never given
/// again, so that stale ones are found out. Threads: as `device`; the settings' clock is called by
/// the owner.
///
/// Errors, beside those of `device`: error(invalid_argument) for an operation in a stream that does
/// not take it, or beyond its memory, with freed memory or that of another device, with rows that
/// overlap, or with groups that this device does not run; also from `done`, if its memory was freed
/// before it was done. What is wrong with `free`, which does not throw, is thrown by the next call.
class simulated_device final : public device, private launch_fuser {
public:
  /// \param number of the id, "simulated0"; \param queues streams for kernels, at least 1.
  simulated_device(int number, const simulated_settings& settings, int queues);
  ~simulated_device() override { lose(); } // what others wait for

  const device_info& info() const noexcept override { return info_; }
  memory_handle allocate(std::size_t bytes) override;
  void free(memory_handle memory, std::size_t bytes) noexcept override;
  std::size_t memory_limit() const noexcept override { return settings_.memory; }
  int streams() const noexcept override { return static_cast<int>(free_at_.size()) - 2; }
  int waiting_stream() const noexcept override { return streams(); }
  int waiting_stream_in() const noexcept override { return streams() + 1; }
  ticket copy(int stream, const copy_request& what) override;
  ticket launch(int stream, const launch_request& what) override;
  launch_fuser* fuser() noexcept override { return settings_.fuse > 1 ? this : nullptr; }
  std::size_t fuses(const launch_request& what) const noexcept override;
  bool prepare_fused(const launch_request&) override { return true; } // kernels need no other form
  ticket launch_fused(int stream, std::span<const launch_request> all) override;
  void order(int stream, ticket t) override;
  bool done(ticket t) override;
  bool launches_behind() const noexcept override { return true; }
  event_ref event(ticket t) override;
  bool waits_for(const device& other) const noexcept override {
    return &other != this && other.info().kind == device_kind::simulated;
  }
  bool measures() const noexcept override { return true; }
  std::int64_t took() const noexcept override { return took_; }
  std::optional<std::int64_t> copy_takes(direction way, std::size_t bytes) const noexcept override {
    return static_cast<std::int64_t>(copy_nanoseconds(way, bytes));
  }
  std::optional<device_power> power() const override {
    return settings_.power < 0 ? std::nullopt : std::optional(device_power{settings_.power, settings_.idle_power});
  }
  std::int64_t poll_delay() noexcept override;
  bool reaches(const device& from) const noexcept override;
  bool is_near(const device& from) const noexcept override {
    return reaches(from) && settings_.peer_bandwidth > settings_.bandwidth;
  }

  simulated_counters counters() const noexcept;
  /// What fails from now on: 1 is the next.
  void set_faults(const simulated_faults& faults) noexcept { settings_.faults = faults; }
  /// It is lost now: nothing that is pending is done.
  void lose() noexcept;
  bool lost() const noexcept { return lost_.load(std::memory_order_relaxed); }

private:
  struct give_back {
    void operator()(std::byte* p) const noexcept { ::operator delete[](p, std::align_val_t{64}); }
  };
  struct block {
    std::unique_ptr<std::byte[], give_back> data;
    std::size_t bytes;
  };
  struct alignas(64) line {
    std::byte bytes[64];
  };
  struct reference { // to memory, as a parameter
    std::size_t parameter;
    memory_handle memory;
    std::size_t offset;
  };
  /// The end of an operation, for other devices.
  struct end_of_operation final : device_event {
    enum state : std::uint8_t { under_way, done, not_done };
    explicit end_of_operation(std::int64_t at) : end(at) {}
    const std::int64_t end;
    std::atomic<state> is{under_way}; ///< release: its data
  };
  struct operation {
    ticket number = 0;
    std::uint64_t turn = 0; // of all devices' operations that end at the same moment
    int stream = 0;
    std::int64_t begin = 0, end = 0;
    std::int64_t delay = 0; // for what it waits for in other streams
    copy_request copy;      // if there is no code
    const kernel_code* code = nullptr;
    grid shape;
    std::vector<line> values, dynamic; // `at[i]`: where the value of parameter i begins
    std::vector<std::size_t> at;
    std::vector<reference> references;
    std::vector<operation> others; // in the same launch
    std::vector<ticket> after;
    std::vector<std::shared_ptr<const end_of_operation>> elsewhere; // it comes after these
    std::shared_ptr<end_of_operation> told;                         // null: no other device knows it
    bool fails = false, loses = false, finished = false;
    bool skipped = false; // one before it has failed, or was skipped
    bool told_of = false; // `poll_delay` has said that its end can be seen
    std::optional<error> failure;
  };

  double copy_nanoseconds(direction way, std::size_t bytes) const noexcept;
  std::string describe(const operation& op) const;
  [[noreturn]] void refuse(const operation& op, const std::string& what) const;
  void check_usable();
  operation make(int stream, const char* what, bool waits = false) const; ///< waits: in a waiting one, too
  /// The stream of those copies that come after others; -1: none.
  int waiting_for(direction way) const noexcept {
    return way == direction::within ? -1 : way == direction::from_device ? waiting_stream() : waiting_stream_in();
  }
  static void tell(const operation& op, bool is_done) noexcept;
  operation kernel(int stream, const launch_request& what);
  double work(const operation& op) const noexcept;
  /// What a launch of the kernel takes that should take so long.
  double unsteady(const kernel_code* code, double duration);
  ticket put(operation&& op, double duration);
  void come_after(operation& op, std::span<const ticket> all, std::span<const event_ref> others);
  void skip_what_follows(const operation& op) noexcept;
  bool memory_is_there(const operation& op) const;
  std::byte* find(memory_handle memory) const noexcept;
  std::string stale(memory_handle memory) const;
  void check_memory(const operation& op, const char* which, memory_handle memory, std::optional<std::size_t> end) const;
  void check_copy(const operation& op) const;
  void check_shape(const operation& op, std::size_t dynamic_bytes) const;
  void perform(operation& op);
  void move(const operation& op) const;
  const simulated_device& source_of(const copy_request& what) const noexcept;
  void compute(operation& op) const;
  static bool strikes(std::int64_t& fault) noexcept;
  void progress();
  void forget(ticket t) noexcept;
  std::int64_t seen_at(const operation& op) const noexcept { return op.end + std::llround(settings_.notice); }

  const int number_;
  simulated_settings settings_;
  device_info info_;
  mutable tern::detail::spin_lock blocks_lock_;      // other devices copy from here
  std::unordered_map<std::uintptr_t, block> blocks_; // address: handles are numbers that count up, and point to nothing
  std::uint64_t given_ = 0;                          // handles and tickets
  std::size_t bytes_ = 0;
  std::vector<std::int64_t> free_at_;      // of each stream: when what is put into it may begin
  std::map<ticket, operation> operations_; // not forgotten
  struct ending {
    std::int64_t at;
    std::uint64_t turn;
    ticket number;
    auto operator<=>(const ending&) const = default;
  };
  std::set<ending> pending_;                        // by the time at which they end
  std::set<std::pair<std::int64_t, ticket>> asked_; // not forgotten, by the time at which the host can see their end
  simulated_counters counted_;
  const std::int64_t made_;
  std::mt19937_64 dice_;                        // the same in each run
  std::unordered_set<const kernel_code*> warm_; // address: looked up only; launched before
  std::int64_t took_ = 0;                       // of the last that was found to be done
  std::optional<error> misuse_;                 // of `free`
  std::atomic<bool> lost_{false};
};

} // namespace tern::hetero::detail
