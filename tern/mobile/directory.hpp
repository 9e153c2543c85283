// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Which objects live on a rank, and where others are looked for. Programs use object.hpp; docs/design/migration.md
/// describes the protocol.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <source_location>
#include <span>
#include <string>
#include <vector>

#include <tern/base/bytes.hpp>
#include <tern/base/error.hpp>
#include <tern/base/options.hpp>
#include <tern/mobile/balancer.hpp>
#include <tern/mobile/directory/entry.hpp>
#include <tern/mobile/directory/object_table.hpp>
#include <tern/mobile/object/type.hpp>
#include <tern/mobile/object_id.hpp>
#include <tern/net/buffer.hpp>
#include <tern/net/call/pending_calls.hpp>
#include <tern/net/node.hpp>
#include <tern/task/wait/owner_lock.hpp>

namespace tern::mobile {

/// `mobile-known`, `mobile-memory`, `mobile-directory`, `mobile-disk`, `debug-migrate`.
extern const option<int> known_option;
extern const option<std::string> memory_option, directory_option, disk_option;
extern const option<std::string> debug_option;
/// What an invocation counts as load, if it is watched.
enum class load_model : std::uint8_t {
  declared, ///< what its class says, else as measured
  measured, ///< the seconds that the object's invocations ran lately
  constant  ///< 1
};
enum class debugging : std::uint8_t { none, rotate, random, reserialize };

/// An object that is here, as a policy sees it.
struct object_load {
  object_id id;
  const std::string* type; ///< the class's name; lives as long as the program
  double load;             ///< seconds of work that wait or run, or what the class says
  std::uint32_t pending;   ///< invocations that wait or run
  double seconds;          ///< that an invocation of it took lately; 0: none has run
  bool movable;            ///< it can move, and nobody has pinned it
  bool idle;               ///< it could leave now: nothing runs on it
  double device;           ///< seconds of devices' time that its last invocations took, each
};

/// How often one object has sent to another, and how much.
struct object_contact {
  object_id from, to;
  std::uint64_t messages = 0;
  double bytes = 0;
};

/// The objects of one rank. Thread-safe.
///
/// Access: an invocation is admitted when nothing that came before it waits and it is compatible with what runs: any
/// number of shared ones, or one exclusive one. So a stream of readers cannot starve a writer, and what one sender sent
/// in order begins in order.
class directory final : net::reported_part {
public:
  directory();
  /// Destroys the objects that are left.
  ~directory();
  directory(const directory&) = delete;
  directory& operator=(const directory&) = delete;
  /// The calling rank's.
  static directory& here();
  static directory& of(net::node& here);

  /// \param object of that type; owned by the directory. \param credit of its counted references; 0: it has none.
  object_id add(const type_record& type, void* object, std::uint64_t credit = 0);
  /// The calling rank's; null on a thread that is no worker of one, and when objects are no longer invoked.
  static directory* current() noexcept;
  /// Objects that are here.
  std::size_t size() const;
  /// The rank where it is, as far as is known here.
  int last_known(object_id id) const;
  /// Is it here at this moment?
  bool is_here(object_id id) const;
  /// Is it alive, as far as is known here? True on the rank where it was born until that learns of its end.
  bool lives(object_id id) const;

  // Sending -----------------------------------------------------------------------------------------------------------

  /// Where a message to an object goes next, and what it carries. Exactly one of `sent` and `failed` ends it.
  class way {
  public:
    int where = 0;
    address to;

  private:
    friend class directory;
    enum class kind : std::uint8_t { self, home, numbered, nowhere } as = kind::nowhere;
  };
  /// \throws error(invalid_argument) for a null pointer or one that cannot exist in this job.
  way find_way(object_id id);
  /// Throws as `find_way`.
  void check(object_id id) const;
  void sent(const way& w) {
    if (w.as == way::kind::home) posted_to_home(w);
  }
  /// The same for an invocation.
  void sent(const way& w, std::size_t bytes) {
    sent(w);
    if (attends() & to_contacts) [[unlikely]]
      note_contact(w.to.object, bytes);
  }
  /// It was not sent after all.
  void failed(const way& w) noexcept;

  // Arriving ----------------------------------------------------------------------------------------------------------

  /// A message for an object has come: runs it if it may run now, or keeps it, or sends it on, or answers that there is
  /// no such object. \param runs_here the caller counts the message as done when this returns.
  void arrive(net::node& here, const invocable& what, int source, const net::wire_header& header, net::payload& message,
              bool runs_here);
  /// An object has come.
  void land(net::node& here, const type_record& type, int source, const net::wire_header& header,
            net::payload& message);
  /// What one rank's directory tells another's.
  void take(net::node& here, int source, const directory_note& n);

  // Access without a message ------------------------------------------------------------------------------------------

  struct held {
    entry* of = nullptr;
    void* object = nullptr; ///< null: not now
  };
  /// If the object is here, is a `wanted`, and an invocation that came now could run. `let_go` must follow.
  held try_hold(object_id id, const type_record& wanted, action how);
  void let_go(const held& h, action how) { finished(node_, *h.of, how != action::share, true); }

  // Counted references (see counted.hpp) ------------------------------------------------------------------------------

  /// Credit has gone into what is being packed, by whatever fiber: it must be unpacked once.
  void note_split() noexcept { splits_.fetch_add(1, std::memory_order_relaxed); }

  // Loads (see load.hpp) ----------------------------------------------------------------------------------------------

  void watch_loads(bool on);
  /// Before loads are watched.
  void count_as(load_model m) noexcept { model_.store(m, std::memory_order_relaxed); }
  double load() const noexcept { return load_.load(std::memory_order_relaxed); }
  std::vector<object_load> loads() const;

  // Load balancing (see balancer.hpp) ---------------------------------------------------------------------------------

  /// Once; it lives as long as the rank.
  void tell(balancer& b) noexcept { balancer_.store(&b, std::memory_order_release); }
  /// Invocations that take long begin when `begin_next` is called, or no longer. Loads are watched meanwhile. Any
  /// thread of the rank's.
  void defer(bool on);
  /// What `begin_next` has found.
  enum class beginning : std::uint8_t {
    begun,
    not_now, ///< it cannot begin: the object will be `ready` again when it can
    unknown  ///< the object was not `ready`
  };
  /// Begins an invocation of an object that is `ready`, in a new fiber.
  beginning begin_next(object_id id);
  /// Sends the object to another rank if it could leave now. \param who is told when it is there, or why it stays.
  /// \param marked is called when it is sure that it tries to, before anything else happens. \return false: it cannot
  /// leave, and nobody will be told. \throws error(invalid_argument) for no rank; error(invalid_state) if the job has
  /// ended; and then `marked` has not been called.
  bool send_away(object_id id, int to, net::reply_ref who, const std::function<void()>& marked);
  /// What it costs to move it: what its class says, else the bytes that it would be packed to; 0 if it is busy.
  double cost_of_moving(object_id id);
  /// Count who sends to whom, or no longer.
  void count_contacts(bool on) noexcept;
  /// What was counted since the last call, ordered by the ids.
  std::vector<object_contact> take_contacts();

  // From within an invocation --------------------------------------------------------------------------------------

  /// What runs on an object in the calling fiber.
  class running_invocation final : public tern::detail::work_frame {
  public:
    /// Does an invocation that does `what` to object `id` wait for the end of this one?
    bool is_before(object_id id, action what) const noexcept {
      return entry_.id == id && (how_ != action::share || what != action::share);
    }
    bool is_released() const noexcept { return released_ != 0; }
    action how() const noexcept { return how_; }
    running_invocation(directory& d, entry& e, action how) noexcept : directory_(d), entry_(e), how_(how) {}
    object_id id() const noexcept { return entry_.id; }
    const type_record& type() const noexcept { return *entry_.type; }
    /// Seconds that a device has worked for it.
    void charge_device(double seconds) noexcept { device_ += seconds; }
    double device() const noexcept { return device_; }
    /// Scopes within each other release once.
    void release() {
      if (released_++ == 0) directory_.release(entry_, how_);
    }
    void regain() noexcept {
      if (--released_ == 0) directory_.regain(entry_, how_);
    }

  private:
    directory& directory_;
    entry& entry_;
    const action how_;
    int released_ = 0;
    double device_ = 0;
  };
  /// \throws error(invalid_state) outside an invocation, naming `what` was wanted.
  static running_invocation& running(const char* what);
  /// Does the calling fiber run an invocation that what is done to the object waits for?
  static bool is_of_own(object_id id, action what) noexcept {
    const auto* const frame = static_cast<const running_invocation*>(tern::detail::work_frame::here());
    return frame && frame->is_before(id, what); // there is no other kind
  }
  /// The calling fiber is about to wait for the end of that, which is called `name`.
  /// \throws error(deadlock) if it waits for the caller in its turn.
  static void expect_let_in(object_id id, action what, const std::string& name, const std::source_location& made);

  /// Invocations of one function that have come one after the other, of plain bytes and nobody waits for: those of one
  /// object run without giving it away in between. On the stack of the fiber that delivers them.
  class series {
  public:
    series(directory& d, const invocable& what, int source) noexcept : directory_(d), what_(what), source_(source) {}
    ~series() { end(); }
    series(const series&) = delete;
    series& operator=(const series&) = delete;
    /// \return the object, on which the invocation may run here and now; null: nothing has been done.
    void* admit(const address& to, const net::wire_header& header) {
      if (of_ && of_->id == to.object && directory_.admits_next(*of_, to, source_)) return object_;
      return admit_anew(to, header);
    }
    /// Of the object that it runs on.
    running_invocation frame() const noexcept { return {directory_, *of_, what_.what}; }
    const type_record& type() const noexcept { return *of_->type; }
    /// Others may have the object.
    void end();

  private:
    void* admit_anew(const address& to, const net::wire_header& header);
    directory& directory_;
    const invocable& what_;
    const int source_;
    entry* of_ = nullptr;
    void* object_ = nullptr;
  };

private:
  std::string describe() override;
  net::stats_table statistics() override;
  /// Of the objects of one class, in one shard, on this rank.
  struct class_counts {
    const type_record* type;
    std::uint64_t created = 0, destroyed = 0, arrived = 0, left = 0;
    std::uint64_t bytes = 0;       ///< of those that left
    std::uint64_t invocations = 0; ///< of objects that are no longer here; the others know theirs
  };
  static constexpr unsigned shard_bits = 6;
  static constexpr std::size_t shards = std::size_t{1} << shard_bits;
  struct alignas(64) shard {
    mutable tern::detail::owner_lock lock; // a few instructions at a time, from fibers and the polling context alike
    detail::object_table<entry, shard_bits> entries; // marked: those of objects that are here
    std::uint32_t posting = 0;                       // to homes, by fibers of this rank
    std::vector<object_id> to_open;                  // when nobody is
    std::size_t routes = 0;                          // entries of objects that are elsewhere and not at home here
    std::size_t hand = 0;                            // of the clock that finds one to forget
    std::vector<class_counts> counts;

    class_counts& of(const type_record& type);
    void add_runs(const type_record& type, entry& e) noexcept;
  };
  struct todo;
  shard& shard_of(object_id id) noexcept { return shards_[id.number() % shards]; }
  const shard& shard_of(object_id id) const noexcept { return shards_[id.number() % shards]; }

  /// Where the object of a message lies that can run at once. \return null: it cannot, and nothing has been done.
  void* admit_at_once(const invocable& what, const address& to, int source, entry*& e);
  bool admits_next(entry& e, const address& to, int source);
  bool takes_series(const net::wire_header& header) noexcept;
  void check_id(object_id id) const;
  void posted_to_home(const way& w);
  void not_sent(const way& w);
  void take_in(entry& e, std::unique_ptr<invocation> one, todo& then);
  void accept(entry& e, std::unique_ptr<invocation> one, todo& then);
  void accept_numbered(entry& e, std::unique_ptr<invocation> one, todo& then);
  void after_number(entry& e, int rank, todo& then);
  void open_stream(entry& e, int rank, todo& then);
  void close_own_if_drained(entry& e);
  void begin_own(shard& s, entry& e, todo& then);
  void send_on(entry& e, std::unique_ptr<invocation> one, todo& then);
  void release_held(entry& e, todo& then);
  void release_own(entry& e, todo& then);
  void forget_left(object_id id);
  void put_behind(entry& e, std::unique_ptr<invocation> one, todo& then);
  void pump(entry& e, todo& then);
  bool run(net::node& here, const invocable& what, entry& e, void* object, const address& to,
           const net::wire_header& header, net::payload& message);
  /// What an invocation's end is looked at for.
  enum attention : unsigned { to_loads = 1, to_memory = 2, to_move_on = 4, to_balance = 8, to_contacts = 16 };
  /// acquire: what was made for it is there.
  unsigned attends() const noexcept { return attention_.load(std::memory_order_acquire); }
  balancer* told() const noexcept { return balancer_.load(std::memory_order_acquire); }
  bool watches() const noexcept { return attends() & to_loads; }
  static std::uint64_t packed_bytes(const type_record& type, const void* object) noexcept;
  class pager;
  void run_watched(net::node& here, const invocable& what, entry& e, void* object, const address& to,
                   const net::wire_header& header, net::payload& message, const running_invocation& frame);
  void run_quick(net::node& here, const invocable& what, void* object, const address& to,
                 const net::wire_header& header, net::payload& message);
  bool is_quick(const net::wire_header& header) const noexcept;
  bool begins_later(const invocable& what, const net::wire_header& header) const noexcept {
    return (attends() & to_balance) && what.run && !is_quick(header);
  }
  void measured(const net::wire_header& header, double seconds) noexcept;
  void offer(entry& e, todo& then) noexcept;
  void note_contact(object_id to, std::size_t bytes) noexcept;
  float typical_of(const type_record& type) const noexcept;
  double undeclared(const extra_state& x, const type_record& type) const noexcept;
  void note_typical(const type_record& type, float seconds);
  double sound(double says, const type_record& type) noexcept;
  void begin_watching();
  void weigh_first(entry& e, const void* object) noexcept;
  void weigh_landed(entry& e, const type_record& type, const void* object) noexcept;
  void weigh(entry& e, std::uint32_t ending);
  void weigh_arrival(entry& e) noexcept;
  void set_load(entry& e, double load) noexcept;
  void release(entry& e, action how);
  void regain(entry& e, action how) noexcept;
  void tell_where(entry& e, const address& to, todo& then);
  void forget(shard& s, entry& e, todo& then) const;
  void act(net::node& here, todo& then);
  void lost(net::node& here, std::unique_ptr<invocation> one);
  void tell_closed(entry& e, todo& then);
  void answer(net::node& here, const invocation& one, error problem);
  void refuse(net::node& here, const invocation& one);
  void start(net::node& here, entry& e, std::unique_ptr<invocation> one) noexcept;
  void arrive_late(net::node& here, std::unique_ptr<invocation> one, bool runs_here);
  void finished(net::node& here, entry& e, bool exclusive, bool watched);
  void finished_late(net::node& here, entry& e, bool exclusive, bool watched, std::uint64_t bytes,
                     std::unique_lock<tern::detail::owner_lock> hold);
  void stay_here(net::node& here, entry& e, std::uint32_t coming);
  void end_object(net::node& here, entry& e, int origin, std::uint64_t reply);
  void depart(net::node& here, entry& e, std::unique_ptr<invocation> request);
  void move_on(entry& e);
  bool reserialize(net::node& here, entry& e, const invocation& one);
  void begin_landing(shard& s, entry& e, landing& one, todo& then);
  void land_in_fiber(net::node& here, entry& e, std::unique_ptr<landing> one);
  void unpack(net::node& here, entry& e, std::unique_ptr<landing> one);
  void send_back(net::node& here, entry& e, int source, std::uint64_t reply, const std::exception_ptr& why);
  static void send_after(net::node& here, int to, invocation_list& following) noexcept;
  void count_route(shard& s, const entry& one, todo& then);
  std::string missing(object_id id, const std::string& type) const;
  // For a trace, if there is one (statistics.cpp).
  static void trace_object(object_id id, const type_record& type) noexcept;
  static void trace_name(object_id id, const type_record& type, const void* object) noexcept;
  static void trace_departure(object_id id, const type_record& type, int to, std::size_t bytes) noexcept;
  static void trace_landing(object_id id, const type_record& type, const void* object, int from,
                            std::size_t bytes) noexcept;

  net::node& node_;
  const int rank_;
  const std::size_t most_routes_; // in a shard
  const debugging debug_;
  std::atomic<unsigned> attention_{0};
  std::atomic<std::uint64_t> splits_{0};
  std::atomic<std::uint64_t> next_{1};
  std::unique_ptr<shard[]> shards_;
  std::unique_ptr<pager> pager_;
  std::atomic<double> load_{0}; // of all objects that are here

  // For load balancing.
  std::atomic<balancer*> balancer_{nullptr}; ///< release when set, acquire when used: it has been made
  std::atomic<load_model> model_{load_model::declared};
  /// By handler, the longest that it took lately, in seconds; 0: it has never run. Made when it is wanted first.
  std::unique_ptr<std::atomic<float>[]> paces_;
  std::atomic<unsigned> quick_runs_{0};
  std::atomic<bool> unsound_{false}; ///< a class has said what is no load
  mutable tern::detail::spin_lock guard_;
  bool loads_wanted_ = false;                                 ///< by the program, not only for balancing
  std::vector<std::pair<const type_record*, float>> typical_; ///< seconds that invocations take
  std::map<std::pair<std::uint64_t, std::uint64_t>, object_contact> contacts_; ///< by ids' bits
};

namespace detail {

[[noreturn]] void no_address(std::size_t bytes);
[[noreturn]] void bad_address(const address& to, int ranks);
/// \throws error(invalid_data) if the message is too short.
inline address read_address(const byte_buffer& message) {
  address to;
  if (message.size() < sizeof(net::wire_header) + sizeof to) [[unlikely]]
    no_address(message.size());
  std::memcpy(&to, message.data() + sizeof(net::wire_header), sizeof to);
  return to;
}
/// "'counter::add' of object 1:1 (counter)"
std::string describe_invocation(const std::string& function, object_id id, const std::string& type);
/// \throws error(invalid_data) for what no rank of this program would send.
inline void check_address(const address& to, int ranks) {
  if (!to.object || to.object.home() >= ranks || to.origin() >= ranks || to.stream < address::moved ||
      to.stream >= ranks) [[unlikely]]
    bad_address(to, ranks);
}
[[noreturn]] void bad_rank(object_id object, int rank, int ranks);
/// \throws error(invalid_argument) if what runs there runs on no `wanted`.
void check_self(const directory::running_invocation& running, const type_record& wanted);
/// The runtime's own messages to objects.
extern const net::handler_record destroy_handler, migrate_handler, put_out_handler, pin_handler, unpin_handler,
    share_out_handler, give_back_handler;

} // namespace detail
} // namespace tern::mobile
