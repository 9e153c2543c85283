// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The objects of one rank, as the rooms of this layer and the layers above see them. Programs use
/// object.hpp; docs/design/migration.md describes the protocol.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <tern/base/options.hpp>
#include <tern/mobile/access/admission.hpp>
#include <tern/mobile/access/event_signals.hpp>
#include <tern/mobile/access/running_invocation.hpp>
#include <tern/mobile/entry/directory_services.hpp>
#include <tern/mobile/load/contacts.hpp>
#include <tern/mobile/load/load_model.hpp>
#include <tern/mobile/object/type.hpp>
#include <tern/mobile/object_id.hpp>
#include <tern/mobile/paging/options.hpp>
#include <tern/mobile/routes/router.hpp>
#include <tern/net/call/pending_calls.hpp>
#include <tern/net/node.hpp>
#include <tern/task/wait/waiting.hpp>

namespace tern::mobile {

/// `mobile-known`, `debug-migrate`.
extern const option<int> known_option;
extern const option<std::string> debug_option;

/// An object that is here, as a policy sees it.
struct object_load {
  object_id id;
  const std::string* type; ///< the class's name; lives as long as the program
  double load;             ///< seconds of work that wait or run, or what the class says
  std::uint32_t pending;   ///< invocations that wait or run
  double seconds;          ///< that an invocation of it took lately; 0: none has run
  bool movable;            ///< it can move, and is not pinned
  bool idle;               ///< it could leave now: nothing runs on it
  double device;           ///< load for devices of its last invocations that had any, each
  double draining;         ///< load for devices that holds it here, about, and lets it go when it is done
};

class balancer;
struct travel_note;

namespace detail {
class home_table;
class migration;
class object_labels;
class pager;
struct directory_parts;
struct packed_event;
} // namespace detail

/// The objects of one rank. A facade: `access` admits invocations, `routes` knows where messages go
/// and in which order they are taken in, `move` and `paging` take objects elsewhere, `load` weighs
/// them. Thread-safe.
class directory final : net::reported_part, detail::directory_services {
public:
  directory();
  /// Destroys the objects that are left.
  ~directory();
  directory(const directory&) = delete;
  directory& operator=(const directory&) = delete;
  /// The calling rank's.
  static directory& here();
  static directory& of(net::node& here);
  /// Null if it has none yet.
  static directory* if_made(net::node& here) noexcept;
  /// The calling rank's; null on a thread that is no worker of one, and when objects are no longer
  /// invoked.
  static directory* current() noexcept;

  /// \param object of that type; owned by the directory. \param credit of its counted references;
  /// 0: it has none. \param id one that `reserve` gave, for the first time; null: a new one.
  object_id add(const type_record& type, void* object, std::uint64_t credit = 0, object_id id = {});
  /// Numbers for objects that are born here, which follow each other. \return the first. \throws
  /// error(unsupported) if there are not so many.
  std::uint64_t reserve(std::uint64_t count);
  /// Objects that are here.
  std::size_t size() const;
  /// The rank where it is, as far as is known here.
  int last_known(object_id id) const { return router_.last_known(id); }
  /// Is it here at this moment?
  bool is_here(object_id id) const;
  /// Is it alive, as far as is known here? True on the rank where it was born until that learns of
  /// its end.
  bool lives(object_id id) const;
  /// The rank of the object's home: that is told wherever it goes.
  int home_of(object_id id) const noexcept;
  /// The same on the calling rank; outside of a job, the number of the home.
  static int home_of_here(object_id id) noexcept;
  const detail::home_table& homes() const noexcept;
  /// Names of the objects whose home is here, for reports.
  detail::object_labels& labels() noexcept;

  // Sending -----------------------------------------------------------------------------------------------------------

  /// Where a message to an object goes next. `sent` or `failed` must follow.
  /// \throws error(invalid_argument) for a null pointer or one that cannot exist in this job.
  detail::destination find_destination(object_id id) { return router_.find_destination(id); }
  /// Throws as `find_destination`.
  void check(object_id id) const;
  void sent(const detail::destination& d) { router_.sent(d); }
  static constexpr unsigned to_contacts = 16; ///< as rank_objects::attention says
  /// The same for an invocation.
  void sent(const detail::destination& d, std::size_t bytes) {
    router_.sent(d);
    if (attention_.load(std::memory_order_acquire) & to_contacts) [[unlikely]]
      note_contact(d.to.object, bytes);
  }
  /// Do messages to objects that are here go into their mailboxes? Then all messages to objects
  /// are sent by `send`. Constant.
  bool has_mailboxes() const noexcept { return has_mailboxes_; }
  detail::mailboxes& mail() noexcept { return router_.mail(); }
  /// Where a message goes whose destination says so.
  detail::own_line& line() noexcept { return router_.line(); }
  /// As `router::place`.
  std::byte* place(object_id id, detail::near_function run, std::size_t arguments, std::size_t message) noexcept {
    return router_.line().in_use() ? router_.place(id, run, arguments, message) : nullptr;
  }
  /// As `router::send`. \param invokes it is an invocation, and the caller may wait here.
  void send(object_id id, detail::outgoing_mail& message, bool invokes);
  /// It was not sent after all.
  void failed(const detail::destination& d) noexcept { router_.failed(d); }
  /// Credit of counted references goes back to the object. Ends the job if that cannot be sent
  /// while the job goes on.
  void return_credit(object_id id, std::uint64_t credit) noexcept { router_.return_credit(id, credit); }
  /// Credit has gone into what is being packed, by whatever fiber: it must be unpacked once.
  void note_split() noexcept;

  // Arriving ----------------------------------------------------------------------------------------------------------

  /// A message for an object has come: runs it if it may run now, or keeps it, or sends it on, or
  /// answers that there is no such object. \param runs_here the caller counts the message as done
  /// when this returns.
  void arrive(net::node& here, const invocable& what, int source, const net::wire_header& header, net::payload& message,
              bool runs_here) {
    admission_.arrive(here, what, source, header, message, runs_here);
  }
  /// An object has come.
  void land(const type_record& type, int source, const net::wire_header& header, net::payload& message);
  /// What the directory of another rank tells this one.
  void take(int source, const directory_note& n) { router_.take(source, n); }
  /// For invocations that are delivered one after the other.
  detail::admission& access() noexcept { return admission_; }
  /// Of the objects that are here.
  detail::event_signals& events() noexcept { return events_; }

  // Access without a message ------------------------------------------------------------------------------------------

  /// If the object is here, is a `wanted`, and an invocation that came now could run. `end_hold`
  /// must follow.
  detail::held_access try_hold(object_id id, const type_record& wanted, action how) {
    return admission_.try_hold(id, wanted, how);
  }
  void end_hold(const detail::held_access& h, action how) { admission_.end_hold(h, how); }

  // Loads (see load.hpp) ----------------------------------------------------------------------------------------------

  void watch_loads(bool on);
  /// Before loads are watched.
  void count_as(load_model m) noexcept;
  double load() const noexcept;
  std::vector<object_load> loads() const;

  // Load balancing (see balancer.hpp) ---------------------------------------------------------------------------------

  using beginning = detail::beginning;
  /// Once; it lives as long as the rank.
  void set_balancer(balancer& b) noexcept;
  /// Invocations that take long begin when `begin_next` is called, or no longer. Loads are watched
  /// meanwhile. Any thread of the rank's.
  void defer(bool on);
  /// Between `defer(true)` and `defer(false)`: long invocations wait, or begin where they arrive.
  /// What waits already begins when `begin_next` is called. Does not wait; any thread of the
  /// rank's.
  void hold_back(bool on) noexcept;
  /// Begins an invocation of an object that is `ready`, in a new fiber.
  beginning begin_next(object_id id) { return admission_.begin_next(id); }
  /// As migration::send_away.
  bool send_away(object_id id, int to, net::reply_ref reply, const std::function<void()>& marked);
  /// What it costs to move it: what its class says, else the bytes that it would be packed to; 0 if
  /// it is busy.
  double cost_of_moving(object_id id);
  /// Count which object sends to which, or no longer.
  void count_contacts(bool on) noexcept;
  /// What was counted since the last call, ordered by the ids.
  std::vector<object_contact> take_contacts();

  // Checkpoints (checkpoint.hpp) --------------------------------------------------------------------------------------

  detail::rank_objects& objects() noexcept { return objects_; }
  /// What an object on disk was packed to. \throws as `object_store::read`.
  byte_buffer copy_on_disk(const entry& e);
  /// Returns when what the object's invocations have submitted has ended. \pre as for `save`.
  void wait_for_tasks(entry& e) { admission_.wait_for_tasks(e); }
  /// An object of an earlier job, which is here from now on. \pre nothing is sent to it meanwhile
  void restore(const type_record& type, void* object, object_id id, const travel_note& with, std::uint32_t pins,
               std::size_t bytes);
  /// An event of an object that may be here; of one that is not: nothing. \throws
  /// error(invalid_data).
  void restore_event(object_id id, const detail::event_kind& kind, const detail::packed_event& state);
  /// One that has its home here, and is on another rank from now on.
  void restore_elsewhere(object_id id, int where);
  /// Homes of an earlier job, or after a rank has died.
  void set_homes(std::vector<std::int32_t> ranks);

  // Recovery (protect.hpp) --------------------------------------------------------------------------------------------

  /// The rank's work is given up, since a rank has died: what waits here for access to an object
  /// goes on, and credit that is given back from now on is kept. Where messages arrive; does not
  /// wait.
  void abandon();
  /// In a fiber, after `abandon`: waits for what goes on on the disk.
  void settle_disk();
  /// All objects that are here end, and nothing is known of any object. \pre no invocation runs,
  /// and no message is under way
  void reset();

private:
  // net::reported_part
  std::string describe() override;
  net::stats_table statistics() override;
  // detail::directory_services
  void perform(detail::deferred_actions& then) override;
  void arrive_late(std::unique_ptr<invocation> one, bool runs_here) override;
  void end_object(entry& e, int origin, std::uint64_t reply) override;
  void memory_changed(bool room) override;

  void depart_in_fiber(entry& e, std::unique_ptr<invocation> request);
  void begin_watching();
  void note_contact(object_id to, std::size_t bytes) noexcept;

  net::node& node_;
  // What programs do not compile. The rest, which their code reads, stands here.
  const std::unique_ptr<detail::directory_parts> parts_;
  detail::rank_objects& objects_;
  const std::atomic<unsigned>& attention_; ///< of `objects_`
  detail::admission admission_;
  detail::event_signals events_;
  detail::router router_;
  const std::unique_ptr<detail::pager> pager_;
  const std::unique_ptr<detail::migration> migration_;
  tern::detail::spin_lock guard_; ///< of what follows, and of `costs_.prepare`
  const bool has_mailboxes_;
  bool loads_wanted_ = false; ///< by the program, not only for balancing
};

} // namespace tern::mobile
