// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What a load-balancing policy is: a small class of which every rank has an object. It looks at
/// the objects of its rank, talks to the policy objects of other ranks, and decides which mobile
/// object moves where. It knows no transport, clock or thread: so the same class runs under MPI, on
/// threads, in the simulator, and in a model of a million cores (model.hpp).
///
///     struct offer {                                                       // a message
///       double load;
///       template <class A> void serialize(A& ar) { ar(load); }
///     };
///     class give_to_next : public tern::balance::policy {
///     public:
///       give_to_next(tern::balance::policy_context& rank, tern::balance::parameters& p)
///           : policy(rank), limit_(p.number("limit", 1.5, 1, 100)) { on(&give_to_next::asked); }
///       void dist_balance(tern::balance::trigger why) override {
///         if (why == tern::balance::trigger::idle) send((here.rank() + 1) % here.size(), offer{here.load()});
///       }
///     private:
///       void asked(int from, const offer& o) {
///         if (here.load() < limit_ * (o.load + 1)) return;
///         for (const auto& x : here.objects())
///           if (x.movable) return here.move(x.id, from);
///       }
///       double limit_;
///     };
///     const tern::balance::registered_policy<give_to_next> entered("give-to-next", "idle ranks ask one other");
///
/// and `--tern-balance give-to-next:limit=2`. The interface's names are those of the literature
/// (PREMA's implicit load balancing: `dist_balance`, `notify`, `push`, `pop`).
///
/// Contract. A policy's functions are called one at a time, never within each other, from wherever
/// something happens: where messages arrive, or between two invocations. They must be quick and
/// must not wait: for what must wait there is policy_context::fiber. A function that throws ends
/// balancing on all ranks with an error that names the policy; the program goes on without.
/// Messages between two ranks arrive in order, once each. Nothing may be random but
/// policy_context::random, and no order may come from addresses: a simulation is repeatable.
///
/// A policy must come to rest: when no rank has work any more it may send a bounded number of
/// further messages, no more. (The job ends when nothing is under way; a policy that goes on for
/// ever is ended with an error.)

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <typeinfo>
#include <utility>
#include <vector>

#include <tern/balance/parameters.hpp>
#include <tern/base/archive.hpp>
#include <tern/base/bytes.hpp>
#include <tern/mobile/object_id.hpp>
#include <tern/task/fiber_options.hpp>

namespace tern::balance {

using mobile::object_id;

/// An object that is on the policy's rank. Loads are seconds, or what the classes' `workload`
/// functions say.
struct object_info {
  object_id id;
  /// What there is to do for it: its invocations that wait or run. In a program that marks phases:
  /// what it is expected to take in the next one.
  double load = 0;
  double device = 0;         ///< what it is expected to take of devices, see `device_pace`; not part of `load`
  std::uint32_t pending = 0; ///< invocations that wait or run
  float ran = 0;             ///< seconds since what runs on it has begun; 0 if nothing does, or if that is not known
  bool movable = false;      ///< it could leave now: nothing runs on it, it is not pinned, its class can be packed
  /// Seconds until what its invocations have submitted to devices is done, about: it leaves no
  /// sooner.
  float draining = 0;
};

/// What an object has sent to another, and got from it, since the last phase began.
struct contact {
  object_id with;
  int where = 0; ///< its rank, as far as known
  double bytes = 0;
  std::uint64_t messages = 0;
};

/// The place of an object that is an array's element.
struct array_place {
  std::uint64_t array = 0; ///< which array: equal for all its elements
  int dimensions = 1;
  std::array<std::int64_t, 3> index{}, size{1, 1, 1}; ///< the dimensions that it lacks: 0, of 1
};

/// Why `dist_balance` is called.
enum class trigger : std::uint8_t {
  start,  ///< balancing begins on this rank, or is switched on again
  period, ///< some time has passed (option `balance-period`; less at first), and something waits for a worker here
  idle, ///< a worker of this rank has nothing to do; again after the period, after twice that, …, eight times at most,
        ///< as long as nothing begins on this rank
  phase ///< the program has marked the end of a phase; nothing is under way
};

/// An object with invocations that wait for a worker. Waiting invocations of one object run one
/// after the other.
struct ready_object {
  object_id id;
  double load = 0; ///< of its next invocation
  priority level = priority::normal;
};

/// The rank that a policy works for, as the policy sees it. Called from the functions of the policy
/// only. When ranks of the job have died, those that are left are numbered anew, from 0, and
/// policies are made anew (mobile/protect.hpp).
class policy_context {
public:
  virtual int rank() const noexcept = 0;
  virtual int size() const noexcept = 0;
  /// Those that run the program's invocations: not one that only looks after messages.
  virtual int workers() const noexcept = 0;
  /// Seconds since some moment, the same for all ranks only in simulations.
  virtual double now() const noexcept = 0;
  /// Seconds that one unit of load has lately taken a worker here; 1 as long as that is not known.
  /// Larger on a slow rank if loads are not measured in seconds.
  virtual double pace() const noexcept = 0;

  /// Devices that are not the host; 0: there are none, or none have been looked for.
  virtual int devices() const noexcept { return 0; }
  /// Seconds that one unit of load for devices has lately taken a device here; 0 as long as that is
  /// not known. Larger where devices are slower: a unit is so much work, not so much time. 1 if no
  /// task has said how much work it was.
  virtual double device_pace() const noexcept { return 0; }
  /// Of all objects here: what is left to do for devices, as far as is known.
  virtual double device_load() const noexcept { return 0; }

  /// Of all objects here: what waits, and what is left of what runs, as far as is known (its load
  /// less the time that it has been running, at `pace`; not less than 0).
  virtual double load() const noexcept = 0;
  /// Of that, what waits: it could begin here, or elsewhere.
  virtual double waiting() const noexcept = 0;
  /// Objects that wait for a worker.
  virtual std::size_t ready() const noexcept = 0;
  /// For each worker what is left of what it runs, as in `load`; 0: it is idle. By default all are
  /// the same.
  virtual std::vector<double> running() const;
  /// All objects here, the heaviest first; equal ones by id. Takes time for each object.
  virtual std::vector<object_info> objects() const = 0;
  /// To move it: what its class says (migration_cost), else bytes, with those that a device alone
  /// has counted twice, as they leave that first.
  virtual double cost(object_id object) const = 0;
  /// The objects that it talks to; empty if the policy has not asked for that
  /// (policy::wants_contacts).
  virtual std::vector<contact> contacts(object_id object) const = 0;

  /// The object's place in its array; none if it is no element. Models and replays know none.
  virtual std::optional<array_place> element(object_id /*object*/) const { return {}; }
  /// The elements that are one step from it along each of its array's dimensions, without going
  /// round the edges, and the ranks where they are, as far as known. Bytes and messages are 0. A
  /// sparse array may lack them. Empty if it is no element.
  virtual std::vector<contact> neighbours(object_id /*object*/) const { return {}; }
  /// At the end of a phase of one array: which (array_place::array); else 0.
  virtual std::uint64_t array_of_phase() const noexcept { return 0; }

  /// Sends the object to rank `to`, with its invocations that wait, if it can leave at once. \param
  /// done called later: with true when it has arrived; with false if it stays, because something
  /// has begun to run on it, or it could not be packed or unpacked.
  virtual void move(object_id object, int to, std::function<void(bool)> done = {}) = 0;
  /// Calls `what` once, so many seconds from now.
  virtual void after(double seconds, std::function<void()> what) = 0;
  /// Calls `what` in a fiber, where it may wait; there it may call no function of the policy or of
  /// this but through `enter`, which calls one as others are called, one at a time. The policy
  /// lives until all its fibers have ended; if it is no longer in use, `enter` throws
  /// error(broken_promise), which the fiber should let pass.
  virtual void fiber(std::function<void()> what) = 0;
  virtual void enter(const std::function<void()>& what) = 0;
  /// At random, below `n`: from the job's seed.
  virtual std::uint64_t random(std::uint64_t n) noexcept = 0;
  /// Sets the worker on which a waiting object should run; -1: on any. For policies of the order
  /// "plan".
  virtual void place(object_id object, int worker) = 0;
  /// For the record of what policies have decided (option `record`): a name and a number, of this
  /// round.
  virtual void note(std::string_view what, double value) = 0;
  /// A message to the policy object of another rank; policies call `policy::send`.
  virtual void post(int to, byte_buffer message) = 0;

protected:
  ~policy_context() = default;
};

class policy {
public:
  virtual ~policy() = default;
  policy(const policy&) = delete;
  policy& operator=(const policy&) = delete;

  /// Starts a round, if there is reason to.
  virtual void dist_balance(trigger) {}
  /// The load of an object here has changed: an invocation has arrived or ended, or it has come or
  /// gone. Many a second: must be quick.
  virtual void notify(object_id) {}
  /// An object waits for a worker. Called by any worker, also while another function of the policy
  /// runs, under a lock that `pop` shares: these two must be quick, lock what they share with the
  /// others, and call nothing of the context.
  /// \param worker that makes it ready; -1: none of this rank's.
  /// \return false: it goes to the queue of the option `balance-order`.
  virtual bool push(int /*worker*/, const ready_object&) { return false; }
  /// The next for `worker`, which the policy has no longer then; null: none of the policy's own, or
  /// none for it now: then it is asked again on behalf of this worker when any function of it has
  /// been called. Objects that have left may still be given; but a policy that gives ever more that
  /// do not wait is ended. Only called if `push` has ever returned true.
  virtual object_id pop(int /*worker*/) { return {}; }
  /// Does it look at `policy_context::contacts`? Then they are counted, which costs each invocation
  /// some time.
  virtual bool wants_contacts() const noexcept { return false; }

  /// Takes a message of another rank's object. \throws error(invalid_data) for what is none.
  void receive(int from, std::span<const std::byte> message);

protected:
  explicit policy(policy_context& h) noexcept : here(h) {}
  /// Messages of type M go to this function. In the constructor, in the same order on each rank.
  template <class P, class M> void on(void (P::*take)(int from, const M& message)) {
    handlers_.push_back({&typeid(M), [this, take](int from, std::span<const std::byte> bytes) {
                           M message;
                           unpack_into(bytes, message);
                           (static_cast<P*>(this)->*take)(from, message);
                         }});
  }
  /// To the policy object of rank `to`, also the own.
  template <class M> void send(int to, const M& message) { here.post(to, pack(number_of(typeid(M)), message)); }

  policy_context& here;

private:
  std::uint8_t number_of(const std::type_info& type) const;
  struct handler {
    const std::type_info* type;
    std::function<void(int, std::span<const std::byte>)> take;
  };
  std::vector<handler> handlers_;
};

/// A policy by name.
struct policy_kind {
  std::string name, what; ///< what it does, in a line, for --tern-help
  std::unique_ptr<policy> (*make)(policy_context& h, parameters& p);
};
/// All that the program has, by name.
std::vector<policy_kind> policies();
/// \throws error(invalid_option) that lists the names there are, or names a wrong parameter.
std::unique_ptr<policy> make_policy(std::string_view text, policy_context& h);
/// Throws as `make_policy`, without making one for long.
void check_policy(std::string_view text);

namespace detail {
void enter(policy_kind kind);
} // namespace detail

/// A static object of this type enters a policy, before `main`. P is constructible from
/// (policy_context&, parameters&).
template <class P> struct registered_policy {
  registered_policy(std::string name, std::string what) {
    detail::enter({std::move(name), std::move(what), [](policy_context& h, parameters& p) -> std::unique_ptr<policy> {
                     return std::make_unique<P>(h, p);
                   }});
  }
};

} // namespace tern::balance
