// SPDX-License-Identifier: Apache-2.0
#include <tern/mobile/mail/mailboxes.hpp>

#include <chrono>
#include <cstring>
#include <exception>
#include <mutex>
#include <string>
#include <utility>

#include <tern/mobile/entry/rank_objects.hpp>
#include <tern/mobile/mail/known_homes.hpp>
#include <tern/mobile/mail/mailbox.hpp>
#include <tern/net/memory/lent_buffer.hpp>
#include <tern/net/node.hpp>
#include <tern/task/fiber.hpp>
#include <tern/task/polling/polling_fiber.hpp>
#include <tern/task/scheduler/scheduler_core.hpp>

namespace tern::mobile::detail {
namespace {

constexpr double slice_seconds = 20e-6;
constexpr std::uint64_t objects_together = 8;     // that were made one after the other: neighbours, often
constexpr unsigned most_kept = 256;               // free ones, by each worker
constexpr std::uint64_t most_waiting = 16384;     // in all mailboxes
constexpr std::uint64_t between_looks = 64;       // at how many there are, messages of a worker
constexpr int most_yields = 16, most_sleeps = 20; // of a sender, for one such look
constexpr std::chrono::microseconds sleep_time{50};

// The bytes lie in the mail, which stays until the handler has returned.
struct mail_memory final : byte_lender {
  void take_back(std::byte*) noexcept override {}
} memory_of_mail;

tern::detail::scheduler_core& core_of(net::node& here) noexcept { return here.fibers().inside(); }

} // namespace

mailbox::ticket::ticket(mailbox& b, priority p) noexcept
    : activation([](activation& a) noexcept { static_cast<ticket&>(a).of.rank.deliver(a); },
                 [](activation& a) noexcept {
                   mailbox& box = static_cast<ticket&>(a).of;
                   box.rank.end_delivery(box);
                 }),
      of(b) {
  level = static_cast<std::uint8_t>(p);
}

mailbox::mailbox(mailboxes& all, object_id i) noexcept
    : rank(all),
      id(i), tickets{ticket(*this, priority::high), ticket(*this, priority::normal), ticket(*this, priority::low)} {}

// Each worker's own, but that others add up the counts.
struct alignas(64) mailboxes::slot {
  mail* free = nullptr;
  unsigned count = 0;
  std::atomic<std::uint64_t> put{0}, taken{0};
  known_homes homes; // of objects of other workers
};

mailboxes::mailboxes(rank_objects& objects)
    : objects_(objects), node_(objects.node()), in_use_(node_.may_hand_over()),
      // Where there are other ranks objects move, and `hand_over` leaves the order of what comes
      // from a ring and by way of a stream open.
      hands_over_(in_use_ && node_.size() == 1), slice_(tern::detail::ticks_in(slice_seconds)),
      slots_(in_use_ ? static_cast<std::size_t>(node_.fibers().workers()) + 1 : 0) {}

mailboxes::~mailboxes() {
  for (slot& s : slots_)
    while (s.free) delete std::exchange(s.free, s.free->next);
}

outgoing_mail::outgoing_mail(mailboxes& of, std::size_t bytes)
    : of_(of), one_(of.take(bytes)), message_(one_->message()) {}
outgoing_mail::~outgoing_mail() {
  if (one_) of_.recycle(one_);
}
byte_buffer& outgoing_mail::body() noexcept {
  one_->has_body = true;
  return one_->body;
}
std::size_t outgoing_mail::bytes() const noexcept { return message_.size() + (one_->has_body ? one_->body.size() : 0); }

inline mailboxes::slot& mailboxes::here() noexcept {
  const tern::detail::worker* const w = tern::detail::this_worker();
  return w && w->home == &core_of(node_) ? slots_[static_cast<std::size_t>(w->index)] : slots_.back();
}

mail* mailboxes::take(std::size_t bytes) {
  slot& mine = here();
  mail* m = nullptr;
  if (mine.free) { // the last slot keeps none
    m = std::exchange(mine.free, mine.free->next);
    --mine.count;
  } else {
    m = new mail(this);
  }
  if (bytes <= mail::near_bytes) [[likely]] {
    m->size = static_cast<std::uint32_t>(bytes);
    return m;
  }
  m->size = 0;
  try {
    m->large = byte_buffer(bytes);
  } catch (...) {
    recycle(m);
    throw;
  }
  return m;
}

void mailboxes::recycle(mail* m) noexcept {
  m->on.reset();
  if (m->size == 0) [[unlikely]]
    m->large = {};
  if (m->has_body) [[unlikely]] {
    m->body = {};
    m->has_body = false;
  }
  slot& mine = here();
  if (&mine == &slots_.back() || mine.count >= most_kept) {
    delete m;
    return;
  }
  m->next = std::exchange(mine.free, m);
  ++mine.count;
}

mailbox& mailboxes::box_of(entry& e) {
  if (!e.box) {
    e.box = new mailbox(*this, e.id);
    e.box->home = static_cast<int>((e.id.number() - 1) / objects_together % (slots_.size() - 1));
  }
  return *e.box;
}

mailboxes::started mailboxes::put(entry& e, outgoing_mail& out) {
  mailbox& box = box_of(e);
  mail* const m = std::exchange(out.one_, nullptr);
  net::wire_header h;
  std::memcpy(&h, m->message().data(), sizeof h);
  m->level = static_cast<std::uint8_t>(net::priority_of(h.flags));
  m->on = node_.hold_account();
  m->worker = static_cast<std::int16_t>(node_.worker_here());
  const started what = put_into(box, m);
  if (hands_over_ && m->worker >= 0) {
    known_homes& known = slots_[static_cast<std::size_t>(m->worker)].homes;
    box.home == m->worker ? known.forget(e.id) : known.learn(e.id, box.home);
  }
  return what;
}

mailboxes::started mailboxes::put_into(mailbox& box, mail* m) noexcept {
  box.home = box.choice.sent_by(m->worker, box.home);
  box.waiting.push(m);
  ++box.levels[m->level];
  return next_ticket(box);
}

// Between workers -----------------------------------------------------------------------------------------------------

bool mailboxes::hand_over(object_id id, outgoing_mail& out, const net::wire_header& h, bool invokes) noexcept {
  if (!hands_over_) return false;
  auto& activations = core_of(node_).activations;
  if (!invokes) {
    activations.settle_all(); // the object's end, for one, is the rank's and not the fiber's
    return false;
  }
  tern::detail::worker* const w = tern::detail::this_worker();
  if (!w || w->home != &core_of(node_)) return false;
  activations.settle_if_moved(*w);
  slot& mine = slots_[static_cast<std::size_t>(w->index)];
  mail* const m = out.one_;
  if (h.reply == 0 && m->size > 0 && (h.flags & (net::flag_high | net::flag_low)) == 0 && !w->causal &&
      objects_.attends() == 0) [[likely]] {
    if (const int home = mine.homes.home_of(id); home >= 0) {
      m->level = static_cast<std::uint8_t>(priority::normal);
      m->worker = static_cast<std::int16_t>(w->index);
      if (std::uint32_t upto = 0; activations.hand(*w, *m, home, upto)) {
        out.one_ = nullptr;
        mine.homes.handed(id, upto);
        mine.put.store(mine.put.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
        return true;
      }
    }
  }
  mine.homes.take_unsettled(id,
                            [&](const known_homes::mark& before) { activations.settle(*w, before.home, before.upto); });
  return false;
}

void mail::arrives(handed& x) noexcept {
  mail& m = static_cast<mail&>(x);
  m.rank->arrive(m);
}

// On the worker whose the object is, or on one that stands in for it. The mail has been counted,
// and comes as if it were sent now.
void mailboxes::arrive(mail& m) noexcept {
  address to;
  std::memcpy(&to, m.near.data() + sizeof(net::wire_header), sizeof to);
  started what;
  try {
    shard& s = objects_.shard_of(to.object);
    const std::lock_guard hold(s.lock);
    entry* const e = s.entries.find(to.object);
    if (e && e->at != entry::place::gone) [[likely]] {
      what = put_into(box_of(*e), &m);
      ++e->under_way;
    } else { // its end has overtaken the message
      auto* const box = new mailbox(*this, to.object);
      box->orphaned = true;
      what = put_into(*box, &m);
    }
  } catch (const std::bad_alloc&) {
    return node_.fatal("no memory for messages of the rank to itself");
  }
  if (what.what) core_of(node_).activations.ready(*what.what, what.near, false);
}

// Under the shard's lock. What waits is as urgent as the most urgent of it, behind what came
// before that.
mailboxes::started mailboxes::next_ticket(mailbox& of) noexcept {
  if (of.delivering || of.waiting.empty()) return {};
  unsigned level = 0;
  while (of.levels[level] == 0) ++level;
  const unsigned upto = (2u << level) - 1; // as urgent, or more
  if ((of.queued & upto) != 0) return {};
  of.queued = static_cast<std::uint8_t>(of.queued | 1u << level);
  return {&of.tickets[level], of.home};
}

void mailboxes::start(const started& what, bool awaited) noexcept {
  slot& mine = here();
  if (&mine == &slots_.back()) [[unlikely]]
    mine.put.fetch_add(1, std::memory_order_relaxed);
  else
    mine.put.store(mine.put.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  if (what.what) core_of(node_).activations.ready(*what.what, what.near, awaited);
}

void mailboxes::drop_if_unused(mailbox& one) noexcept {
  if (one.orphaned && one.unused()) delete &one;
}

void mailboxes::abandon(entry& e) noexcept {
  mailbox* const box = std::exchange(e.box, nullptr);
  if (!box) return;
  box->orphaned = true;
  drop_if_unused(*box);
}

void mailboxes::clear() noexcept {
  if (hands_over_)
    for (const auto& w : core_of(node_).workers)
      w->inbox.take_all([](tern::detail::handed& x) { delete static_cast<mail*>(&x); });
  for (shard& s : objects_.shards())
    for (std::size_t i = 0; i < s.entries.capacity(); ++i)
      if (entry* const e = s.entries.at(i); e && e->box) {
        while (mail* const m = e->box->waiting.pop()) delete m;
        abandon(*e);
      }
}

// Delivering ----------------------------------------------------------------------------------------------------------

void mailboxes::deliver(tern::detail::activation& from) noexcept {
  mailbox& box = static_cast<mailbox::ticket&>(from).of;
  tern::detail::worker& w = *tern::detail::this_worker();
  {
    const std::lock_guard hold(objects_.shard_of(box.id).lock);
    box.queued = static_cast<std::uint8_t>(box.queued & ~(1u << from.level));
    if (box.delivering || box.waiting.empty()) return drop_if_unused(box); // another ticket was faster
    box.delivering = true;
    box.current = box.waiting.take();
    box.home = box.choice.delivered_by(w.index, box.home);
  }
  tern::detail::activation_fiber pieces;
  const std::int64_t begun = w.last_tick; // or a little later
  do {
    if (!deliver_next(box, pieces, w)) return; // another fiber has it, or had
  } while (!box.current.empty() && tern::detail::ticks() - begun < slice_);
  end_delivery(box);
}

// \return whether this fiber still has the mailbox.
bool mailboxes::deliver_next(mailbox& from, tern::detail::activation_fiber& pieces, tern::detail::worker& w) noexcept {
  mail* const m = from.current.pop();
  ++from.delivered[m->level];
  net::wire_header h;
  std::memcpy(&h, m->message().data(), sizeof h);
  const net::handler_record& handler = net::handler_table::at(h.handler);
  const net::handler_entry direct = handler.direct();
  try {
    net::payload message;
    if (m->size > 0)
      message.bytes = byte_buffer::borrow(m->near.data(), m->size, memory_of_mail);
    else
      message.bytes = std::move(m->large);
    message.in_place = m->size > 0;
    if (m->has_body) [[unlikely]]
      message.body = std::move(m->body);
    if (direct) pieces.begin(w, handler.label());
    if (m->on.get()) [[unlikely]] {
      const tern::detail::causal_scope in(m->on.get());
      (direct ? direct : handler.entry())(node_, node_.rank(), h, message);
    } else {
      (direct ? direct : handler.entry())(node_, node_.rank(), h, message);
    }
  } catch (const std::exception& x) {
    node_.fatal(std::string("a message could not be handled: ") + x.what());
  }
  const bool mine = direct ? pieces.end_piece() : tern::detail::activation_fiber::may_continue();
  recycle(m); // before it counts as done: nothing is sent after the last has been
  if (!mine) {
    if (direct) node_.handled(1);
  } else if (direct) {
    ++from.done;
  }
  return mine;
}

// By the fiber that delivers; or by its worker, if it waits.
void mailboxes::end_delivery(mailbox& of) noexcept {
  if (of.done > 0) node_.handled(std::exchange(of.done, 0));
  slot& mine = here();
  std::uint64_t taken = 0;
  started next;
  {
    const std::lock_guard hold(objects_.shard_of(of.id).lock);
    for (std::size_t level = 0; level < of.levels.size(); ++level) {
      taken += of.delivered[level];
      of.levels[level] -= std::exchange(of.delivered[level], 0);
    }
    of.waiting.prepend(of.current.take());
    of.delivering = false;
    next = next_ticket(of);
    drop_if_unused(of);
  }
  mine.taken.store(mine.taken.load(std::memory_order_relaxed) + taken, std::memory_order_relaxed);
  if (next.what) core_of(node_).activations.ready(*next.what, next.near, false);
}

// Too much ------------------------------------------------------------------------------------------------------------

bool mailboxes::has_too_much() const noexcept {
  std::uint64_t there = 0;
  for (const slot& s : slots_) there += s.put.load(std::memory_order_relaxed) - s.taken.load(std::memory_order_relaxed);
  return static_cast<std::int64_t>(there) > static_cast<std::int64_t>(most_waiting);
}

// Not until there is room: handlers that all send what others wait for would wait for each other.
void mailboxes::throttle() {
  const slot& mine = here();
  if (&mine == &slots_.back() || mine.put.load(std::memory_order_relaxed) % between_looks != 0 || !has_too_much())
      [[likely]]
    return;
  if (!scheduler::in_fiber() || net::detail::releasing()) return;
  for (int i = 0; i < most_yields && has_too_much(); ++i) this_fiber::yield();
  for (int i = 0; i < most_sleeps && has_too_much(); ++i) this_fiber::sleep_for(sleep_time);
}

} // namespace tern::mobile::detail
