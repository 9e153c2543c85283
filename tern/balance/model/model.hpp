// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The modelled machine behind `run_model`.

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include <tern/balance/model.hpp>
#include <tern/balance/node_queue.hpp>
#include <tern/balance/policies/shared/random.hpp>
#include <tern/balance/policy.hpp>

namespace tern::balance::detail {

/// Virtual time and loads, in whole nanoseconds: sums of loads are exact, and the same in any
/// order.
using nanoseconds = std::int64_t;
nanoseconds to_nanoseconds(double seconds) noexcept;
inline double to_seconds(nanoseconds t) noexcept { return static_cast<double>(t) / 1e9; }

/// Things with a number, which is given again when they have been taken.
template <class T> class slot_pool {
public:
  std::uint32_t put(T&& x) {
    if (free_.empty()) {
      items_.push_back(std::move(x));
      return static_cast<std::uint32_t>(items_.size() - 1);
    }
    const std::uint32_t slot = free_.back();
    free_.pop_back();
    items_[slot] = std::move(x);
    return slot;
  }
  T& operator[](std::uint32_t slot) noexcept { return items_[slot]; }
  T take(std::uint32_t slot) {
    free_.push_back(slot);
    return std::move(items_[slot]);
  }

private:
  std::vector<T> items_;
  std::vector<std::uint32_t> free_;
};

/// The least comes out first. Four children a node: half as many cache misses as with two, which is
/// what a million events cost.
template <class T> class four_ary_heap {
public:
  bool empty() const noexcept { return items_.empty(); }
  void push(const T& x) {
    std::size_t i = items_.size();
    items_.push_back(x);
    for (; i > 0 && x < items_[(i - 1) / 4]; i = (i - 1) / 4) items_[i] = items_[(i - 1) / 4];
    items_[i] = x;
  }
  T pop() {
    const T top = items_.front(), x = items_.back();
    items_.pop_back();
    const std::size_t n = items_.size();
    std::size_t i = 0;
    for (std::size_t child = 1; child < n; child = 4 * i + 1) {
      const std::size_t last = child + 4 < n ? child + 4 : n;
      std::size_t least = child;
      for (std::size_t c = child + 1; c < last; ++c)
        if (items_[c] < items_[least]) least = c;
      if (!(items_[least] < x)) break;
      items_[i] = items_[least];
      i = least;
    }
    if (n > 0) items_[i] = x;
    return top;
  }

private:
  std::vector<T> items_;
};

class machine;

/// What a rank's policy sees of the machine.
class modelled_host final : public policy_context {
public:
  modelled_host(machine& all, int rank) noexcept : all_(all), rank_(rank) {}
  int rank() const noexcept override { return rank_; }
  int size() const noexcept override;
  int workers() const noexcept override;
  double now() const noexcept override;
  double pace() const noexcept override;
  double load() const noexcept override;
  double waiting() const noexcept override;
  std::size_t ready() const noexcept override;
  std::vector<double> running() const override;
  std::vector<object_info> objects() const override;
  double cost(object_id object) const override;
  std::vector<contact> contacts(object_id object) const override;
  void move(object_id object, int to, std::function<void(bool)> done) override;
  void after(double seconds, std::function<void()> what) override;
  void fiber(std::function<void()> what) override;
  void enter(const std::function<void()>& what) override { what(); }
  std::uint64_t random(std::uint64_t n) noexcept override;
  void place(object_id object, int worker) override;
  void note(std::string_view what, double value) override;
  void post(int to, byte_buffer message) override;

private:
  double left_of(int worker) const noexcept;
  machine& all_;
  int rank_;
};

/// A run of the model. Single-threaded; used once.
class machine {
public:
  machine(const workload& w, const model_settings& s);
  machine(const machine&) = delete;
  machine& operator=(const machine&) = delete;
  model_result run();

private:
  friend class modelled_host;
  static constexpr std::uint32_t nothing = 0xffffffffu;

  enum class state : std::uint8_t {
    rests,   ///< has nothing to do in this phase, or has done it
    waits,   ///< for a worker; between phases: had something to do in the last one
    runs,    ///< on a worker
    travels, ///< and will rest
    travels_waiting
  };

  enum class happening : std::uint8_t {
    work_ends,       ///< a: worker, b: for the how manieth time its end has been foretold
    message_arrives, ///< a: in messages_
    message_taken,   ///< a: in messages_
    object_arrives,  ///< a: in journeys_
    move_known,      ///< a: in journeys_
    timer,           ///< a: in errands_
    fiber,           ///< a: in errands_
    period           ///< on all ranks
  };
  struct event {
    nanoseconds at;
    std::uint64_t order; ///< what was foretold first is first among those of a moment; the low byte is the happening
    std::uint32_t a, b;
    happening kind() const noexcept { return static_cast<happening>(order & 0xff); }
    bool operator<(const event& other) const noexcept { return at != other.at ? at < other.at : order < other.order; }
  };

  struct message {
    int from = 0, to = 0;
    byte_buffer bytes;
  };
  struct journey {
    std::uint32_t object = 0;
    int from = 0, to = 0;
    bool arrived = false;
    std::function<void(bool)> done;
  };
  struct errand {
    int rank = 0;
    std::function<void()> what;
  };
  /// A policy's function that is to be called when no other is being called.
  struct call {
    std::uint32_t rank, object; ///< nothing: not notify, but dist_balance
    trigger why;
  };

  struct rank {
    std::unique_ptr<modelled_host> as_host;
    std::unique_ptr<node_queue> queue;
    std::unique_ptr<policy> balancer; // after the host that it uses, so that it is destroyed before
    std::vector<std::uint32_t> objects;
    nanoseconds waiting = 0, running = 0; ///< loads
    std::size_t ready = 0;
    nanoseconds worked = 0, done = 0;         ///< time, and the load that it was for
    nanoseconds core_free = 0, card_free = 0; ///< communicating core and network card: when they are
    std::uint32_t idle = 0;                   ///< workers
    bool idle_told = false;
    bool period_due = false;           ///< in the inbox
    bool own_queue = false;            ///< the policy keeps objects that wait
    bool revisit = false;              ///< it may have let one go since idle workers last asked
    std::vector<event> inbox;          ///< what waits until a worker has time for it
    std::vector<std::uint32_t> shared; ///< workers whose invocations others may help with, oldest first
    random_numbers random{0};
  };
  struct worker {
    std::uint32_t object = nothing, foretold = 0;
    nanoseconds began = 0, busy = 0;
  };
  /// Of an invocation that several workers can share.
  struct share {
    double left = 0, helpers = 0; ///< nanoseconds of one worker
    nanoseconds all = 0, since = 0;
  };

  // model.cpp
  void foretell(happening kind, nanoseconds at, std::uint32_t a, std::uint32_t b = 0);
  void happens(const event& e);
  void begin_phase();
  bool end_phase();
  void predict();
  void arm();
  void period();
  void measure(nanoseconds until);
  void settle();
  void restless(nanoseconds at);
  void requeue();
  model_result results();

  // model_work.cpp
  object_id id_of(std::uint32_t object) const noexcept;
  std::uint32_t index_of(object_id id) const;
  nanoseconds time_of(int r, std::uint32_t object) const;
  void make_ready(int r, std::uint32_t object);
  std::uint32_t next_for(int r, int worker);
  void look_for_work(int r);
  void begin(int r, int worker, std::uint32_t object);
  void end(std::uint32_t worker);
  void set_idle(int r, int worker, bool idle);
  void count_help(int r);
  void share_help(int r);
  void idle(int r);
  void leave(std::uint32_t object);
  void settle_down(std::uint32_t object, int r);
  void move(int r, object_id id, int to, std::function<void(bool)> done);
  void arrive(std::uint32_t slot);
  void record_move(std::uint32_t object, int from, int to);

  // model_rank.cpp
  template <class F> void ask(int r, F&& what);
  template <class F> void let(int r, F&& what);
  void fail(int r, const std::string& what);
  void post(int from, int to, byte_buffer bytes);
  bool put_off(int r, const event& e);
  nanoseconds transfer(double bytes) const noexcept;
  void take_message(std::uint32_t slot);
  void empty_inbox(int r);
  void move_known(std::uint32_t slot);
  void run_errand(std::uint32_t slot);
  void tell(int r, trigger why);
  void tell(int r, std::uint32_t object);
  void check_rank(int r) const;

  rank& at(int r) noexcept { return ranks_[static_cast<std::size_t>(r)]; }
  const rank& at(int r) const noexcept { return ranks_[static_cast<std::size_t>(r)]; }
  worker& worker_at(int r, int n) noexcept {
    return workers_[static_cast<std::size_t>(r) * static_cast<std::size_t>(w_.workers) + static_cast<std::size_t>(n)];
  }

  const workload& w_;
  const model_settings& s_;
  nanoseconds latency_, overhead_, period_, delay_, limit_;
  random_numbers random_;

  // By object. What of it is used seldom is made when it is needed.
  std::vector<nanoseconds> load_;
  std::vector<std::int32_t> home_;      ///< the rank where it began, close together: read at each event
  std::vector<std::int32_t> rank_;      ///< of a travelling one: where it will be
  std::vector<std::uint32_t> position_; ///< in its rank's list
  std::vector<state> state_;
  std::vector<std::uint32_t> left_; ///< in departures_: the last rank that it has left in this phase
  std::vector<std::int32_t> wants_;
  struct departure {
    std::uint32_t object;
    int rank;
    std::uint32_t before;
  };
  std::vector<departure> departures_;
  std::vector<std::size_t> links_begin_; ///< in links_; one more than objects
  std::vector<std::uint32_t> links_;     ///< of an object: those from it and to it

  std::vector<rank> ranks_;
  std::vector<worker> workers_;
  std::vector<share> shares_; ///< by worker, if anything can be shared
  std::vector<std::uint64_t> idle_bits_;
  std::size_t idle_words_; ///< of each rank

  four_ary_heap<event> events_;
  std::uint64_t order_ = 0;
  slot_pool<message> messages_;
  slot_pool<journey> journeys_;
  slot_pool<errand> errands_;
  std::unordered_map<std::uint64_t, nanoseconds> last_arrival_; ///< by pair of ranks, if messages may be delayed
  std::vector<call> calls_;
  std::vector<std::uint32_t> revisits_; ///< ranks

  nanoseconds now_ = 0, last_end_ = 0, next_sample_ = 0, sample_every_ = 1;
  std::size_t phase_ = 0;
  bool between_ = false;         ///< phases
  bool off_ = false;             ///< the policy has failed
  bool armed_ = false;           ///< the next period is foretold
  bool requeue_ = false;         ///< what it kept is to be given to the ranks' own queues
  std::uint64_t remaining_ = 0;  ///< invocations of this phase that have not ended
  std::uint64_t running_ = 0;    ///< of these
  std::uint64_t under_way_ = 0;  ///< messages, moves, fibers: what a phase waits for
  std::uint64_t since_work_ = 0; ///< events since an invocation began or ended, or time went on while one was running
  std::uint64_t all_ = 0, ended_ = 0;
  model_result result_;
};

template <class F> void machine::ask(int r, F&& what) {
  if (off_) return;
  try {
    what(*at(r).balancer);
  } catch (const std::exception& e) {
    fail(r, e.what());
  } catch (...) {
    fail(r, "threw what is no std::exception");
  }
}

// For all but push and pop: the policy may have decided that idle workers can pop what they could
// not before.
template <class F> void machine::let(int r, F&& what) {
  ask(r, std::forward<F>(what));
  rank& here = at(r);
  if (!here.own_queue || here.revisit || here.ready == 0 || here.idle == 0) return;
  here.revisit = true;
  revisits_.push_back(static_cast<std::uint32_t>(r));
}

} // namespace tern::balance::detail
