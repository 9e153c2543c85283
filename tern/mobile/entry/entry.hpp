// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What a rank knows of one object. Internal; docs/design/migration.md describes the protocol.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <tern/mobile/entry/entry_front.hpp>
#include <tern/mobile/entry/event_set.hpp>
#include <tern/mobile/entry/long_rhythm.hpp>
#include <tern/mobile/entry/recent_times.hpp>
#include <tern/mobile/message/control.hpp>
#include <tern/mobile/message/invocation.hpp>
#include <tern/mobile/object/type.hpp>
#include <tern/mobile/object_id.hpp>
#include <tern/net/buffer.hpp>
#include <tern/net/handler.hpp>
#include <tern/task/fiber/causal_context.hpp>
#include <tern/task/store/stored.hpp>
#include <tern/task/wait/waiting.hpp>

namespace tern::mobile {

/// Of the messages that a rank numbers for an object, the first that has not been taken in.
struct stream_state {
  std::int32_t rank = 0;
  std::uint32_t unused = 0;
  std::uint64_t expected = 0;
};

/// What goes with an object's bytes.
struct travel_note {
  std::uint32_t version;      ///< once it has arrived
  std::uint32_t coming;       ///< invocations that follow
  std::uint8_t confirmed : 1; ///< there is its home
  std::uint8_t claimed : 1;   ///< alone, by the claimer that moves it
  std::uint8_t gap;           ///< of its rhythm
  std::uint16_t since;        ///< likewise
  float seconds;              ///< as in the entry, as is the next
  std::uint64_t credit;
  std::uint32_t events; ///< the number of its next event; 0: it has had none
  float device;         ///< as in the entry
};

/// An object that has arrived in a message and is to be unpacked.
struct landing {
  const type_record* type = nullptr;
  int source = 0;
  net::wire_header header;
  travel_note with{};
  std::vector<stream_state> streams;
  buffer<std::byte> state;
  tern::detail::held_context on{};
};

/// What only objects have that move, or are about to.
struct travel_state {
  std::vector<stream_state> streams;                                          ///< those that are open
  std::map<std::pair<int, std::uint64_t>, std::unique_ptr<invocation>> early; ///< by stream and number
  invocation_list held;               ///< in the order they came: until the object is here, with what follows it
  invocation_list after_close;        ///< own ones, until the own stream is closed
  tern::detail::waiter_list resuming; ///< invocations that have released their access and want it back; data: how
  invocation_list moves;              ///< requests to migrate
  std::unique_ptr<invocation> carry;  ///< the request of the claimer that has the object
  invocation_list settling;           ///< answered when no invocation has released its access
  tern::detail::waiter_list drained;  ///< fibers that wait until nothing keeps the object
  std::vector<int> notified;          ///< ranks that know that the object is here
  /// With their sources, until it is known that the object has left.
  std::vector<std::pair<int, directory_note>> notes;
  std::unique_ptr<landing> returns; ///< it has come back before that is known
  std::vector<int> closed;          ///< ranks to be notified that their streams are closed

  travel_state();
  ~travel_state();
  travel_state(const travel_state&) = delete;
  travel_state& operator=(const travel_state&) = delete;
  /// Has it nothing but streams?
  bool is_quiet() const noexcept {
    return early.empty() && held.empty() && after_close.empty() && resuming.empty() && moves.empty() && !carry &&
           settling.empty() && drained.empty() && notified.empty() && notes.empty() && !returns && closed.empty();
  }
  stream_state* find(int rank) noexcept {
    for (auto& s : streams)
      if (s.rank == rank) return &s;
    return nullptr;
  }
};

/// What only objects have that are counted, weighed, may go to disk, or have events.
struct extra_state {
  std::uint64_t credit = 0;                 ///< what counted references have; 0: it is not counted
  std::uint64_t bytes = 0;                  ///< that it takes in memory, if memory is limited
  std::optional<tern::detail::stored> disk; ///< as it was when it was last there
  /// Of objects that it refers to, what its copy on disk has of their credit; null: nothing.
  std::unique_ptr<std::vector<std::pair<object_id, std::uint64_t>>> credit_on_disk;
  double load = 0;                           ///< see load.hpp
  double each = 0;                           ///< of it, for one more invocation
  detail::recent_times times;                ///< that its invocations ran
  detail::long_rhythm rhythm;                ///< of its quick and its long ones, if a balancer wants to know
  float seconds = 0;                         ///< an invocation takes, typically; 0: not known
  float device = 0;                          ///< load for devices of an invocation that has any
  bool device_is_own = false;                ///< it was found here
  std::unique_ptr<detail::event_set> events; ///< null: it has had none
};

namespace detail {
struct mailbox;
}

/// All that a rank knows of an object that is elsewhere, if it has nothing else to do with it: what
/// it sends next is number `sent` of its open stream. Stands for an entry in the table.
struct far_place {
  int where = 0;
  std::uint32_t version = 0;
  std::uint64_t sent = 0;
  bool used = false;
  static constexpr unsigned where_bits = address::origin_bits, version_bits = 18, sent_bits = 19;
  bool fits() const noexcept { return version >> version_bits == 0 && sent >> sent_bits == 0; }
  /// \pre fits()
  std::uint64_t number() const noexcept {
    return ((std::uint64_t{static_cast<std::uint32_t>(where)} << version_bits | version) << sent_bits | sent) << 1 |
           (used ? 1U : 0U);
  }
  static far_place of(std::uint64_t number) noexcept {
    const auto low = [](std::uint64_t x, unsigned bits) { return x & ((std::uint64_t{1} << bits) - 1); };
    return {static_cast<int>(number >> (1 + sent_bits + version_bits)),
            static_cast<std::uint32_t>(low(number >> (1 + sent_bits), version_bits)), low(number >> 1, sent_bits),
            (number & 1) != 0};
  }
};
static_assert(far_place::where_bits + far_place::version_bits + far_place::sent_bits + 1 == 62);

inline entry_front::entry_front(object_id i) noexcept : id(i) {}
inline entry_front::entry_front(entry_front&&) noexcept = default;
inline entry_front::~entry_front() = default;

/// Protected by its shard's lock.
struct entry : entry_front {
  explicit entry(object_id i) noexcept : entry_front(i) {}
  std::unique_ptr<extra_state> extras;
  detail::mailbox* box = nullptr; ///< of this rank's own messages to it; belongs to `mailboxes`
  /// Of the own stream: the next number. With `one_stream`: of that stream, the number that is
  /// expected.
  std::uint64_t sent = 0;
  std::uint32_t version = 0; ///< how often it has moved
  std::int32_t where = -1;   ///< with `one_stream`: the rank that numbers it
  std::uint32_t sharing = 0;
  std::uint32_t unfinished = 0; ///< invocations that have begun and released their access
  std::uint32_t pins = 0;
  std::uint32_t keeps = 0;           ///< invocations that have submitted what has not ended: so long it stays
  std::uint32_t claims = 0;          ///< that were granted: they count as invocations that run
  priority level = priority::normal; ///< of those that have not begun, the least urgent
  bool exclusive = false;
  bool starting = false; ///< admitted invocations are being started: what comes meanwhile comes after them
  bool own_closing = false;
  bool one_stream = false;                   ///< it is here, and the one open stream needs no `travel_state`
  bool own_closed = false;                   ///< the entry is forgotten when nothing is under way
  bool lined = false;                        ///< what is under way is in the rank's `own_line`
  bool used = false;                         ///< since the clock came by, of those elsewhere or of those here
  bool confirmed = true;                     ///< the home knows that it is here
  bool offered = false;                      ///< the balancer knows that an invocation may begin
  priority offered_level = priority::normal; ///< and how urgent that is

  bool is_here() const noexcept { return at != place::elsewhere; }
  /// Is this rank the one that has it?
  bool is_present() const noexcept { return at == place::here || at == place::leaving || is_out(); }
  bool is_out() const noexcept { return at == place::stored || at == place::loading; }
  /// May it go to disk?
  bool is_idle() const noexcept {
    return at == place::here && object && type->pack && !running() && !starting && unfinished == 0 && keeps == 0 &&
           coming == 0 && waiting.empty() && !has_moves();
  }
  bool running() const noexcept { return exclusive || sharing > 0; }
  /// Do those that arrive have to wait until it is known where they belong?
  bool holds_all() const noexcept {
    return at == place::arriving || at == place::leaving || at == place::left || coming > 0;
  }
  bool has_moves() const noexcept { return travel && !travel->moves.empty(); }
  /// Could it leave without waiting for anything?
  bool could_leave() const noexcept { return could_drain() && keeps == 0; }
  /// The same, but for what keeps it.
  bool could_drain() const noexcept {
    return at == place::here && object && type->pack && pins == 0 && !running() && !starting && unfinished == 0 &&
           coming == 0 && confirmed && !has_moves();
  }
  /// It is to leave as soon as nothing runs on it, nor keeps it: what comes waits, and goes along.
  bool may_leave() const noexcept { return has_moves() && confirmed && unfinished == 0; }
  /// May there be what goes on when nothing keeps it? What runs looks at its end.
  bool waits_for_keeps() const noexcept {
    return !running() &&
           (!waiting.empty() || (travel && (!travel->moves.empty() || travel->carry || !travel->drained.empty())));
  }
  bool compatible(action a) const noexcept { return a == action::share ? !exclusive : !running(); }
  bool admits(action a) const noexcept {
    if (at != place::here || coming > 0 || may_leave()) return false;
    if (travel && !travel->resuming.empty()) return false;
    return compatible(a) && (a != action::destroy || (unfinished == 0 && keeps == 0));
  }
  void admit(action a) noexcept {
    if (a == action::share)
      ++sharing;
    else
      exclusive = true;
  }
  /// The same for one that gets a fiber. Fibers begin by priority; so it is no more urgent than one
  /// that was admitted before, which it must not overtake.
  void admit(invocation& one) noexcept {
    admit(one.what->what);
    runs += !one.ends();
    will_begin(one);
  }
  void will_begin(invocation& one) noexcept {
    level = not_begun++ == 0 ? one.level() : std::max(level, one.level());
    one.header.flags = (one.header.flags & ~(net::flag_high | net::flag_low)) | net::flag_of(level);
  }
  std::uint32_t pending() const noexcept { return waiting.size() + sharing + exclusive; }
  extra_state& extra() {
    if (!extras) extras = std::make_unique<extra_state>();
    return *extras;
  }
  const extra_state& known() const noexcept {
    static const extra_state none;
    return extras ? *extras : none;
  }
  /// What goes with its bytes, to another rank or to a file.
  travel_note note() const noexcept {
    const extra_state& x = known();
    return {version, 0, 0, 0, x.rhythm.gap(), x.rhythm.since(), x.seconds, x.credit, x.events ? x.events->next() : 0,
            x.device};
  }
  /// It has come with that.
  void take_over(const travel_note& with) {
    if (with.seconds > 0 || with.credit > 0) {
      extra().each = extra().seconds = with.seconds;
      extras->credit = with.credit;
    }
    if (with.device > 0) extra().device = with.device;
    if (with.events > 0) extra().events = std::make_unique<detail::event_set>(with.events);
    if (with.gap != detail::long_rhythm::no_gap || extras) extra().rhythm = {with.gap, with.since};
  }
  travel_state& travels() {
    if (!travel) {
      travel = std::make_unique<travel_state>();
      if (one_stream) {
        travel->streams.push_back({where, 0, sent});
        one_stream = false;
        sent = 0;
      }
    }
    return *travel;
  }
  /// It is here and there is nothing to be done: what it takes for moving is given back.
  void settle() noexcept {
    if (!travel || at != place::here || own_open || own_closing || coming > 0 || !travel->is_quiet() ||
        travel->streams.size() > 1)
      return;
    if (!travel->streams.empty()) {
      where = travel->streams.front().rank;
      sent = travel->streams.front().expected;
      one_stream = true;
    }
    travel.reset();
  }
  /// If it is elsewhere and has nothing but that. \return nothing if not.
  std::optional<far_place> far() const noexcept {
    const far_place f{where, version, sent, used};
    if (at != place::elsewhere || !own_open || own_closing || own_closed || under_way > 0 || travel || extras ||
        !waiting.empty() || starting || running() || claims > 0 || coming > 0 || unfinished > 0 || pins > 0 ||
        keeps > 0 || not_begun > 0 || runs > 0 || where < 0 || !confirmed || offered || !f.fits())
      return {};
    return f;
  }
};

} // namespace tern::mobile

namespace tern {
template <> inline constexpr bool is_bitwise<mobile::stream_state> = true;
template <> inline constexpr bool is_bitwise<mobile::travel_note> = true;
} // namespace tern
