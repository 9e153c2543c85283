// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What stands between a rank's policy and its objects. Internal.

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <tern/balance/balance.hpp>
#include <tern/balance/node_queue.hpp>
#include <tern/balance/policy.hpp>
#include <tern/balance/runtime/policy_trial.hpp>
#include <tern/balance/runtime/recorder.hpp>
#include <tern/base/bytes.hpp>
#include <tern/mobile/array/array_table.hpp>
#include <tern/mobile/balancer.hpp>
#include <tern/mobile/directory.hpp>
#include <tern/net/node.hpp>
#include <tern/task/scheduler.hpp>
#include <tern/task/wait/waiting.hpp>

namespace tern::balance::detail {

/// What goes with an object that a policy moves.
struct carried {
  object_id id;
  std::uint32_t moves = 0;                      ///< since one of its invocations began last, or since the last phase
  std::int32_t from = -1;                       ///< the rank that it comes from
  float seconds = 0, device = 0;                ///< of the phase that has not ended: time, and load for devices
  std::array<float, 3> past{-1, -1, -1};        ///< seconds in the last phases, the last one first; negative: none
  std::array<float, 3> past_device{-1, -1, -1}; ///< likewise: load
};

/// In front of a message between two ranks' balancers.
struct message_head {
  enum class kind : std::uint32_t {
    of_policy,
    history ///< what is known of an object that comes
  };
  std::uint32_t generation;
  kind is;
  float least, most; ///< shares (policy_trial) that the sender knows of, its own included; negative: none
};

/// One rank's. The policy is entered by one thread at a time: what happens meanwhile waits in
/// `events_` until that thread comes to it. Everything else may be called by any worker at any
/// time.
class balancer final : public policy_context, public mobile::balancer, public work_source, private net::reported_part {
public:
  balancer();
  ~balancer();
  balancer(const balancer&) = delete;
  balancer& operator=(const balancer&) = delete;
  static balancer& here();
  /// Or null.
  static balancer* if_made(net::node& of) noexcept;

  // For balance.cpp
  /// \throws error(invalid_option).
  void use(std::uint32_t generation, const std::string& policy);
  void enable(bool on);
  /// Waits until all that has been asked of it so far is done: another fiber may be calling the
  /// policy just now.
  void catch_up();
  std::string in_use();
  counters count() const;
  /// \param array whose elements alone are looked at; 0: all objects.
  void begin_round(std::uint64_t array);
  void end_round();
  void message(int source, std::span<const std::byte> bytes);
  void record();
  /// The rank gives up its generation (net/rank/abandon_hook.hpp): the policy is dropped, until
  /// `gone_back` makes it anew.
  void abandon();
  /// The job ends: nothing more is called. Collective, if it was recorded.
  void close();

  // policy_context
  int rank() const noexcept override { return living_.empty() ? node_.rank() : place_of(node_.rank()); }
  int size() const noexcept override { return living_.empty() ? node_.size() : static_cast<int>(living_.size()); }
  int workers() const noexcept override { return node_.computing_workers(); }
  double now() const noexcept override;
  double pace() const noexcept override { return pace_.load(std::memory_order_relaxed); }
  double load() const noexcept override;
  double waiting() const noexcept override;
  std::size_t ready() const noexcept override;
  std::vector<double> running() const override;
  std::vector<object_info> objects() const override;
  double cost(object_id object) const override;
  int devices() const noexcept override;
  double device_pace() const noexcept override { return device_pace_.load(std::memory_order_relaxed); }
  double device_load() const noexcept override;
  std::vector<contact> contacts(object_id object) const override;
  std::optional<array_place> element(object_id object) const override;
  std::vector<contact> neighbours(object_id object) const override;
  std::uint64_t array_of_phase() const noexcept override;
  void move(object_id object, int to, std::function<void(bool)> done) override;
  void after(double seconds, std::function<void()> what) override;
  void fiber(std::function<void()> what) override;
  void enter(const std::function<void()>& what) override;
  std::uint64_t random(std::uint64_t n) noexcept override;
  void place(object_id object, int worker) override;
  void note(std::string_view what, double value) override;
  void post(int to, byte_buffer message) override;

  // mobile::balancer
  void ready(object_id object, double load, priority level, bool again) noexcept override;
  void left(object_id object, bool was_ready) noexcept override;
  void changed(object_id object) noexcept override;
  void begun(object_id object, double load) noexcept override;
  void ended(object_id object, const mobile::type_record& type, const void* instance, double load, double seconds,
             bool expected) noexcept override;
  double charged(object_id object, double seconds, double amount) noexcept override;
  bool has_takers() const noexcept override;
  void gone_back(bool all) override;

  // work_source
  bool produce(int worker) override;
  bool has_work() const noexcept override {
    return queue_->size() > 0 || policy_ready_.load(std::memory_order_seq_cst) > 0;
  }

private:
  struct event {
    enum class kind : std::uint8_t { trigger, notify, message, call, done } is; ///< `done`: a call about a move
    trigger why = trigger::start;
    object_id object;
    int source = 0;
    byte_buffer bytes;
    std::function<void()> call;
    std::uint32_t generation = 0;
    bool counted = false; ///< `quiesce` waits for it
  };
  struct alarm;
  class departure;
  void happen(event e);
  void happen_in_fiber(event e);
  // net::reported_part
  std::string describe() override;
  net::stats_table statistics() override;

  // phases.cpp
  std::vector<mobile::object_load> seen_objects() const;
  std::vector<mobile::object_contact> talks_of_phase(const mobile::detail::array_record* array);
  void begin_phase(const mobile::detail::array_record* array, const std::vector<mobile::object_contact>& talks,
                   const std::vector<mobile::object_load>& here);

  // triggers.cpp
  void look_for_idle() noexcept;
  void idles();
  void arm_idle();
  void idle_rings(double due);
  double next_idle_call() const noexcept;
  void arm_period();
  void next_period(double seconds);
  bool acts() const noexcept { return acts_.load(std::memory_order_relaxed); }
  void begin_trial() noexcept;
  bool end_window(double at, double seconds) noexcept;
  void follow_trial(double at) noexcept;
  bool wake_policy() noexcept;
  bool hears_shares(const message_head& head) noexcept;
  void tell_shares(message_head& head) const noexcept;
  void tell_whether_it_acts() noexcept;
  /// Something has begun or ended.
  void is_active(double at) noexcept {
    restless_.store(0, std::memory_order_relaxed);
    active_since_.store(at, std::memory_order_relaxed);
  }
  void forget_run(object_id object, double load) noexcept;
  void note_work(object_id object, double load, double seconds);
  void deal_with(event& e);
  void fail(const std::string& why) noexcept;
  void set_alarm(double seconds, std::function<void()> what);
  void rings(alarm& a) noexcept;
  void departed(const carried& with, int to, std::uint32_t generation, bool there, std::function<void(bool)> done,
                const std::string& why);
  void drop_policy() noexcept;
  void fails_later(const std::string& why);
  void ask_policy_again() noexcept;
  object_id next_of_policy(int worker);
  bool is_too_strange(object_id object);
  /// Of a policy's rank: the job's. \throws error(invalid_argument) if there is none.
  int job_rank(int place) const;
  /// Of the job's rank: a policy's; -1: it does not live.
  int place_of(int job_rank) const noexcept;
  int where_is(object_id object) const;
  void send_bytes(int to, message_head::kind is, std::span<const std::byte> bytes);
  /// Among those that compute.
  int slot_of(int worker) const noexcept { return worker - first_worker_; }

  net::node& node_;
  mobile::directory& objects_;
  const std::unique_ptr<node_queue> queue_;
  const int first_worker_;
  const double period_;
  const bool trend_, may_stand_aside_;

  std::unique_ptr<recorder> recorder_; ///< set before the program's main function, if at all

  // The policy: by the thread that is inside.
  std::shared_ptr<policy> policy_; ///< its fibers hold it, too
  std::string name_ = "none";
  std::atomic<std::uint32_t> generation_{0}; ///< policies of one generation talk to each other
  std::atomic<bool> enabled_{true};
  std::vector<int> living_;  ///< once ranks have died: those that live, ascending, which are a policy's ranks
  std::vector<event> early_; ///< for a policy that this rank does not have yet
  std::vector<std::pair<object_id, contact>> contacts_; ///< of the last phase, by object

  mutable tern::detail::spin_lock guard_; ///< of what follows
  std::deque<event> events_;
  bool inside_ = false, closed_ = false, phased_ = false;
  mobile::detail::array_ref round_array_;     ///< of which the round is; null: of all objects
  std::vector<mobile::object_contact> talks_; ///< of arrays whose phase has not ended, ordered
  std::string shown_ = "none";                ///< `name_`, for others
  std::shared_ptr<policy> alive_;             ///< `policy_`, for others
  std::uint64_t random_;
  std::unordered_map<std::uint64_t, carried> histories_; ///< by id's bits; never gone through in its order
  std::unordered_map<std::uint64_t, int> wants_;         ///< workers
  std::vector<std::unique_ptr<alarm>> alarms_;
  std::vector<std::unique_ptr<alarm>> late_;
  std::vector<object_id> unmovable_; ///< that could not be packed, ordered
  /// An invocation that has begun.
  struct run {
    object_id object;
    int worker;
    double load, since;
  };
  std::vector<run> runs_;
  counters counted_;
  double done_load_ = 0, done_seconds_ = 0;       ///< of late
  double device_seconds_ = 0, device_amount_ = 0; ///< likewise
  std::string named_;                             ///< the last policy that was in use

  /// How long this rank has had nothing to do.
  static constexpr double never = std::numeric_limits<double>::infinity();
  struct {
    double began = 0;     ///< the last such time
    int calls = 0;        ///< of the policy since
    double said = -never; ///< when it was told last
    double alarm = never; ///< the next that is set
  } idle_;
  /// Whether the policy acts, and what is known of the present window.
  policy_trial trial_;
  struct window {
    double began = 0, useful = 0; ///< seconds
    std::uint32_t ends = 0, came = 0, went = 0;
    double least = never, most = -1; ///< of the shares of which other ranks have told
  } window_;
  double aside_since_ = 0, aside_seconds_ = 0;

  mutable tern::detail::spin_lock queue_guard_; ///< workers ask the policy for work, if it has a queue
  std::set<object_id> policy_has_;              ///< in that queue, those that have left included
  std::vector<bool> refused_;                   ///< workers that got nothing from it since it was told more
  std::size_t strangers_ = 0;                   ///< in a row, that it gave although they do not wait

  std::atomic<bool> on_{false}; ///< there is a policy
  std::atomic<bool> keeps_history_{false};
  std::atomic<bool> in_round_{false};
  std::atomic<bool> places_{false};
  std::atomic<bool> idle_told_{false}, period_set_{false};
  std::atomic<bool> acts_{true};             ///< as `trial_` says
  std::atomic<bool> gives_{false};           ///< objects have left in this window
  std::atomic<int> running_{0};              ///< of `runs_`
  std::atomic<std::int64_t> ready_{0};       ///< objects that wait
  std::atomic<std::uint32_t> ends_{0};       ///< of invocations
  std::atomic<std::size_t> policy_ready_{0}; ///< of `policy_has_`; 0: a worker has just asked in vain
  std::atomic<std::size_t> policy_count_{0}; ///< of `policy_has_`
  std::atomic<double> pace_{1}, device_pace_{0};
  std::atomic<std::uint32_t> restless_{0}; ///< what a policy has been told since any object has begun or ended
  std::atomic<double> active_since_{0};
  mutable std::atomic<double> round_load_{-1}, round_device_load_{-1}; ///< negative: not known
};

/// What it says, for a log.
std::string text_of(const std::exception_ptr& e);
/// The first rank ends balancing on all ranks.
void tell_of_failure(std::uint32_t generation);
/// Changes are numbered on from there.
void go_on_from(std::uint32_t generation);

} // namespace tern::balance::detail
