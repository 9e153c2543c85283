// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Which invocations may run on an object that is here, and when. Internal.

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>

#include <tern/mobile/access/claimed_object.hpp>
#include <tern/mobile/access/running_invocation.hpp>
#include <tern/mobile/entry/entry_front.hpp>
#include <tern/mobile/load/device_time.hpp>
#include <tern/mobile/message/control.hpp>
#include <tern/net/handler.hpp>
#include <tern/task/wait/waiting.hpp>

namespace tern::mobile {

/// The values of the option `debug-migrate`.
enum class debugging : std::uint8_t { none, rotate, random, reserialize };

namespace detail {

struct deferred_actions;
class handler_costs;
enum class expected : std::uint8_t;
class object_loads;
class rank_objects;

/// Access to an object that was had without a message.
struct held_access {
  entry_front* of = nullptr;
  void* object = nullptr; ///< null: not now
};

/// What `begin_next` has found.
enum class beginning : std::uint8_t {
  begun,
  not_now, ///< it cannot begin: the object will be `ready` again when it can
  unknown  ///< the object was not `ready`
};

/// Admits invocations to the objects of one rank, and runs them. Thread-safe.
///
/// An invocation is admitted when nothing that came before it waits and it is compatible with what
/// runs: any number of shared ones, or one exclusive one. So a stream of readers cannot starve a
/// writer, and what one sender sent in order begins in order.
class admission {
public:
  admission(rank_objects& objects, object_loads& loads, handler_costs& costs, debugging debug) noexcept;

  /// A message for an object has come: runs it if it may run now, else passes it to `arrive_late`.
  /// \param runs_here the caller counts the message as done when this returns.
  void arrive(net::node& here, const invocable& what, int source, const net::wire_header& header, net::payload& message,
              bool runs_here);
  /// If the object is here, is a `wanted`, and an invocation that came now could run. `end_hold`
  /// must follow.
  held_access try_hold(object_id id, const type_record& wanted, action how);
  void end_hold(const held_access& h, action how);

  // Claims (docs/design/claims.md). One counts as an invocation that runs until `end_claim`.
  /// If the object is here and an invocation that came now could run: claims it.
  bool try_claim(claimed_object& one);
  /// Looks up one that was granted, and is here. \throws error(not_found) if it is of another
  /// class.
  void find_claimed(claimed_object& one);
  /// Moves a claimed object, as `request` says. \throws error(invalid_data) if it is not here and
  /// claimed.
  void carry(std::unique_ptr<invocation> request);
  void end_claim(object_id id, bool shared);
  void end_claim(entry& e, bool shared);
  /// Runs `body` with all, which are here, and found; in the order of their ids. Throws what it
  /// throws.
  void run_claimed(std::span<claimed_object> all, claimed_body& body);

  // Under the shard's lock; what follows from it is added to `then`.
  /// An invocation, or the object's end, in the order in which it is to run.
  void accept(entry& e, std::unique_ptr<invocation> one, deferred_actions& then);
  /// Admits what waits and may run now, and lets the object leave if it should.
  void admit_waiting(entry& e, deferred_actions& then);

  // Not under a lock.
  /// Starts an admitted invocation in a fiber.
  void start(entry& e, std::unique_ptr<invocation> one) noexcept;
  /// An invocation has ended. \param watched its load was; else the load is as it was, unless
  /// another invocation has been counted as it arrived.
  void finished(entry& e, bool exclusive, bool watched);
  /// Begins an invocation of an object that is `ready`, in a new fiber.
  beginning begin_next(object_id id);
  /// As if the invocation had ended, but that the object neither moves nor ends meanwhile.
  void release(entry& e, action how);
  /// Before all that has not begun.
  void regain(entry& e, action how) noexcept;

  // What invocations have submitted, and has not ended (object_keep).
  /// While it is kept, the object neither leaves nor ends; invocations go on. Counted. \pre the
  /// calling fiber has access.
  void keep(entry& e);
  /// One less. Any thread; does not wait. \param round when it was kept. \param spent is charged to
  /// the object.
  void let_go(entry& e, object_id id, std::uint32_t round, device_time spent) noexcept;
  /// Of an invocation that has submitted nothing.
  void charge(entry& e, const device_time& spent) noexcept;
  std::uint32_t round() const noexcept;
  /// Returns when nothing keeps it. \pre no invocation of it runs, or comes.
  void wait_for_tasks(entry& e);

  /// The bytes that it would be packed to; 0 if it cannot be packed. By the fiber that has the
  /// access.
  static std::uint64_t packed_bytes(const type_record& type, const void* object) noexcept;

  /// The rank's work is given up: nothing waits for access any more, and messages that wait are
  /// done. Where messages arrive. \pre `rank_objects::abandoned`
  void abandon();

private:
  friend class invocation_series;
  void give_up(entry& e, deferred_actions& then);
  bool has_given_up(const entry* e) const noexcept;
  void* admit_at_once(const invocable& what, const net::wire_header& header, const address& to, int source, entry*& e);
  bool admits_next(entry_front& e, const address& to, int source);
  bool finish_at_once(entry& e, bool exclusive) noexcept;
  void finish_examined(entry& e, bool exclusive, bool watched);
  bool takes_series(const net::wire_header& header) noexcept;
  bool defers(const invocable& what) const noexcept;
  /// As the function's times say, unless the message knows better.
  expected expects(const net::wire_header& header) const noexcept;
  bool always_begins_later(const invocable& what, const net::wire_header& header) const noexcept;
  bool begins_later(const entry& e, const invocable& what, const net::wire_header& header) const noexcept;
  bool lets_mail_in(const invocable& what, const net::wire_header& header) const noexcept;
  bool is_expected_long(const entry& e, const net::wire_header& header) const noexcept;
  void enqueue(entry& e, std::unique_ptr<invocation> one, deferred_actions& then);
  void offer(entry& e, deferred_actions& then) noexcept;
  static void refuse_behind(entry& e, invocation& end, deferred_actions& then) noexcept;
  claim_grant claim(entry& e, action how) noexcept;
  void grant(entry& e, std::unique_ptr<invocation> one, deferred_actions& then);
  void call_claimed(const claimed_object& main, std::span<void* const> objects, claimed_body& body);
  bool run(net::node& here, const invocable& what, entry& e, void* object, const address& to,
           const net::wire_header& header, net::payload& message, bool deferred);
  void run_watched(net::node& here, const invocable& what, entry& e, void* object, const address& to,
                   const net::wire_header& header, net::payload& message);
  bool run_measured(net::node& here, const invocable& what, entry& e, void* object, const address& to,
                    const net::wire_header& header, net::payload& message);
  double learn(entry& e, const net::wire_header& header, double seconds);
  void run_in_fiber(entry& e, std::unique_ptr<invocation> one);
  void finished_late(entry& e, bool exclusive, bool watched, std::uint64_t bytes,
                     std::unique_lock<tern::detail::owner_lock> hold);
  void debug_move(entry& e);
  bool is_kept(entry& e);
  double load_of(object_id id, const device_time& spent) noexcept;
  bool reserialize(entry& e, const invocation& one);
  static void reserialize(entry& e);

  rank_objects& objects_;
  net::node& node_;
  const int rank_;
  const debugging debug_;
  object_loads& loads_;
  handler_costs& costs_;
};

/// Invocations of one function that have come one after the other, of plain bytes and without a
/// caller that waits: those of one object run without giving the access away in between. On the
/// stack of the fiber that delivers them.
class invocation_series {
public:
  invocation_series(admission& a, const invocable& what, int source) noexcept
      : admission_(a), what_(what), source_(source) {}
  ~invocation_series() {
    frame_.reset();
    end();
  }
  invocation_series(const invocation_series&) = delete;
  invocation_series& operator=(const invocation_series&) = delete;
  /// \return the object, on which the invocation may run here and now; null: nothing has been done.
  void* admit(const address& to, const net::wire_header& header) {
    if (of_ && of_->id == to.object && admission_.admits_next(*of_, to, source_)) return object_;
    return admit_anew(to, header);
  }
  /// The same for one that this rank has sent straight to the object, with a frame that the
  /// invocations of one object have together.
  void* admit_near(object_id id, const net::wire_header& header) {
    if (of_ && of_->id == id && admits_near()) [[likely]]
      return object_;
    frame_.reset();
    void* const object = admit({id, source_}, header);
    if (object) frame_.emplace(admission_, *of_, what_.what, source_);
    return object;
  }
  /// Of the object that it runs on.
  running_invocation frame(const address& to) const noexcept { return {admission_, *of_, what_.what, to.origin()}; }
  const type_record& type() const noexcept { return *of_->type; }
  /// Others may have the object.
  void end();

private:
  void* admit_anew(const address& to, const net::wire_header& header);
  /// `admission::admits_next` for one that this rank has sent straight to the object, if that is as
  /// simple as it usually is.
  bool admits_near() noexcept {
    entry_front& e = *of_;
    const std::lock_guard hold(*lock_);
    if (e.at != entry_front::place::here || e.own_open || e.not_begun > 0 || e.coming > 0 || !e.waiting.empty() ||
        e.travel) [[unlikely]]
      return false;
    e.under_way -= e.under_way > 0;
    ++e.runs;
    return true;
  }
  admission& admission_;
  const invocable& what_;
  const int source_;
  entry_front* of_ = nullptr;
  tern::detail::owner_lock* lock_ = nullptr; // of its shard
  void* object_ = nullptr;
  std::optional<running_invocation> frame_;
};

} // namespace detail
} // namespace tern::mobile
