// SPDX-License-Identifier: Apache-2.0
#include "property.hpp"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <exception>
#include <sstream>
#include <utility>

#include <tern/base/error.hpp>
#include <tern/base/log.hpp>
#include <tern/net/job/settings.hpp>
#include <tern/net/runtime.hpp>
#include <tern/task/fiber.hpp>
#include <tern/task/sim.hpp>

#include "bugs.hpp"
#include "harness.hpp"

namespace tern::property {
namespace {

std::uint64_t mix(std::uint64_t x) noexcept {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

std::vector<detail::fresh*>& all_fresh() {
  static std::vector<detail::fresh*> list;
  return list;
}
std::vector<const option_knob*>& option_knobs() {
  static std::vector<const option_knob*> list;
  return list;
}
std::vector<const declaration*>& declared() {
  static std::vector<const declaration*> list;
  return list;
}

// The case that runs in this process.
struct running {
  const test_case& what;
  const std::function<void(const verdict&)>& report;
  std::vector<dice> ranks;
  std::vector<std::function<void(const ending&)>> after;
  verdict out;
};
running* now = nullptr;

running& here() {
  if (!now) throw error(errc::invalid_state, "no case runs", "this is for a property's body and its handlers");
  return *now;
}

void note(const std::string& kind, const std::string& text) {
  running& r = here();
  if (r.out.failed) return;
  r.out.failed = true;
  r.out.kind = kind;
  r.out.text = text;
  const sim::outside_world writes;
  r.report(r.out);
}

std::string rank_and_time() {
  if (!sim::active()) return "after the job";
  std::ostringstream text;
  text << "on rank " << rank() << " at " << std::chrono::duration<double>(fiber_clock::now().time_since_epoch()).count()
       << " s";
  return text.str();
}

std::string text_of(const std::exception_ptr& e) {
  try {
    std::rethrow_exception(e);
  } catch (const std::exception& x) {
    return x.what();
  } catch (...) {
    return "something that is no std::exception";
  }
}

// Texts of cases ------------------------------------------------------------------------------------------------------

std::optional<std::int64_t> number(std::string_view text) {
  std::int64_t n = 0;
  const auto end = std::from_chars(text.data(), text.data() + text.size(), n);
  if (end.ec != std::errc() || end.ptr != text.data() + text.size()) return std::nullopt;
  return n;
}

std::vector<std::string> split(std::string_view text, char at) {
  std::vector<std::string> parts;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(at), text.size());
    if (end > 0) parts.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parts;
}

std::optional<range> read_range(const std::string& text) {
  const std::size_t dots = text.find("..");
  const auto least = number(std::string_view(text).substr(0, dots));
  const auto most = dots == std::string::npos ? least : number(std::string_view(text).substr(dots + 2));
  if (!least || !most || *least > *most) return std::nullopt;
  return range{*least, *most};
}

std::int64_t draw(const range& r, dice& d) {
  const double wide = static_cast<double>(r.most - r.least + 1);
  switch (d.below(8)) {
  case 0:
    return r.least;
  case 1:
    return r.most;
  case 2:
    return d.between(r.least, r.most);
  default:
    return std::min(r.most, r.least + static_cast<std::int64_t>(std::pow(wide, d.part())) - 1);
  }
}

double draw_between(double least, double most, dice& d) { return least * std::pow(most / least, d.part()); }

void draw_network(sim::world& w, dice& d) {
  static const std::vector<const char*> topologies{"flat", "flat", "fat-tree:4:4:4", "dragonfly:2:4:2"};
  auto& n = w.network;
  if (d.chance(0.5)) n.latency = draw_between(1e-7, 1e-4, d);
  if (d.chance(0.5)) n.overhead = d.chance(0.3) ? 0 : draw_between(1e-8, 1e-5, d);
  if (d.chance(0.3)) n.bandwidth = draw_between(1e7, 1e11, d);
  if (d.chance(0.3)) n.jitter = d.chance(0.3) ? 0 : 2 * d.part();
  if (d.chance(0.3)) n.host = static_cast<int>(d.between(1, 4));
  n.topology = topologies[static_cast<std::size_t>(d.below(static_cast<std::int64_t>(topologies.size())))];
  try {
    check(w);
  } catch (const error&) { // too many ranks for it
    n.topology = "flat";
  }
}

void draw_fault(const std::string& word, sim::world& w, dice& d) {
  if (word == "delay") w.faults.delay = d.chance(0.5) ? sim::default_delay : draw_between(1e-7, 1e-3, d);
  if (word == "reorder") w.faults.reorder = d.chance(0.5) ? sim::default_reorder : draw_between(1e-7, 1e-4, d);
  if (word == "slow") w.faults.slow.emplace_back();
  if (word == "pause") w.faults.pause.resize(static_cast<std::size_t>(d.between(1, 3)));
  if (word == "crash") w.faults.crash.emplace_back();
}

} // namespace

// For bodies and handlers ---------------------------------------------------------------------------------------------

namespace {
const char* wanted_bug = nullptr; // set before a case's threads begin
}
bool is_wanted(const char* bug) noexcept { return wanted_bug && std::string_view(bug) == wanted_bug; }
void want_bug(const char* bug) noexcept { wanted_bug = bug; }

std::uint64_t dice::next() noexcept { return mix(state_ += 0x9e3779b97f4a7c15ull); }
std::int64_t dice::below(std::int64_t n) noexcept {
  return static_cast<std::int64_t>(next() % static_cast<std::uint64_t>(n)); // the ranges are small
}

std::int64_t knob(std::string_view name) {
  const auto& knobs = here().what.knobs;
  const auto it = knobs.find(std::string(name));
  if (it == knobs.end()) throw error(errc::not_found, "the property has no knob '" + std::string(name) + "'");
  return it->second;
}

const sim::world& the_world() { return here().what.world; }
dice& rolls() { return here().ranks.at(static_cast<std::size_t>(rank())); }
dice common(std::uint64_t which) { return dice(mix(here().what.world.seed) + mix(~which)); }

void take_time() {
  using namespace std::chrono_literals;
  dice& d = rolls();
  switch (d.below(8)) {
  case 0:
    this_fiber::yield();
    break;
  case 1:
    sim::charge(5e-6 * d.part());
    break;
  case 2:
    this_fiber::sleep_for(d.below(20'000) * 1ns);
    break;
  default:
    break;
  }
}

void afterwards(std::function<void(const ending&)> check) { here().after.push_back(std::move(check)); }

option_knob::option_knob(const char* n, void (*s)(options&, std::int64_t)) : name(n), set(s) {
  option_knobs().push_back(this);
}

detail::fresh::fresh() { all_fresh().push_back(this); }

void fail(const char* file, int line, const std::string& what) {
  const std::string_view path(file);
  const std::size_t slash = path.rfind('/');
  note("check", std::string(slash == path.npos ? path : path.substr(slash + 1)) + ":" + std::to_string(line) + ": " +
                    what + ", " + rank_and_time());
}

// For the program -----------------------------------------------------------------------------------------------------

declaration::declaration(const char* n, const char* c, void (*b)()) : name(n), cases(c), body(b) {
  declared().push_back(this);
}
const std::vector<const declaration*>& declarations() { return declared(); }

plan plan_of(const declaration& d) {
  const auto bad = [&](const std::string& word, const std::string& what) {
    return error(errc::invalid_argument, std::string("property '") + d.name + "': '" + word + "' " + what);
  };
  plan p;
  p.name = d.name;
  p.body = d.body;
  bool ranks = false;
  for (const std::string& word : split(d.cases, ' ')) {
    const std::size_t equals = word.find('=');
    if (equals == std::string::npos || equals == 0) throw bad(word, "is not WORD=VALUE");
    const std::string name = word.substr(0, equals), value = word.substr(equals + 1);
    if (name == "faults") {
      for (const std::string& fault : split(value, ':')) {
        if (fault != "delay" && fault != "reorder" && fault != "slow" && fault != "pause" && fault != "crash")
          throw bad(word, "has a fault that does not exist: " + fault);
        p.faults.push_back(fault);
      }
    } else if (name == "network") {
      if (value != "any") throw bad(word, "should be network=any");
      p.any_network = true;
    } else if (name == "deadlock") {
      if (value != "allowed") throw bad(word, "should be deadlock=allowed");
      p.deadlock_allowed = true;
    } else {
      const auto r = read_range(value);
      if (!r) throw bad(word, "is no range such as 1..8");
      if ((name == "ranks" || name == "workers") && r->least < 1) throw bad(word, "begins below 1");
      if (name == "aggregate" && (r->least < 0 || r->most > 2)) throw bad(word, "is not within 0..2");
      ranks = ranks || name == "ranks";
      if (name == "ranks")
        p.ranks = *r;
      else if (name == "workers")
        p.workers = *r;
      else if (name == "room")
        p.room = *r;
      else
        p.knobs[name] = *r;
    }
  }
  if (!ranks) throw bad(d.cases, "lacks ranks=");
  return p;
}

test_case draw(const plan& p, std::uint64_t seed) {
  dice d(mix(seed) ^ 0x7e57ca5e);
  test_case c;
  c.world.seed = seed;
  c.world.ranks = static_cast<int>(draw(p.ranks, d));
  c.world.workers = static_cast<int>(draw(p.workers, d));
  if (p.room.most > 0) c.world.slots = static_cast<int>(draw(p.room, d));
  if (d.chance(0.3)) c.world.preempt = d.chance(0.5) ? 0.5 : 0.02;
  if (p.any_network) draw_network(c.world, d);
  for (const std::string& f : p.faults)
    if (d.chance(0.5)) draw_fault(f, c.world, d);
  for (const auto& [name, r] : p.knobs) c.knobs[name] = draw(r, d);
  return c;
}

std::string to_string(const test_case& c) {
  std::string text = sim::to_string(c.world);
  char before = ';';
  for (const auto& [name, value] : c.knobs) {
    text += before + name + "=" + std::to_string(value);
    before = ',';
  }
  return text;
}

test_case parse_case(const plan& p, std::string_view text) {
  const auto bad = [&](const std::string& what) {
    return error(errc::invalid_option, "the case '" + std::string(text) + "' of property '" + p.name + "' " + what);
  };
  const std::size_t end = text.find(';');
  test_case c;
  c.world = sim::parse_world(text.substr(0, end));
  if (end != text.npos)
    for (const std::string& word : split(text.substr(end + 1), ',')) {
      const std::size_t equals = std::min(word.find('='), word.size() - 1);
      const std::string name = word.substr(0, equals);
      const auto value = number(std::string_view(word).substr(equals + 1));
      if (!p.knobs.contains(name)) throw bad("names '" + name + "', which is no knob");
      if (!value) throw bad("has no number for '" + name + "'");
      c.knobs[name] = *value;
    }
  for (const auto& [name, r] : p.knobs)
    if (!c.knobs.contains(name)) throw bad("lacks the knob '" + name + "'");
  return c;
}

std::string verdict::signature() const {
  std::string s = kind + " ";
  for (const char c : std::string_view(text).substr(0, text.find(", on rank ")))
    if (c < '0' || c > '9') s += c;
  return kind == "deadlock" || kind == "time-out" ? kind : s;
}

std::uint64_t verdict::digest() const {
  std::uint64_t d = stuck;
  for (const std::uint64_t x : {outcome.trace_hash, outcome.events, outcome.messages, outcome.bytes,
                                std::bit_cast<std::uint64_t>(outcome.seconds)})
    d = mix(d + x + 0x9e3779b97f4a7c15ull);
  return d;
}

namespace {

const option_knob aggregate_knob{"aggregate", [](options& of, std::int64_t value) {
                                   static const char* const words[] = {"auto", "off", "on"};
                                   of.set(net::aggregate_option, words[std::clamp<std::int64_t>(value, 0, 2)]);
                                 }};

verdict run_once(const plan& p, const test_case& c, const options& opts,
                 const std::function<void(const verdict&)>& report) {
  running r{c, report, {}, {}, {}};
  for (int i = 0; i < c.world.ranks; ++i) r.ranks.emplace_back(mix(c.world.seed) + mix(static_cast<std::uint64_t>(i)));
  now = &r;
  for (auto* f : all_fresh()) f->make();
  ending end;
  bool over = false;
  options own = opts;
  for (const option_knob* knob : option_knobs())
    if (const auto it = c.knobs.find(knob->name); it != c.knobs.end()) knob->set(own, it->second);
  try {
    end.outcome = sim::run(
        c.world,
        [&] {
          try {
            p.body();
          } catch (...) {
            note("exception", "out of the body: " + text_of(std::current_exception()) + ", " + rank_and_time());
            throw;
          }
          return 0;
        },
        own);
    over = true;
  } catch (const error& e) {
    end.deadlock = over = e.code() == errc::deadlock && p.deadlock_allowed;
    if (!over) note(e.code() == errc::deadlock ? "deadlock" : "exception", e.what());
  } catch (...) {
    note("exception", text_of(std::current_exception()));
  }
  if (over) {
    try {
      for (const auto& check : r.after) check(end);
    } catch (...) {
      note("exception", "after the job: " + text_of(std::current_exception()));
    }
  }
  r.after.clear();
  for (auto* f : all_fresh()) f->drop();
  now = nullptr;
  r.out.outcome = end.outcome;
  r.out.stuck = end.deadlock;
  return r.out;
}

} // namespace

verdict run_here(const plan& p, const test_case& c, const options& opts, bool twice,
                 const std::function<void(const verdict&)>& report) {
  verdict first = run_once(p, c, opts, report);
  if (!twice || first.failed) return first;
  verdict second = run_once(p, c, opts, report);
  if (second.failed || second.digest() == first.digest()) return second;
  const auto tell = [](const verdict& v) {
    std::ostringstream text;
    text << std::hex << v.outcome.trace_hash << std::dec << " (" << v.outcome.events << " events, "
         << v.outcome.messages << " messages)";
    return text.str();
  };
  second.failed = true;
  second.kind = "replay";
  second.text = "two runs differ: trace " + tell(first) + ", then " + tell(second);
  report(second);
  return second;
}

} // namespace tern::property
