// SPDX-License-Identifier: Apache-2.0
/// \file
/// The events of one object.
#include <tern/mobile/entry/event_set.hpp>

#include <algorithm>
#include <cstring>
#include <utility>

#include <tern/mobile/object/element_name.hpp>
#include <tern/net/node.hpp>

namespace tern::mobile::detail {
namespace {

constexpr std::size_t value_alignment = 16;
constexpr std::size_t most_named = 8; // numbers, or runs of them, in a text

// The kinds of the program, the last one first. Before main.
const entered_event_kind*& first_kind() {
  static const entered_event_kind* first = nullptr;
  return first;
}

std::string signal_of(std::uint32_t index, const std::string& event) {
  return "signal " + std::to_string(index) + " of " + event;
}

// "4, 7 and 12", "0 to 3 and 7". \param runs from a first number to a last one.
std::string numbers(const std::vector<std::pair<std::uint32_t, std::uint32_t>>& runs, std::size_t count) {
  std::vector<std::string> items;
  std::size_t named = 0;
  for (const auto& [first, last] : runs) {
    if (items.size() >= most_named) break;
    items.push_back(std::to_string(first));
    if (last == first + 1)
      items.push_back(std::to_string(last));
    else if (last > first)
      items.back() += " to " + std::to_string(last);
    named += last - first + 1;
  }
  if (named < count) items.push_back(std::to_string(count - named) + " more");
  std::string text = items[0];
  for (std::size_t i = 1; i < items.size(); ++i) text += (i + 1 == items.size() ? " and " : ", ") + items[i];
  return text;
}

} // namespace

event_state::event_state() = default;
event_state::~event_state() = default;

entered_event_kind::entered_event_kind(const event_kind& kind) noexcept
    : kind_(kind), next_(std::exchange(first_kind(), this)) {}

const event_kind* entered_event_kind::find(std::uint32_t arms) {
  for (const entered_event_kind* k = first_kind(); k; k = k->next_)
    if (k->kind_.arms->id() == arms) return &k->kind_;
  return nullptr;
}

event_state* event_set::find_among(std::uint32_t number) const noexcept {
  const auto at =
      std::lower_bound(all_.begin(), all_.end(), number, [](const auto& e, std::uint32_t n) { return e->number < n; });
  return at != all_.end() && (*at)->number == number ? at->get() : nullptr;
}

std::uint32_t event_set::add(const event_kind& kind, std::uint32_t size) {
  auto e = std::make_unique<event_state>();
  e->kind = &kind;
  e->number = next_;
  e->size = size;
  all_.push_back(std::move(e));
  return next_++;
}

event_state& event_set::add(const event_kind& kind, const packed_event& p) {
  const auto bad = [&](const char* what) {
    return error(errc::invalid_data, "event " + std::to_string(p.number) + " has come with " + what);
  };
  if (p.size < 1 || p.size > most_signals) throw bad("too many signals");
  if (p.number == 0 || p.number >= next_ || find(p.number)) throw bad("a number that it cannot have");
  if (!p.last.empty() && p.last.size() != p.size) throw bad("signals of too many numbers");
  auto e = std::make_unique<event_state>();
  e->kind = &kind;
  e->number = p.number;
  e->size = p.size;
  e->round = p.round;
  e->armed = p.armed;
  e->spent = (p.spent & 1) != 0;
  e->busy = (p.spent & 2) != 0;
  e->last = p.last;
  for (const packed_signal& s : p.signals) {
    if (s.index >= e->size || s.round < e->round || s.rank < 0) throw bad("a signal that it cannot have");
    event_round& r = s.round == e->round ? e->now : e->early[s.round];
    if (r.places.empty()) r.places.resize(e->size);
    if (r.places[s.index].rank >= 0) throw bad("a signal twice");
    signal_content content{s.index, s.type, byte_buffer::copy_of(s.bytes), {}};
    take(r, {s.from, e->number, s.round, s.index, e->size, s.type, 0}, s.rank, content);
  }
  const auto at = std::lower_bound(all_.begin(), all_.end(), p.number,
                                   [](const auto& one, std::uint32_t n) { return one->number < n; });
  return **all_.insert(at, std::move(e));
}

bool event_set::rearm(std::uint32_t number, std::uint32_t round) {
  event_state* const e = find(number);
  if (!e) return false;
  e->armed = std::max(e->armed, round + 1);
  if (e->spent && e->armed > e->round) {
    e->spent = false;
    ++e->round;
    if (const auto next = e->early.find(e->round); next != e->early.end()) {
      e->now = std::move(next->second);
      e->early.erase(next);
    }
  }
  return true;
}

std::optional<event_firing> event_set::fire(event_state& e) {
  if (e.spent || e.busy || e.now.given < e.size) return {};
  event_firing f{e.kind, e.number, e.round, {}};
  f.with.given = e.now.given;
  f.with.last = e.now.last;
  f.with.contents = std::move(e.now.contents);
  e.now.contents.clear();
  if (e.kind->takes_signals) f.with.places = e.now.places;
  e.last.swap(e.now.places); // the memory of the round before is for the next
  e.now.given = 0;
  e.busy = e.kind->objects != nullptr;
  std::fill(e.now.places.begin(), e.now.places.end(), signal_place{});
  if (e.armed == e.round) {
    e.spent = true;
    return f;
  }
  ++e.round;
  if (const auto next = e.early.find(e.round); next != e.early.end()) {
    e.now = std::move(next->second);
    e.early.erase(next);
  }
  return f;
}

void event_set::ended(std::uint32_t number, std::uint32_t round) noexcept {
  const event_state* const e = find(number);
  if (e && e->spent && e->round == round && e->early.empty()) erase(number);
}

event_state* event_set::ended_with_objects(std::uint32_t number, std::uint32_t round) noexcept {
  event_state* const e = find(number);
  if (!e || !e->busy || round != (e->spent ? e->round : e->round - 1)) return nullptr;
  e->busy = false;
  if (!e->spent || e->round != round || !e->early.empty()) return e;
  erase(number);
  return nullptr;
}

void event_set::erase(std::uint32_t number) noexcept {
  std::erase_if(all_, [&](const auto& e) { return e->number == number; });
}

// Texts ---------------------------------------------------------------------------------------------------------------

error event_set::refuse_rearm(std::uint32_t number, const std::string& called) const {
  return error(errc::not_found,
               describe_event(number, called) + (number > 0 && number < next_
                                                     ? " cannot be rearmed: it has fired, and the function has returned"
                                                     : " cannot be rearmed: it was never made"),
               "rearm an event before it fires, or within the function that it runs");
}

error event_set::refuse(const event_note& s, int rank, const std::string& called) const {
  const std::string event = describe_event(s.number, called);
  const event_state* const e = find(s.number);
  if (s.number >= next_ || s.number == 0)
    return error(errc::invalid_argument, event + " was never made", "signal what make_event has given");
  if (e && s.index >= e->size)
    return error(errc::invalid_argument,
                 signal_of(s.index, event) + " was given, which has " + std::to_string(e->size) + " signals");
  if (e && !fits(*e, s))
    return error(errc::invalid_argument,
                 signal_of(s.index, event) + " brings a pointer to another class than its function takes",
                 "convert the pointer: tern::mobile_ptr<base>(pointer)");
  const signal_place now{s.from, rank, 0};
  const char* const hint = "give each number once in a round; signal e.next_round() for the next one";
  const std::vector<signal_place>* before = nullptr;
  if (e && s.round == e->round && !e->spent)
    before = &e->now.places;
  else if (e && s.round > e->round)
    before = &e->early.at(s.round).places;
  else if (e && s.round + (e->spent ? 0 : 1) == e->round && !e->last.empty())
    before = &e->last;
  const std::string second = signal_of(s.index, event) + " was given twice";
  const std::string in_round = s.round > 0 ? " in round " + std::to_string(s.round) : "";
  if (before && before->size() > s.index && (*before)[s.index].rank >= 0)
    return error(errc::already_exists,
                 second + in_round + ": by " + describe_place((*before)[s.index]) + " and by " + describe_place(now),
                 hint);
  return error(errc::already_exists,
               second + in_round + ": by " + describe_place(now) + ", and before the event had fired", hint);
}

std::string describe_place(const signal_place& p) {
  std::string text = "rank " + std::to_string(p.rank);
  if (!p.from) return text;
  const std::string element = element_name(net::node::current(), p.from);
  return text + " from " + (element.empty() ? "object " + to_string(p.from) : element);
}

std::string describe_event(std::uint32_t number, const std::string& called) {
  return "event " + std::to_string(number) + " of " + called;
}

std::string describe_missing(const event_state& e) {
  if (e.spent) {
    if (e.early.empty()) return {};
    return "has signals of round " + std::to_string(e.early.begin()->first) + " and was not rearmed after round " +
           std::to_string(e.round);
  }
  if (!e.has_signals()) return {};
  std::vector<std::pair<std::uint32_t, std::uint32_t>> runs;
  const auto& places = e.now.places;
  for (std::uint32_t i = 0; i < e.size; ++i) {
    if (!places.empty() && places[i].rank >= 0) continue;
    if (!runs.empty() && runs.back().second + 1 == i)
      runs.back().second = i;
    else
      runs.emplace_back(i, i);
  }
  const std::size_t count = e.size - e.now.given;
  if (count == 0)
    return "has all signals of round " + std::to_string(e.round) + ", and the function of the round before runs";
  return "waits for " + std::string(count == 1 ? "signal " : "signals ") + numbers(runs, count) +
         (e.round > 0 ? " of round " + std::to_string(e.round) : "");
}

// What fired ----------------------------------------------------------------------------------------------------------

fired_signals::fired_signals(const event_round& of) {
  slots.resize(of.places.size());
  for (std::size_t i = 0; i < slots.size(); ++i) slots[i].rank = of.places[i].rank;
  std::size_t bytes = 0;
  for (const signal_content& c : of.contents) {
    fired_slot& s = slots[c.index];
    s.type = c.type;
    s.bytes = c.bytes.size();
  }
  for (fired_slot& s : slots) {
    s.begin = bytes;
    bytes += (static_cast<std::size_t>(s.bytes) + value_alignment - 1) / value_alignment * value_alignment;
  }
  values.resize(bytes);
  for (const signal_content& c : of.contents)
    if (!c.bytes.empty()) std::memcpy(values.data() + slots[c.index].begin, c.bytes.data(), c.bytes.size());
}

std::span<const std::byte> fired_signals::bytes_of(std::size_t i, std::uint32_t type, const std::string& wanted) const {
  const fired_slot& s = slots.at(i);
  if (s.type == 0)
    throw error(errc::not_found,
                "signal " + std::to_string(i) + " of rank " + std::to_string(s.rank) + " has brought no value, and a " +
                    wanted + " was asked for",
                "ask has_value first");
  if (s.type != type)
    throw error(errc::invalid_argument,
                "signal " + std::to_string(i) + " of rank " + std::to_string(s.rank) + " has not brought a " + wanted +
                    ", but a value of another type",
                "ask for the type that was given to tern::signal");
  if (s.begin + s.bytes > values.size())
    throw error(errc::invalid_data, "the value of signal " + std::to_string(i) + " lies outside of its message");
  return std::span(values).subspan(static_cast<std::size_t>(s.begin), static_cast<std::size_t>(s.bytes));
}

named_objects::named_objects(object_id target_id, const fired_signals& in) : places(in.slots.size(), none) {
  std::vector<std::pair<std::uint64_t, std::uint32_t>> by_id; // and signal
  for (std::uint32_t i = 0; i < in.slots.size(); ++i) {
    const std::uint32_t type = in.slots[i].type;
    if ((type & brings_object) == 0) continue;
    const auto bytes = in.bytes_of(i, type, "pointer");
    std::uint64_t bits = 0;
    if (bytes.size() != sizeof bits)
      throw error(errc::invalid_data, "signal " + std::to_string(i) + " brings an object without its name");
    std::memcpy(&bits, bytes.data(), sizeof bits);
    if (bits == target_id.bits) {
      places[i] = 0;
      target = true;
    } else if (bits != 0) {
      by_id.emplace_back(bits, i);
    }
  }
  std::sort(by_id.begin(), by_id.end());
  for (const auto& [bits, i] : by_id) {
    if (others.empty() || others.back().bits != bits) others.push_back(object_id(bits));
    places[i] = static_cast<std::uint32_t>(others.size());
  }
}

} // namespace tern::mobile::detail
