// SPDX-License-Identifier: Apache-2.0
#include <tern/global/transfer/transfer_table.hpp>

#include <chrono>
#include <mutex>
#include <source_location>
#include <string>
#include <typeinfo>
#include <utility>
#include <vector>

#include <tern/base/error.hpp>
#include <tern/global/load/device_census.hpp>
#include <tern/hetero/access.hpp>
#include <tern/hetero/passage/landing_place.hpp>
#include <tern/mobile/access/running_invocation.hpp>
#include <tern/net/call/remote_exception.hpp>
#include <tern/net/failure/generation.hpp>
#include <tern/net/memory/bounded_lock.hpp>
#include <tern/net/packing/packing.hpp>
#include <tern/net/rank_local.hpp>
#include <tern/task/fiber.hpp>
#include <tern/task/future.hpp>
#include <tern/task/scheduler/scheduler_core.hpp>

namespace tern::global {

namespace detail {
namespace {

const rank_local<transfer_table> tables;

// They run in the polling context and must not wait.
void request_arrives(net::node& here, int source, const net::wire_header& h, net::payload& message) {
  transfer_table::of(here).take_request(here, source, h, message);
}
void drop_arrives(net::node& here, int source, const net::wire_header& h, net::payload& message) {
  transfer_table::of(here).take_drop(here, source, h, message);
}
void data_arrive(net::node& here, int source, const net::wire_header& h, net::payload& message) {
  transfer_table::of(here).take_data(here, source, h, message);
}
void piece_arrives(net::node& here, int source, const net::wire_header& h, net::payload& message) {
  transfer_table::of(here).take_piece(here, source, h, message);
}
void answer_arrives(net::node& here, int source, const net::wire_header& h, net::payload&) {
  transfer_table::of(here).take_landed(here, source, h);
}
void ready_arrives(net::node& here, int source, const net::wire_header& h, net::payload&) {
  transfer_table::of(here).take_ready(here, source, h);
}
void returned_arrives(net::node& here, int source, const net::wire_header& h, net::payload&) {
  transfer_table::of(here).take_returned(here, source, h);
}
void room_arrives(net::node& here, int, const net::wire_header& h, net::payload&) {
  transfer_table::of(here).take_room(here, h, true);
}
void recall_arrives(net::node& here, int, const net::wire_header& h, net::payload&) {
  transfer_table::of(here).take_room(here, h, false);
}
void failure_arrives(net::node& here, int source, const net::wire_header& h, net::payload& message) {
  transfer_table::of(here).take_failure(here, source, h, message);
}

struct request_tag {};
struct drop_tag {};
struct data_tag {};
struct failure_tag {};
struct piece_tag {};
struct landed_tag {};
struct ready_tag {};
struct returned_tag {};
struct room_tag {};
struct recall_tag {};
const net::handler_record request_record{typeid(request_tag), "tern request of data", __FILE__, &request_arrives, true};
const net::handler_record drop_record{typeid(drop_tag), "tern data not wanted", __FILE__, &drop_arrives, true};
const net::handler_record data_record{typeid(data_tag), "tern data", __FILE__, &data_arrive, true};
const net::handler_record piece_record{typeid(piece_tag), "tern piece of data", __FILE__, &piece_arrives, true};
const net::handler_record landed_record{typeid(landed_tag), "tern piece has landed", __FILE__, &answer_arrives, true};
const net::handler_record ready_record{typeid(ready_tag), "tern data are ready", __FILE__, &ready_arrives, true};
const net::handler_record returned_record{typeid(returned_tag), "tern room for data given back", __FILE__,
                                          &returned_arrives, true};
const net::handler_record room_record{typeid(room_tag), "tern room for data", __FILE__, &room_arrives, true};
const net::handler_record recall_record{typeid(recall_tag), "tern room for data wanted back", __FILE__, &recall_arrives,
                                        true};
const net::handler_record failure_record{typeid(failure_tag), "tern failure of data", __FILE__, &failure_arrives, true};

// What an invocation submits belongs to its object, and so to one device; and balancing knows of
// devices.
[[maybe_unused]] const bool keyed = [] {
  mobile::detail::running_invocation::frames.key = &mobile::detail::running_invocation::key_of;
  count_devices();
  return true;
}();

const net::detail::abandon_hook hook{[](net::node& here, const error& why) {
  if (transfer_table* const all = tables.if_made(here)) all->abandon(std::make_exception_ptr(why));
}};

error bad_message(int source, const std::string& what) {
  return error(errc::invalid_data, "rank " + std::to_string(source) + " " + what);
}

error checksum_error(int source, std::size_t bytes) {
  return error(errc::invalid_data,
               std::to_string(bytes) + " bytes of data from rank " + std::to_string(source) +
                   " have another checksum than where they left",
               "the network, or memory, is not reliable (--tern-global-verify)");
}

} // namespace

const net::handler_record& data_message() noexcept { return data_record; }
const net::handler_record& piece_message() noexcept { return piece_record; }
const net::handler_record& landed_message() noexcept { return landed_record; }
const net::handler_record& failure_message() noexcept { return failure_record; }
const net::handler_record& ready_message() noexcept { return ready_record; }
const net::handler_record& returned_message() noexcept { return returned_record; }

transfer_table::transfer_table()
    : here_(net::node::here()), settings_(here_.opts()),
      job_codec_(here_.opts()[codec_option] == "none" ? nullptr : make_codec(here_.opts()[codec_option])),
      budget_(settings_.landing) {
  here_.report_on(*this);
}
transfer_table::~transfer_table() { here_.forget_part(*this); }

transfer_table& transfer_table::here() { return tables.get(); }
transfer_table& transfer_table::of(net::node& rank) { return tables.of(rank); }

template <class T, class V> std::uint64_t transfer_table::enter(net::detail::id_table<T>& in, V value) {
  std::unique_lock hold(guard_);
  while (in.full()) {
    const std::uint32_t capacity = in.capacity();
    hold.unlock(); // others need not wait for memory
    auto more = in.make(capacity);
    hold.lock();
    in.grow(capacity, more);
  }
  auto [number, place] = in.take();
  place = std::move(value);
  return number;
}

std::shared_ptr<departure> transfer_table::take_departure(std::uint64_t number) noexcept {
  const std::lock_guard hold(guard_);
  std::shared_ptr<departure>* const found = departures_.find(number);
  if (!found) return nullptr;
  std::shared_ptr<departure> d = std::move(*found);
  departures_.free(number);
  return d;
}

std::shared_ptr<departure> transfer_table::find_departure(std::uint64_t number) noexcept {
  const std::lock_guard hold(guard_);
  const std::shared_ptr<departure>* const found = departures_.find(number);
  return found ? *found : nullptr;
}

void transfer_table::sent(std::uint64_t number, bool failed, std::size_t bytes) noexcept {
  if (take_departure(number)) add(failed ? failed_ : sent_, bytes); // else it was abandoned
}

void transfer_table::forget(std::uint64_t stage) noexcept {
  std::shared_ptr<staging> gone; // without the lock
  const std::lock_guard hold(guard_);
  std::shared_ptr<staging>* const found = stages_.find(stage);
  if (!found) return;
  gone = std::move(*found);
  stages_.free(stage);
}

std::shared_ptr<landing> transfer_table::find_arrival(std::uint64_t number, int source, const char* what) {
  const std::lock_guard hold(guard_);
  const arrival* const found = arrivals_.find(number);
  if (!found || found->into->origin() != source)
    throw bad_message(source, std::string("sent ") + what + " that were not asked for");
  return found->into;
}

std::uint64_t transfer_table::announce(std::shared_ptr<departure> what) {
  departure& d = *what;
  const std::uint64_t number = enter(departures_, std::move(what));
  d.set_number(number); // before any message has it
  add(announced_);
  if (net::detail::abandoned(net::node::here())) drop(number); // behind what `abandon` has seen
  return number;
}

void transfer_table::drop(std::uint64_t number) noexcept {
  if (const std::shared_ptr<departure> d = take_departure(number)) {
    add(dropped_);
    d->dropped(); // its reader ends with it
  }
}

hetero::detail::object_state* transfer_table::keep(std::uint64_t number, const std::array<std::int32_t, 3>& extent,
                                                   std::size_t element) noexcept {
  const std::shared_ptr<departure> d = find_departure(number);
  hetero::detail::object_state* const kept = d ? d->keep() : nullptr;
  if (!kept) return nullptr;
  bool same = kept->element == element; // messages can be wrong
  for (std::size_t i = 0; i < 3; ++i) same = same && kept->all.extent(i) == extent[i];
  if (!same || !take_departure(number)) { // or it has been abandoned
    hetero::detail::drop_handle(kept);
    return nullptr;
  }
  add(sent_, static_cast<std::size_t>(kept->all.size()) * kept->element);
  add(given_);
  d->dropped();
  return kept;
}

std::uint64_t transfer_table::departing() const noexcept {
  const auto get = [](const counter& c) { return c.objects.load(std::memory_order_relaxed); };
  return get(announced_) - get(sent_) - get(dropped_) - get(failed_);
}

// It never stops: the sender may hold what the transfers wait for.
void transfer_table::slow_down() {
  const tern::detail::worker* const w = tern::detail::this_worker();
  if (departing() <= settings_.ahead || !w || !w->running) [[likely]]
    return;
  slowed_.fetch_add(1, std::memory_order_relaxed);
  for (int i = 0; i < 10 && departing() > settings_.ahead; ++i) this_fiber::sleep_for(std::chrono::microseconds(100));
}

void transfer_table::wait_for(hetero::detail::object_state& o, const hetero::detail::box& part) {
  struct answer final : hetero::detail::access_request {
    void granted(hetero::detail::task_record* t, const hetero::detail::host_place&) noexcept override {
      hetero::detail::release_access(t);
      told.set_value();
    }
    void refused(std::exception_ptr) noexcept override { told.set_value(); } // the failure travels
    promise<void> told{};
  };
  answer a;
  auto told = a.told.get_future();
  hetero::detail::request_access(&o, part, access_mode::read, &a, std::source_location::current());
  told.wait();
}

void transfer_table::request(int origin, std::uint64_t number, std::size_t bytes,
                             std::unique_ptr<hetero::detail::incoming> into, std::string what, std::uint8_t device,
                             coding coded, const array_shape& shape) {
  const auto to = std::make_shared<landing>(here_, *this, std::move(into), std::move(what), origin, bytes, device);
  to->may_be_coded(coded, shape);
  try {
    request_into(number, to);
  } catch (...) {
    to->fail(std::current_exception());
    throw;
  }
}

void transfer_table::request(int origin, std::uint64_t number, std::size_t bytes, std::unique_ptr<data_sink> into) {
  const auto to = std::make_shared<landing>(here_, *this, std::move(into), origin, bytes);
  try {
    request_into(number, to);
  } catch (...) {
    forget(to->number(), origin);
    throw;
  }
}

void transfer_table::request_into(std::uint64_t number, const std::shared_ptr<landing>& into) {
  const std::uint64_t place = enter(arrivals_, arrival{into, number});
  into->set_number(place);
  if (net::detail::abandoned(here_)) // likewise
    return abandon(std::make_exception_ptr(net::detail::rank_lost_error(here_, "data of a hetero_object")));
  bool room = false;
  {
    const std::lock_guard hold(guard_);
    room = budget_.try_enter(into->bytes());
    if (room) into->room = landing::part::has;
  }
  here_.post(into->origin(), pack(net::wire_header{request_record.id(), 0, number}, place, room), {.urgent = true});
}

std::uint64_t transfer_table::expect(int origin, std::size_t bytes, std::unique_ptr<data_sink> into) {
  const auto to = std::make_shared<landing>(here_, *this, std::move(into), origin, bytes);
  const std::uint64_t place = enter(arrivals_, arrival{to, 0});
  to->set_number(place);
  if (net::detail::abandoned(here_)) // likewise
    abandon(std::make_exception_ptr(net::detail::rank_lost_error(here_, "data of a hetero_object")));
  return place;
}

void transfer_table::forget(std::uint64_t number, int origin) noexcept {
  std::vector<std::uint64_t> now;
  std::shared_ptr<landing> gone; // without the lock
  {
    const std::lock_guard hold(guard_);
    arrival* const found = arrivals_.find(number);
    if (!found || found->into->origin() != origin) return; // it has been abandoned
    gone = std::move(found->into);
    arrivals_.free(number);
    if (gone->room == landing::part::has) now = budget_.leave(gone->bytes());
  }
  let_come(now);
}

void transfer_table::let_come(const std::vector<std::uint64_t>& numbers) {
  for (const std::uint64_t n : numbers) {
    int origin = 0;
    std::uint64_t wanted = 0;
    {
      const std::lock_guard hold(guard_);
      const arrival* const a = arrivals_.find(n);
      if (!a) continue; // it has been abandoned
      a->into->room = landing::part::has;
      origin = a->into->origin();
      wanted = a->wanted;
    }
    here_.post(origin, pack(net::wire_header{room_record.id(), 0, wanted}), {.urgent = true});
  }
}

// What is ready waits: what has room, and may not be, gives it back if it is not.
void transfer_table::recall() {
  std::vector<std::pair<int, std::uint64_t>> all;
  {
    const std::lock_guard hold(guard_);
    arrivals_.for_each([&](std::uint64_t, arrival& a) {
      if (a.into->room != landing::part::has || a.into->begun()) return;
      a.into->room = landing::part::recalled;
      all.emplace_back(a.into->origin(), a.wanted);
    });
  }
  for (const auto& [origin, wanted] : all)
    here_.post(origin, pack(net::wire_header{recall_record.id(), 0, wanted}), {.urgent = true});
}

void transfer_table::take_ready(net::node& here, int source, const net::wire_header& h) {
  const std::shared_ptr<landing> to = find_arrival(h.reply, source, "word of data");
  bool now = false;
  {
    const std::lock_guard hold(guard_);
    if (to->room != landing::part::none) throw bad_message(source, "says twice that data are ready");
    to->room = landing::part::waits;
    now = budget_.enter(h.reply, to->bytes());
  }
  if (now)
    let_come({h.reply});
  else
    recall();
  here.message_done(h);
}

void transfer_table::take_returned(net::node& here, int source, const net::wire_header& h) {
  const std::shared_ptr<landing> to = find_arrival(h.reply, source, "back room for data");
  std::vector<std::uint64_t> now;
  {
    const std::lock_guard hold(guard_);
    if (to->room != landing::part::recalled) throw bad_message(source, "gives back room for data that it has not");
    to->room = landing::part::none;
    now = budget_.leave(to->bytes());
  }
  let_come(now);
  here.message_done(h);
}

void transfer_table::take_room(net::node& here, const net::wire_header& h, bool there) {
  if (const std::shared_ptr<departure> d = find_departure(h.reply)) { // else they have left meanwhile
    if (there)
      d->may_leave();
    else
      d->recalled();
  }
  here.message_done(h);
}

void transfer_table::ended(landing& of, bool on_device, bool failed) noexcept {
  std::vector<std::uint64_t> now;
  std::shared_ptr<landing> gone; // without the lock
  {
    const std::lock_guard hold(guard_);
    arrival* const found = arrivals_.find(of.number());
    if (found && found->into.get() == &of) { // else it was abandoned
      gone = std::move(found->into);
      arrivals_.free(of.number());
      if (of.room == landing::part::has || of.room == landing::part::recalled) now = budget_.leave(of.bytes());
    }
  }
  if (!failed) {
    add(landed_, of.bytes());
    if (on_device) add(on_devices_, of.bytes());
  }
  let_come(now);
}

void transfer_table::refuse(int origin, std::uint64_t number) {
  net::node::here().post(origin, pack(net::wire_header{drop_record.id(), 0, number}), {.urgent = true});
}

void transfer_table::take_request(net::node&, int source, const net::wire_header& h, net::payload& message) {
  const auto [place, room] = unpack<std::uint64_t, bool>(net::detail::body_of(message.bytes));
  const std::shared_ptr<departure> d = find_departure(h.reply);
  if (!d || !d->requested(source, place, room, h))
    throw bad_message(source, "asked for data that were not announced, or twice");
}

void transfer_table::take_drop(net::node& here, int source, const net::wire_header& h, net::payload&) {
  {
    const std::shared_ptr<departure> d = take_departure(h.reply);
    if (!d) throw bad_message(source, "does not want data that were not announced, or twice");
    add(dropped_);
    d->dropped();
  }
  here.message_done(h);
}

void transfer_table::take_data(net::node& here, int source, const net::wire_header& h, net::payload& message) {
  const std::shared_ptr<landing> to = find_arrival(h.reply, source, "data");
  const auto sum = unpack<std::uint64_t>(net::detail::body_of(message.bytes));
  if (sum != 0 && checksum(message.body.bytes()) != sum) {
    to->fail(std::make_exception_ptr(checksum_error(source, message.body.size())));
    return here.message_done(h);
  }
  to->take_all(std::move(message.body), h);
}

void transfer_table::take_piece(net::node&, int source, const net::wire_header& h, net::payload& message) {
  const std::shared_ptr<landing> to = find_arrival(h.reply, source, "a piece of data");
  const auto p = unpack<piece_head>(net::detail::body_of(message.bytes));
  if (p.sum != 0 && checksum(message.body.bytes()) != p.sum) throw checksum_error(source, message.body.size());
  add(staged_, message.body.size());
  to->take_piece(p, std::move(message.body), h);
}

void transfer_table::take_landed(net::node& here, int source, const net::wire_header& h) {
  std::shared_ptr<staging> s;
  {
    const std::lock_guard hold(guard_);
    if (const std::shared_ptr<staging>* const found = stages_.find(h.reply)) s = *found;
  }
  if (!s) throw bad_message(source, "says that a piece has landed that was not sent");
  s->landed();
  here.message_done(h);
}

void transfer_table::take_failure(net::node& here, int source, const net::wire_header& h, net::payload& message) {
  const std::shared_ptr<landing> to = find_arrival(h.reply, source, "a failure of data");
  net::detail::failure f;
  unpack_into(net::detail::body_of(message.bytes), f);
  to->fail(std::make_exception_ptr(f.as_error()));
  here.message_done(h);
}

void transfer_table::abandon(const std::exception_ptr& why) {
  std::vector<std::shared_ptr<departure>> unwanted, asked; // ended without the lock, as are the others
  std::vector<std::shared_ptr<landing>> lost;
  std::vector<std::shared_ptr<staging>> staged;
  {
    const std::lock_guard hold(guard_);
    std::vector<std::uint64_t> numbers;
    departures_.for_each([&](std::uint64_t number, std::shared_ptr<departure>& d) {
      if (d->was_requested()) return asked.push_back(d); // it ends as soon as it is ready, and its request with it
      unwanted.push_back(std::move(d));
      numbers.push_back(number);
    });
    for (const std::uint64_t number : numbers) departures_.free(number);
    numbers.clear();
    arrivals_.for_each([&](std::uint64_t number, arrival& a) {
      lost.push_back(std::move(a.into));
      numbers.push_back(number);
    });
    for (const std::uint64_t number : numbers) arrivals_.free(number);
    stages_.for_each([&](std::uint64_t, std::shared_ptr<staging>& s) { staged.push_back(s); });
    budget_.clear();
  }
  for (const auto& d : unwanted) {
    add(dropped_);
    d->dropped();
  }
  for (const auto& s : staged) s->give_up();
  for (const auto& d : asked) d->may_leave();
  for (const auto& a : lost) a->fail(why);
}

namespace {
std::string mebibytes(std::uint64_t bytes) { return std::to_string((bytes + (1 << 19)) >> 20) + " MiB"; }
} // namespace

std::string transfer_table::describe() {
  constexpr std::size_t listed = 20;
  const auto hold = net::try_for_a_while(guard_);
  if (!hold) return "  (device data that are to come: another thread holds the lock on their list)\n";
  std::string text;
  std::size_t n = 0;
  arrivals_.for_each([&](std::uint64_t, arrival& a) {
    if (++n <= listed) text += "    " + a.into->describe() + "\n";
  });
  if (const std::uint64_t out = departing(); out != 0)
    text += "    " + std::to_string(out) + " are on their way out of this rank\n";
  if (text.empty()) return {};
  if (n > listed) text += "    and " + std::to_string(n - listed) + " more\n";
  return "  device data: " + std::to_string(n) + (n == 1 ? " object is" : " objects are") + " arriving, " +
         mebibytes(budget_.held()) + " asked for:\n" + text;
}

net::stats_table transfer_table::statistics() {
  net::stats_table t;
  t.of = "device data";
  t.columns = {{"objects", 0}, {"MiB", 1}};
  const auto row = [&](const char* name, const counter& c) {
    const auto objects = static_cast<double>(c.objects.load(std::memory_order_relaxed));
    if (objects > 0)
      t.rows.push_back({name, {objects, static_cast<double>(c.bytes.load(std::memory_order_relaxed)) / (1 << 20)}});
  };
  row("sent within messages", inside_);
  row("sent as bodies", bodies_);
  row("sent when asked for", sent_);
  row("never asked for", dropped_);
  row("not sent: failed", failed_);
  row("landed when asked for", landed_);
  row("landed on devices", on_devices_);
  row("landed in pieces (pieces)", staged_);
  return t;
}

transfer_counts transfer_table::counts() noexcept {
  const auto get = [](const counter& c) { return c.objects.load(std::memory_order_relaxed); };
  transfer_counts n{.inside = get(inside_),
                    .bodies = get(bodies_),
                    .announced = get(announced_),
                    .sent = get(sent_),
                    .dropped = get(dropped_),
                    .failed = get(failed_),
                    .departing = 0,
                    .given = get(given_),
                    .landed = get(landed_),
                    .on_devices = get(on_devices_),
                    .pieces = get(staged_),
                    .slowed = slowed_.load(std::memory_order_relaxed),
                    .landing_peak = 0,
                    .arriving = 0};
  n.departing = n.announced - n.sent - n.dropped - n.failed;
  const std::lock_guard hold(guard_);
  n.arriving = arrivals_.size();
  n.landing_peak = budget_.peak();
  return n;
}

} // namespace detail

transfer_counts count_transfers() { return detail::transfer_table::here().counts(); }

} // namespace tern::global
