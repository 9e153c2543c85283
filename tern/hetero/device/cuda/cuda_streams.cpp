// SPDX-License-Identifier: Apache-2.0
#include <tern/hetero/device/cuda/cuda_streams.hpp>

#include <algorithm>
#include <cstring>
#include <utility>

#include <tern/hetero/device/cuda/cuda_device.hpp>

namespace tern::hetero::detail {

namespace {
constexpr std::uint64_t between_events = 8; // operations
/// Of operations that take longer each end is to be known: an event costs little beside them. Twice
/// in a row, as the host may have been late.
constexpr std::chrono::microseconds long_operation{200};
constexpr unsigned in_a_row = 2;

std::string named(const char* operation, const char* kernel) {
  return kernel ? std::string(operation) + " '" + kernel + "'" : operation;
}
} // namespace

struct cuda_streams::told_event final : device_event {
  told_event(std::shared_ptr<told_events> of, cu::event e) : home(std::move(of)), handle(e) {}
  ~told_event() override {
    const std::lock_guard hold(home->lock);
    if (home->open)
      home->unused.push_back(handle); // there is room: `event` has made it
    else
      home->destroy(handle);
  }
  const std::shared_ptr<told_events> home;
  const cu::event handle;
};

cuda_streams::cuda_streams(cuda_target& target, cuda_timer& timer)
    : target_(target), timer_(timer), told_(std::make_shared<told_events>(target.api)) {}

cuda_streams::~cuda_streams() {
  const cuda_api& api = target_.api;
  {
    const std::lock_guard hold(told_->lock);
    told_->open = false;
    for (const cu::event e : told_->unused) api.EventDestroy(e);
    told_->unused.clear();
  }
  for (const slot& s : slots_)
    if (s.event) api.EventDestroy(s.event);
  for (const cu::event e : events_) api.EventDestroy(e);
  for (const stream& s : all_)
    if (s.handle) api.StreamDestroy(s.handle);
}

void cuda_streams::open(std::size_t count) {
  all_.resize(count);
  for (stream& s : all_) s.waits_for.resize(count);
}

cuda_streams::slot& cuda_streams::reserve(const char* operation, const char* kernel, const char* task) {
  if (unused_.empty()) {
    unused_.reserve(slots_.size() + 1); // `forget` cannot fail
    events_.reserve(slots_.size() + 2); // nor can the end of an event
    slots_.emplace_back();
    unused_.push_back(static_cast<std::uint32_t>(slots_.size() - 1));
  }
  have_event();
  slot& s = slots_[unused_.back()];
  timer_.forget(std::exchange(s.timed, 0)); // where its operation could not be put
  s.operation = operation;
  s.kernel = kernel;
  s.task = task ? task : kernel;
  return s;
}

// Of those that are not recorded there is one.
void cuda_streams::have_event() {
  if (!events_.empty()) return;
  cu::event made = nullptr;
  target_.check(target_.api.EventCreate(&made, cu::event_disable_timing), "make an event");
  events_.push_back(made);
}

ticket cuda_streams::put(stream& to, slot& s, bool apart) {
  const auto index = static_cast<std::uint32_t>(&s - slots_.data());
  if (apart || to.slow >= in_a_row || to.put + 1 - std::max(to.recorded, to.over) >= between_events) record(to, s);
  unused_.pop_back();
  s.used = true;
  s.come = false;
  s.prompt = apart;
  s.next = 0;
  s.queue = static_cast<std::uint8_t>(&to - all_.data());
  s.place = ++to.put;
  has_put_ = true;
  if (s.event) to.recorded = s.place;
  if (to.last) {
    slots_[to.last - 1].next = index + 1;
  } else {
    to.first = index + 1;
    to.since = stream::clock::now();
  }
  to.last = index + 1;
  return std::uint64_t{s.uses} << 32 | (index + 1);
}

// \pre `after` is what was put into the stream last.
void cuda_streams::record(stream& s, slot& after) {
  const cu::event e = events_.back();
  const cu::result r = target_.api.EventRecord(e, s.handle);
  if (r != cu::success) [[unlikely]] {
    // What was begun goes on, and works on memory that the caller gives away.
    if (!is_for_good(r)) target_.api.StreamSynchronize(s.handle);
    target_.fail(r, named(after.operation, after.kernel));
  }
  events_.pop_back();
  after.event = e;
}

void cuda_streams::mark(stream& s) {
  if (!s.last || s.recorded == s.put) return;
  have_event();
  record(s, slots_[s.last - 1]);
  s.recorded = s.put;
}

cuda_streams::slot* cuda_streams::find(ticket t) {
  const auto number = static_cast<std::uint32_t>(t);
  if (number == 0) return nullptr;
  if (number > slots_.size())
    throw error(errc::invalid_argument, target_.title() + " has given out no ticket " + std::to_string(t));
  slot& s = slots_[number - 1];
  return s.used && s.uses == t >> 32 ? &s : nullptr;
}

void cuda_streams::forget(slot& s) noexcept {
  s.used = false;
  timer_.forget(std::exchange(s.timed, 0));
  ++s.uses;
  unused_.push_back(static_cast<std::uint32_t>(&s - slots_.data()));
}

std::string cuda_streams::under_way() const {
  std::string all;
  int count = 0;
  for (const slot& s : slots_) {
    if (!s.used || s.come || !s.task) continue;
    constexpr int shown = 8;
    if (++count <= shown) {
      all += count > 1 ? ", " : "";
      const bool same = s.kernel && std::strcmp(s.kernel, s.task) == 0;
      const std::string kernel = s.kernel ? "'" + std::string(s.kernel) + "'" : "";
      all += same ? kernel : (s.kernel ? kernel + " of " : "what was put there by ") + "task '" + s.task + "'";
    }
    if (count == shown + 1) all += ", …";
  }
  return all;
}

void cuda_streams::wait_for_all() const noexcept {
  if (!target_.lost.empty()) return; // it does nothing more
  for (const stream& s : all_)
    if (s.handle) target_.api.StreamSynchronize(s.handle);
}

// What cannot be asked is never known to be over, whatever the reason.
void cuda_streams::fail(const stream& s, cu::result r) {
  const slot& first = slots_[s.first - 1];
  const std::string kernels = under_way();
  if (!is_for_good(r)) wait_for_all(); // else what was begun would go on in memory that is given away now
  target_.lose(r, named(first.operation, first.kernel) + (kernels.empty() ? "" : " (on it were: " + kernels + ")"));
}

void cuda_streams::over_until(stream& s, std::uint64_t place) noexcept {
  const auto now = stream::clock::now();
  const auto count = static_cast<std::int64_t>(place - s.over);
  s.slow = now - s.since > count * long_operation ? s.slow + 1 : 0;
  s.since = now;
  s.over = place;
  while (s.first && slots_[s.first - 1].place <= place) {
    slot& one = slots_[s.first - 1];
    if (one.event) events_.push_back(std::exchange(one.event, nullptr));
    one.come = true;
    s.first = one.next;
  }
  if (!s.first) s.last = 0;
}

void cuda_streams::next_round() noexcept {
  ++round_;
  busy_rounds_ = std::exchange(has_put_, false) ? busy_rounds_ + 1 : 0;
}

// While its owner has other things to do, seldom. Owners that do not tell of their rounds always.
bool cuda_streams::is_worth_a_question(stream& s) noexcept {
  if (round_ == 0) return true;
  if (s.asked_in == round_) return false;
  constexpr std::uint32_t patient = 8; // rounds
  if (has_put_ && (busy_rounds_ + 1) % patient != 0 && !slots_[s.first - 1].prompt) return false;
  s.asked_in = round_;
  return true;
}

void cuda_streams::advance(stream& s) {
  if (!is_worth_a_question(s)) return;
  // The oldest that has an event is at most the eighth.
  const slot* with_event = &slots_[s.first - 1];
  while (!with_event->event && with_event->next) with_event = &slots_[with_event->next - 1];
  cu::result r = cu::success;
  std::uint64_t place = s.put;
  if (with_event->event) {
    place = with_event->place;
    r = target_.api.EventQuery(with_event->event);
  } else {
    target_.enter();
    r = target_.api.StreamQuery(s.handle);
  }
  if (r == cu::not_ready) return;
  if (r != cu::success) [[unlikely]]
    fail(s, r);
  over_until(s, place);
}

bool cuda_streams::done(ticket t) {
  slot* const s = find(t);
  if (!s) return true;
  if (!target_.lost.empty()) [[unlikely]] {
    forget(*s);
    target_.alive();
  }
  if (!s->come) {
    stream& of = all_[s->queue];
    // Not before what was put there before it, which is asked for, too; a wait for this one alone
    // gets on as well.
    constexpr std::uint32_t patient = 64;
    if (of.first != static_cast<std::uint32_t>(t) && ++of.put_off < patient) return false;
    of.put_off = 0;
    try {
      advance(of);
    } catch (...) {
      forget(*s);
      throw;
    }
    if (!s->come) return false;
  }
  took_ = timer_.take(std::exchange(s->timed, 0));
  forget(*s);
  return true;
}

void cuda_streams::come_after(stream& s, ticket t) {
  const slot* before = find(t);
  if (!before || before->come || &all_[before->queue] == &s) return;
  stream& other = all_[before->queue];
  std::uint64_t& known = s.waits_for[before->queue];
  if (before->place <= known) return;
  while (!before->event && before->next) before = &slots_[before->next - 1];
  if (!before->event) mark(other);
  target_.check(target_.api.StreamWaitEvent(s.handle, before->event, 0), "let one stream wait for another");
  known = before->place;
}

// An event of its own: one that is recorded again while another device is yet to be told to wait
// for it might wait for that one.
event_ref cuda_streams::event(ticket t) {
  const slot* const of = find(t);
  if (!of || of->come) return nullptr;
  cu::event e = nullptr;
  {
    const std::lock_guard hold(told_->lock);
    if (!told_->unused.empty()) {
      e = told_->unused.back();
      told_->unused.pop_back();
    }
  }
  if (!e) {
    target_.check(target_.api.EventCreate(&e, cu::event_disable_timing), "make an event");
    const std::lock_guard hold(told_->lock);
    told_->unused.reserve(++told_->made);
  }
  auto made = std::make_shared<told_event>(told_, e);
  target_.check(target_.api.EventRecord(e, all_[of->queue].handle), "record an event for other devices");
  return made;
}

void cuda_streams::come_after_others(stream& s, const event_ref& e) {
  const auto& told = dynamic_cast<const told_event&>(*e);
  target_.check(target_.api.StreamWaitEvent(s.handle, told.handle, 0), "let a stream wait for another device");
}

} // namespace tern::hetero::detail
