// SPDX-License-Identifier: Apache-2.0
#include <tern/trace/merge/painter.hpp>

#include <algorithm>
#include <bit>
#include <map>
#include <utility>

namespace tern::trace::detail {
namespace {

// A slice in which more text than this happened is written as a beginning and an end, else as one
// event.
constexpr std::size_t most_held = 8192;
constexpr std::uint64_t flow_mask = (std::uint64_t{1} << flow_bits) - 1;
constexpr std::uint64_t name_mask = (std::uint64_t{1} << 24) - 1;

const char* category(event what) noexcept {
  switch (what) {
  case event::fiber_enters:
    return "fiber";
  case event::tasklets_begin:
    return "tasklets";
  case event::parks:
    return "idle";
  case event::handler_begins:
    return "handler";
  case event::kernel_begins:
    return "kernel";
  case event::copy_begins:
    return "copy";
  default:
    return "region";
  }
}

} // namespace

painter::painter(canvas& on, const part& from) : on_(on), part_(from) {
  std::map<std::pair<int, int>, std::uint32_t> seen; // a worker may have had a track more than once
  for (const part::track& t : from.tracks()) {
    const auto [it, fresh] = seen.try_emplace({t.rank, t.worker}, static_cast<std::uint32_t>(tracks_.size()));
    if (fresh) {
      tracks_.emplace_back();
      tracks_.back().rank = t.rank;
      tracks_.back().where = "\"pid\":" + std::to_string(shown(t.rank)) + ",\"tid\":" + std::to_string(shown(t.worker));
    }
    which_.push_back(it->second);
  }
  for (const auto& [object, number] : from.objects()) on.object_names[object] = name(number);
}

const std::string& painter::name(std::uint32_t number) const noexcept {
  const auto& names = part_.names();
  return names[number < names.size() ? number : 0];
}

std::string_view painter::name(const slice& s) const noexcept {
  if (s.what == event::parks) return "\"parked\"";
  if (s.what == event::tasklets_begin) return "\"tasklets\"";
  if (s.what == event::fiber_enters && s.name == 0) return "\"fiber\"";
  return name(s.name);
}

// Numbers of fibers repeat between the ranks of a process.
std::uint64_t painter::key(const track& t, std::uint64_t fiber) noexcept {
  return fiber ^ static_cast<std::uint64_t>(t.rank) << 40;
}
painter::fiber_state* painter::find(const track& t, std::uint64_t fiber) {
  const auto it = fibers_.find(key(t, fiber));
  return it == fibers_.end() ? nullptr : &it->second;
}
painter::fiber_state& painter::state(const track& t, std::uint64_t fiber, std::uint32_t on) {
  fiber_state& f = fibers_[key(t, fiber)];
  f.on = on;
  return f;
}

// Lines --------------------------------------------------------------------------------------------------------------

lines& painter::line(const char* phase, const track& t, std::int64_t ts) {
  line_.clear();
  line_ << ",\n{\"ph\":\"" << phase << "\"," << t.where << ",\"ts\":";
  return line_.time(ts);
}

void painter::emit(track& t) {
  ++on_.events;
  if (t.open.empty() || t.open.back().written) {
    on_.write(line_);
    return;
  }
  t.held << line_.text();
  if (t.held.text().size() > most_held) write_begin(t, t.open.back());
}

// As people see it: "grid#1:17", the seventeenth object of rank 1; or what the program calls it,
// and that.
void painter::append_object(std::uint32_t type, std::uint64_t object) {
  std::string_view of = name(type);
  of.remove_suffix(1); // the quote
  const auto called = on_.object_names.find(object);
  if (called != on_.object_names.end()) {
    line_ << std::string_view(called->second).substr(0, called->second.size() - 1) << " (";
    of.remove_prefix(1);
  }
  line_ << of << '#' << (object >> object_bits) << ':' << (object & ((std::uint64_t{1} << object_bits) - 1))
        << (called != on_.object_names.end() ? ")\"" : "\"");
}

void painter::begin_arguments(slice& s, bool& any) {
  if (s.what == event::kernel_begins && s.predicted > 0) {
    line_ << ",\"args\":{\"predicted\":";
    line_.time(s.predicted);
    any = true;
    return;
  }
  if (s.what == event::copy_begins) {
    line_ << ",\"args\":{\"bytes\":" << s.bytes;
    if (s.of != 0) line_ << ",\"of\":" << name(s.of);
    any = true;
    return;
  }
  if (s.fiber == 0 || s.what == event::parks) return;
  line_ << ",\"args\":{\"" << (s.what == event::handler_begins ? "from" : "fiber")
        << "\":" << s.fiber - (s.what == event::handler_begins ? 1 : 0);
  any = true;
  if (s.object == 0) return;
  line_ << ",\"object\":";
  append_object(s.type, s.object);
  s.object_told = true;
}

void painter::write_begin(track& t, slice& s) {
  line("B", t, s.begin) << ",\"name\":" << name(s) << ",\"cat\":\"" << category(s.what) << '"';
  bool any = false;
  begin_arguments(s, any);
  line_ << (any ? "}}" : "}");
  ++on_.events;
  on_.write(line_);
  on_.write(t.held);
  t.held.clear();
  s.written = true;
}

void painter::begin(track& t, slice s) {
  if (!t.open.empty() && !t.open.back().written) write_begin(t, t.open.back());
  t.open.push_back(s);
}

// The innermost slice ends. `why` is an argument, JSON.
void painter::finish(track& t, std::int64_t ts, std::string_view why) {
  // A complete slice is over at its last nanosecond already: an arrow in that would have nothing to
  // lead to. Where time is virtual, whole handlers take none.
  if (slice& top = t.open.back(); !top.written && !t.held.text().empty() && t.last_arrow >= ts) write_begin(t, top);
  slice s = t.open.back();
  t.open.pop_back();
  bool any = false;
  ++on_.events;
  if (s.written) {
    line("E", t, ts);
  } else {
    line("X", t, s.begin) << ",\"dur\":";
    line_.time(ts - s.begin) << ",\"name\":" << name(s) << ",\"cat\":\"" << category(s.what) << '"';
    begin_arguments(s, any);
  }
  const auto next = [&]() -> lines& { return line_ << (std::exchange(any, true) ? "," : ",\"args\":{"); };
  if (s.object != 0 && !s.object_told) {
    next() << "\"object\":";
    append_object(s.type, s.object);
  }
  if (!why.empty()) next() << why;
  line_ << (any ? "}}" : "}");
  on_.write(line_);
  on_.write(t.held);
  t.held.clear();
}

void painter::finish_down_to(track& t, std::size_t depth, std::int64_t ts) {
  while (t.open.size() > depth) finish(t, ts);
}

// Ends the innermost slice of that kind and what is inside it. \return false if there is none.
bool painter::finish_kind(track& t, event what, std::int64_t ts, std::string_view why) {
  for (std::size_t i = t.open.size(); i-- > 0;)
    if (t.open[i].what == what) {
      finish_down_to(t, i + 1, ts);
      finish(t, ts, why);
      return true;
    }
  return false;
}

void painter::region_line(const char* phase, track& t, std::int64_t ts, std::uint64_t fiber, std::uint32_t region) {
  line(phase, t, ts) << ",\"id\":\"r" << t.rank << 'f' << fiber << "\",\"cat\":\"region\",\"name\":" << name(region);
}

void painter::moment(track& t, std::int64_t ts, std::string_view what, const char* kind, const char* scope) {
  line("i", t, ts) << ",\"s\":\"" << scope << "\",\"name\":" << what << ",\"cat\":\"" << kind << '"';
}

// Fibers -------------------------------------------------------------------------------------------------------------

void painter::enter_fiber(track& t, const record& r, std::int64_t ts, std::uint32_t on) {
  if (!t.open.empty() && t.open.back().what == event::fiber_enters && t.open.back().fiber == r.b &&
      !t.open.back().written) { // it is there, and has got another name
    t.open.back().name = r.a;
    return;
  }
  finish_kind(t, event::parks, ts);        // what would have ended these was lost
  finish_kind(t, event::fiber_enters, ts); // with what is inside it
  finish_kind(t, event::tasklets_begin, ts);
  begin(t, {event::fiber_enters, r.a, r.b, ts});
  if (fiber_state* f = find(t, r.b)) {
    f->on = on;
    if (r.c != 0) f->object = 0; // it begins: what was known is of an earlier one
    t.open.back().type = f->type;
    t.open.back().object = f->object;
    if (std::exchange(f->tasklets, false)) begin(t, {event::tasklets_begin, 0, r.b, ts});
  }
}

void painter::leave_fiber(track& t, const record& r, event what, std::int64_t ts, std::uint32_t on) {
  const auto inside =
      std::find_if(t.open.rbegin(), t.open.rend(), [](const slice& s) { return s.what == event::fiber_enters; });
  if (what == event::fiber_ends) {
    if (const auto it = fibers_.find(key(t, r.b)); it != fibers_.end()) {
      for (; !it->second.regions.empty(); it->second.regions.pop_back()) { // their ends were lost
        region_line("e", t, ts, r.b, it->second.regions.back());
        line_ << '}';
        emit(t);
      }
      fibers_.erase(it);
    }
  }
  if (inside == t.open.rend()) return; // its beginning was lost
  if (what != event::fiber_ends &&
      std::any_of(t.open.rbegin(), inside, [](const slice& s) { return s.what == event::tasklets_begin; }))
    state(t, r.b, on).tasklets = true;
  why_.clear();
  if (what == event::fiber_ends) {
    why_ << "\"left\":\"ended\"";
  } else if (what == event::fiber_yields) {
    why_ << "\"left\":\"yielded\"";
  } else {
    why_ << "\"waits for\":" << name(r.a);
    if (r.c != 0) (why_ << ",\"on\":").hex(r.c);
  }
  finish_kind(t, event::fiber_enters, ts, why_.text());
}

// At most one slice is open on a device's track.
void painter::end_on_device(track& t, std::int64_t ts, bool failed) {
  const std::string_view why = failed ? "\"failed\":true" : "";
  if (!finish_kind(t, event::kernel_begins, ts, why)) finish_kind(t, event::copy_begins, ts, why);
}

void painter::end_region(track& t, const record& r, std::int64_t ts) {
  if (r.b == 0) { // outside fibers they are slices of the thread
    for (std::size_t i = t.open.size(); i-- > 0;)
      if (t.open[i].what == event::region_begins && t.open[i].name == r.a) {
        finish_down_to(t, i, ts);
        return;
      }
    return;
  }
  fiber_state* const f = find(t, r.b);
  if (!f) return;
  const auto begun = std::find(f->regions.rbegin(), f->regions.rend(), r.a);
  if (begun == f->regions.rend()) return; // its beginning was lost
  const auto depth = static_cast<std::size_t>(f->regions.rend() - begun) - 1;
  for (; f->regions.size() > depth; f->regions.pop_back()) {
    region_line("e", t, ts, r.b, f->regions.back());
    line_ << '}';
    emit(t);
  }
  if (f->is_empty()) fibers_.erase(key(t, r.b));
}

// Objects ------------------------------------------------------------------------------------------------------------

void painter::work_on(track& t, std::uint32_t type, std::uint64_t object, std::uint32_t on) {
  const auto inner = std::find_if(t.open.rbegin(), t.open.rend(), [](const slice& s) {
    return s.what == event::fiber_enters || s.what == event::handler_begins;
  });
  if (inner == t.open.rend()) return; // its beginning was lost
  inner->type = type;
  inner->object = object;
  if (inner->what != event::fiber_enters) return;
  fiber_state& f = state(t, inner->fiber, on); // when it goes on it still works on that
  f.type = type;
  f.object = object;
}

void painter::depart(track& t, const record& r, std::int64_t ts) {
  moment(t, ts, "\"migration\"", "migration", "t");
  line_ << ",\"args\":{\"object\":";
  append_object(static_cast<std::uint32_t>(r.c & name_mask), r.b);
  line_ << ",\"from\":" << t.rank << ",\"to\":" << static_cast<std::int32_t>(r.a) << ",\"bytes\":" << (r.c >> 24)
        << "}}";
  emit(t);
}

void painter::land(track& t, const record& r, std::uint32_t on) {
  const auto type = static_cast<std::uint32_t>(r.c & name_mask);
  work_on(t, type, r.b, on);
  canvas::moves& of = on_.moved[name(type)];
  ++of.number;
  of.bytes += r.c >> 24;
}

// The old message's arrow ends here; `sends` begins that of the new one.
void painter::forward(track& t, const record& r, std::int64_t ts) {
  ++on_.forwarded;
  if ((r.b & was_handled) != 0) {
    on_.handled -= on_.handled > 0; // the record of that may be lost
  } else {
    const auto from = static_cast<std::int32_t>(r.a);
    flow(t, "f", from, whole_number(from, r.b & flow_mask), ts, nullptr);
  }
  moment(t, ts, "\"forwarded\"", "forwarded", "t");
  line_ << ",\"args\":{\"object\":";
  append_object(static_cast<std::uint32_t>(r.b >> 32), r.c);
  line_ << ",\"from\":" << static_cast<std::int32_t>(r.a) << "}}";
  emit(t);
}

// Messages -----------------------------------------------------------------------------------------------------------

// A message carries its number's lowest bits; it is the one of that kind which is nearest to its
// sender's latest.
std::uint64_t painter::whole_number(int from, std::uint64_t low) const {
  const auto it = on_.latest_message.find(from);
  const std::uint64_t latest = it == on_.latest_message.end() ? 0 : it->second;
  std::uint64_t n = (latest & ~flow_mask) | low;
  if (n > latest && n - latest > flow_mask / 2 && n > flow_mask) n -= flow_mask + 1;
  if (n < latest && latest - n > flow_mask / 2) n += flow_mask + 1;
  return n;
}

void painter::flow(track& t, const char* phase, int from, std::uint64_t number, std::int64_t ts, const record* sent) {
  if (t.open.empty() || t.open.back().what == event::parks) { // arrows lead from slices to slices
    line("X", t, ts) << ",\"dur\":0.001,\"name\":\"" << (sent ? "send" : "arrival") << "\",\"cat\":\"message\"}";
    emit(t);
    last_ = std::max(last_, t.last = ts + 1);
  }
  t.last_arrow = ts;
  line(phase, t, ts) << ",\"id\":";
  line_.hex(static_cast<std::uint64_t>(from) << 40 ^ number) << ",\"cat\":\"message\",\"name\":\"message\"";
  if (*phase == 'f') line_ << ",\"bp\":\"e\"";
  if (sent)
    line_ << ",\"args\":{\"to\":" << static_cast<std::int32_t>(sent->a) << ",\"bytes\":" << (sent->c >> 24)
          << ",\"handler\":" << name(static_cast<std::uint32_t>(sent->c & name_mask)) << '}';
  line_ << '}';
  emit(t);
}

// --------------------------------------------------------------------------------------------------------------------

bool painter::paint(const record& r, std::int64_t ns) {
  const std::uint32_t number = r.kind_track & no_track, kind = r.kind_track >> 24;
  if (number >= which_.size() || kind == 0 || kind >= static_cast<std::uint32_t>(event::count_)) return false;
  const std::uint32_t on = which_[number];
  track& t = tracks_[on];
  const std::int64_t ts = t.last = std::max(ns, t.last);
  last_ = std::max(last_, ts);
  switch (const event what = static_cast<event>(kind)) {
  case event::fiber_enters:
    enter_fiber(t, r, ts, on);
    break;
  case event::fiber_ends:
  case event::fiber_yields:
  case event::fiber_waits:
    leave_fiber(t, r, what, ts, on);
    break;
  case event::tasklets_begin: {
    const std::uint64_t fiber = !t.open.empty() && t.open.back().what == event::fiber_enters ? t.open.back().fiber : 0;
    begin(t, {what, 0, fiber, ts});
    break;
  }
  case event::tasklets_end:
    why_.clear();
    why_ << "\"tasklets\":" << r.b;
    finish_kind(t, event::tasklets_begin, ts, why_.text());
    break;
  case event::parks:
    finish_kind(t, event::parks, ts);
    begin(t, {what, 0, 0, ts});
    break;
  case event::wakes:
    finish_kind(t, event::parks, ts);
    break;
  case event::steals:
    moment(t, ts, "\"steal\"", "steal", "t");
    line_ << ",\"args\":{\"tasklets\":" << r.b << "}}";
    emit(t);
    break;
  case event::sends: {
    ++on_.sent;
    std::uint64_t& latest = on_.latest_message[t.rank];
    latest = std::max(latest, r.b);
    flow(t, "s", t.rank, r.b, ts, &r);
    break;
  }
  case event::arrives: {
    const auto from = static_cast<std::int32_t>(r.a);
    flow(t, "t", from, whole_number(from, r.b & flow_mask), ts, nullptr);
    break;
  }
  case event::handler_begins: {
    ++on_.handled;
    const auto from = static_cast<std::int32_t>(r.a);
    const bool in_fiber =
        std::any_of(t.open.begin(), t.open.end(), [](const slice& s) { return s.what == event::fiber_enters; });
    if (!in_fiber) // a fiber of its own has the handler's name
      begin(t, {what, static_cast<std::uint32_t>(r.c), static_cast<std::uint64_t>(from) + 1, ts});
    flow(t, "f", from, whole_number(from, r.b & flow_mask), ts, nullptr);
    break;
  }
  case event::handler_ends:
    finish_kind(t, event::handler_begins, ts);
    break;
  case event::region_begins:
    if (r.b == 0) {
      begin(t, {what, r.a, 0, ts});
      break;
    }
    state(t, r.b, on).regions.push_back(r.a);
    region_line("b", t, ts, r.b, r.a);
    line_ << ",\"args\":{\"fiber\":" << r.b << "}}";
    emit(t);
    break;
  case event::region_ends:
    end_region(t, r, ts);
    break;
  case event::kernel_begins:
  case event::copy_begins: {
    end_on_device(t, ts, false); // the record of that was lost
    slice s{what, r.a, 0, ts};
    if (what == event::kernel_begins) s.predicted = static_cast<std::int64_t>(r.b);
    if (what == event::copy_begins) {
      s.bytes = r.b;
      s.of = static_cast<std::uint32_t>(r.c & name_mask);
    }
    begin(t, s);
    break;
  }
  case event::device_ends:
    end_on_device(t, ts, r.b != 0);
    break;
  case event::on_object:
    work_on(t, r.a, r.b, on);
    break;
  case event::departs:
    depart(t, r, ts);
    break;
  case event::lands:
    land(t, r, on);
    break;
  case event::forwards:
    forward(t, r, ts);
    break;
  case event::counts: // of the rank, in the order of all its workers: not held with a slice
    line_.clear();
    line_ << ",\n{\"ph\":\"C\",\"pid\":" << shown(t.rank) << ",\"ts\":";
    line_.time(ts) << ",\"name\":" << name(r.a) << ",\"args\":{\"value\":";
    line_.real(std::bit_cast<double>(r.b)) << "}}";
    ++on_.events;
    on_.write(line_);
    break;
  case event::happens:
    moment(t, ts, name(r.a), "instant", "t");
    line_ << '}';
    emit(t);
    break;
  case event::crash:
    cut_off("\"cut off\":\"the rank crashed\"", &t, ts);
    [[fallthrough]];
  case event::fault:
    moment(t, t.last, name(r.a), what == event::fault ? "fault" : "crash", "p");
    line_ << '}';
    emit(t);
    break;
  default:
    return false;
  }
  return true;
}

// Ends all that is open, or all of one rank.
void painter::cut_off(std::string_view why, const track* one, std::int64_t ts) {
  const bool all = !one;
  const int rank = all ? 0 : one->rank;
  for (auto it = fibers_.begin(); it != fibers_.end();) {
    track& t = tracks_[it->second.on];
    if (!all && t.rank != rank) {
      ++it;
      continue;
    }
    t.last = std::max(t.last, ts);
    for (auto& regions = it->second.regions; !regions.empty(); regions.pop_back()) {
      region_line("e", t, t.last, key(t, it->first), regions.back()); // the key of a key is the number
      line_ << ",\"args\":{" << why << "}}";
      emit(t);
    }
    it = fibers_.erase(it);
  }
  for (track& t : tracks_) {
    if (!all && t.rank != rank) continue;
    t.last = std::max(t.last, ts);
    while (!t.open.empty()) finish(t, t.last, why);
  }
}

void painter::end() {
  cut_off("\"cut off\":\"the record ends here\"", nullptr, last_);
  on_.last = std::max(on_.last, last_);
}

} // namespace tern::trace::detail
