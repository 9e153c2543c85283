// SPDX-License-Identifier: Apache-2.0
/// \file
/// What reports say of mobile objects: those that are waited for.
#include <tern/mobile/directory.hpp>

#include <string>

#include <tern/mobile/entry/rank_objects.hpp>
#include <tern/mobile/object/element_name.hpp>
#include <tern/net/report/reporter.hpp>

namespace tern::mobile {
namespace {

constexpr std::size_t listed = 8; // of objects that may be thousands

std::string times(std::size_t n, const char* one, const char* many) {
  return std::to_string(n) + " " + (n == 1 ? one : many);
}
std::string first_of(const invocation_list& list, const char* who) {
  return ", " + times(list.size(), "invocation waits", "invocations wait") + who + ", the first is '" +
         list.front().what->name() + "' of rank " + std::to_string(list.front().to.origin());
}

// Empty if it is not waited for.
std::string describe(const entry& e, net::node& here, const detail::home_table& homes, detail::object_labels& labels) {
  std::string text;
  switch (e.at) {
  case entry::place::gone:
  case entry::place::elsewhere:
  case entry::place::stored:
    break;
  case entry::place::arriving:
    text += ", being unpacked";
    break;
  case entry::place::leaving:
    text += ", being packed";
    break;
  case entry::place::left:
    text += ", sent to rank " + std::to_string(e.where) + ", which has not taken it in";
    break;
  case entry::place::loading:
    text += ", on disk and wanted";
    break;
  case entry::place::here:
    break;
  }
  const std::uint32_t running = e.sharing + e.exclusive;
  const bool released = e.claims > running; // by a function over several objects
  if (e.claims > 0)
    text += e.exclusive && !released
                ? ", claimed for a function over several objects"
                : ", claimed for " + times(e.claims, "function", "functions") + " over several objects";
  if (e.exclusive && e.claims == 0) text += ", an exclusive invocation runs";
  if (!released && e.sharing > e.claims)
    text += ", " + times(e.sharing - e.claims, "shared invocation runs", "shared invocations run");
  if (e.keeps > 0) text += ", " + times(e.keeps, "invocation has", "invocations have") + " tasks that have not ended";
  if (e.unfinished > 0)
    text += ", " + times(e.unfinished, "invocation has", "invocations have") + " released the access";
  if (!e.waiting.empty()) text += first_of(e.waiting, "");
  if (e.coming > 0) text += ", " + times(e.coming, "invocation", "invocations") + " to follow from its last place";
  if (e.travel) {
    const travel_state& t = *e.travel;
    if (!t.moves.empty())
      text += ", " + times(t.moves.size(), "migration waits", "migrations wait") +
              (e.confirmed ? "" : " until rank " + std::to_string(homes.rank_of(e.id)) + " knows that it is here");
    if (!t.held.empty()) text += first_of(t.held, " until it is here");
    if (!t.early.empty()) {
      const invocation& one = *t.early.begin()->second;
      text += ", " + times(t.early.size(), "invocation has", "invocations have") + " overtaken others, the first is '" +
              one.what->name() + "' of rank " + std::to_string(one.to.origin()) + ", number " +
              std::to_string(one.to.number) + " of rank " + std::to_string(one.to.stream);
      for (const stream_state& s : t.streams)
        if (s.rank == one.to.stream) text += " where " + std::to_string(s.expected) + " is due";
    }
    if (!t.after_close.empty()) text += first_of(t.after_close, " until it is known how to send them");
  }
  if (text.empty()) return {};
  std::string called = labels.describe(e.id);
  if (const std::string element = detail::element_name(&here, e.id); !element.empty())
    called += (called.empty() ? "" : ", ") + element;
  return "    object " + to_string(e.id) + (called.empty() ? "" : ", " + called) +
         (e.type ? " (" + e.type->name + ")" : "") +
         (e.at == entry::place::elsewhere ? ", on rank " + std::to_string(e.where) + " as far as known" : "") + text +
         "\n";
}

// What its events wait for.
void describe_events(const entry& e, std::string& text, std::size_t& waiting, std::size_t& untouched) {
  if (!e.extras || !e.extras->events || !e.type) return;
  for (const auto& one : e.extras->events->all()) {
    const std::string missing = detail::describe_missing(*one);
    if (missing.empty()) {
      untouched += !one->spent;
    } else if (++waiting <= listed) {
      text += "    " + detail::describe_event(one->number, detail::event_signals::called(e)) + " " + missing + "\n";
    }
  }
}

} // namespace

std::string directory::describe() {
  std::string text, events;
  std::size_t busy = 0, all = 0, waiting = 0, untouched = 0;
  for (const detail::shard& s : objects_.shards()) {
    tern::detail::owner_lock::visitor lock(s.lock);
    const auto hold = net::try_for_a_while(lock);
    if (!hold) return "  (mobile objects: another thread holds the lock on a part of their list)\n";
    const auto& table = s.entries;
    for (std::size_t i = 0; i < table.capacity(); ++i) {
      const entry* const e = table.at(i);
      if (!e) continue;
      all += e->is_present();
      const std::string line = mobile::describe(*e, node_, objects_.homes(), objects_.labels());
      if (!line.empty() && ++busy <= listed) text += line;
      describe_events(*e, events, waiting, untouched);
    }
  }
  if (waiting > 0)
    events = "  " + times(waiting, "event", "events") + " of mobile objects " +
             (waiting == 1 ? "waits:\n" : "wait:\n") + events +
             (waiting > listed ? "    and " + std::to_string(waiting - listed) + " more\n" : "");
  if (untouched > 0)
    events += "  " + times(untouched, "event", "events") + " of mobile objects " + (untouched == 1 ? "has" : "have") +
              " had no signal\n";
  if (busy == 0) return events;
  return events + "  " + times(all, "mobile object", "mobile objects") + ", of which " + std::to_string(busy) +
         (busy == 1 ? " is waited for:\n" : " are waited for:\n") + text +
         (busy > listed ? "    and " + std::to_string(busy - listed) + " more\n" : "");
}

} // namespace tern::mobile
