// SPDX-License-Identifier: Apache-2.0
/// \file
/// What the model lets policies see and do.

#include <algorithm>
#include <cmath>

#include <tern/balance/model/model.hpp>
#include <tern/base/error.hpp>

namespace tern::balance::detail {

void machine::check_rank(int r) const {
  if (r < 0 || r >= w_.ranks)
    throw error(errc::invalid_argument,
                "the policy names rank " + std::to_string(r) + ", and there are " + std::to_string(w_.ranks),
                "name ranks from 0 to below policy_context::size");
}

void machine::fail(int r, const std::string& what) {
  if (result_.error.empty()) {
    result_.error = "policy '" + split_policy(s_.policy).name + "' ";
    result_.error += r < 0 ? what : "on rank " + std::to_string(r) + ": " + what;
  }
  off_ = requeue_ = true;
}

void machine::tell(int r, trigger why) {
  if (!off_) calls_.push_back({static_cast<std::uint32_t>(r), nothing, why});
}

void machine::tell(int r, std::uint32_t object) {
  if (!off_) calls_.push_back({static_cast<std::uint32_t>(r), object, trigger::start});
}

void machine::post(int from, int to, byte_buffer bytes) {
  check_rank(to);
  rank& sender = at(from);
  sender.core_free = std::max(now_, sender.core_free) + overhead_;
  nanoseconds arrives = sender.core_free;
  if (to != from) {
    sender.card_free = std::max(sender.core_free, sender.card_free) + transfer(static_cast<double>(bytes.size()));
    arrives = sender.card_free + latency_;
    if (delay_ > 0) {
      arrives += static_cast<nanoseconds>(random_.below(static_cast<std::uint64_t>(delay_) + 1));
      nanoseconds& last = last_arrival_[static_cast<std::uint64_t>(from) << 32 | static_cast<std::uint32_t>(to)];
      arrives = last = std::max(arrives, last);
    }
  }
  ++result_.messages;
  result_.message_bytes += static_cast<double>(bytes.size());
  ++under_way_;
  foretell(happening::message_arrives, arrives, messages_.put({from, to, std::move(bytes)}));
}

bool machine::put_off(int r, const event& e) {
  rank& here = at(r);
  if (s_.apart || here.idle > 0) return false;
  here.inbox.push_back(e);
  return true;
}

void machine::take_message(std::uint32_t slot) {
  const message m = messages_.take(slot);
  --under_way_;
  let(m.to, [&](policy& p) { p.receive(m.from, m.bytes); });
}

// A worker has ended an invocation, and looks after messages before it begins another.
void machine::empty_inbox(int r) {
  rank& here = at(r);
  if (std::exchange(here.period_due, false)) tell(r, trigger::period);
  settle();
  // If one is being taken this very moment, those after it must not overtake it.
  const bool at_once = here.core_free <= now_;
  for (const event& e : std::exchange(here.inbox, {})) {
    switch (e.kind()) {
    case happening::message_arrives:
      here.core_free = std::max(now_, here.core_free) + overhead_;
      if (at_once)
        take_message(e.a);
      else
        foretell(happening::message_taken, here.core_free, e.a);
      break;
    case happening::move_known:
      move_known(e.a);
      break;
    default: // timer
      run_errand(e.a);
    }
    settle();
  }
}

void machine::move_known(std::uint32_t slot) {
  const journey j = journeys_.take(slot);
  --under_way_;
  if (j.done) let(j.from, [&](policy&) { j.done(j.arrived); });
}

void machine::run_errand(std::uint32_t slot) {
  const errand e = errands_.take(slot);
  let(e.rank, [&](policy&) { e.what(); });
}

int modelled_host::size() const noexcept { return all_.w_.ranks; }
int modelled_host::workers() const noexcept { return all_.w_.workers; }
double modelled_host::now() const noexcept { return to_seconds(all_.now_); }

double modelled_host::pace() const noexcept {
  const machine::rank& here = all_.at(rank_);
  return here.done > 0 ? static_cast<double>(here.worked) / static_cast<double>(here.done) : 1;
}

double modelled_host::left_of(int worker) const noexcept {
  const machine::worker& k = all_.worker_at(rank_, worker);
  if (k.object == machine::nothing) return 0;
  return std::max(0.0, to_seconds(all_.load_[k.object]) - to_seconds(all_.now_ - k.began) / pace());
}

double modelled_host::load() const noexcept {
  const machine::rank& here = all_.at(rank_);
  double left = 0;
  for (int k = 0; here.running > 0 && k < all_.w_.workers; ++k) left += left_of(k);
  return to_seconds(here.waiting) + left;
}

std::vector<double> modelled_host::running() const {
  std::vector<double> left;
  for (int k = 0; k < all_.w_.workers; ++k) left.push_back(left_of(k));
  return left;
}

double modelled_host::waiting() const noexcept { return to_seconds(all_.at(rank_).waiting); }
std::size_t modelled_host::ready() const noexcept { return all_.at(rank_).ready; }

std::vector<object_info> modelled_host::objects() const {
  std::vector<object_info> found;
  found.reserve(all_.at(rank_).objects.size());
  for (const std::uint32_t object : all_.at(rank_).objects) {
    object_info x{.id = all_.id_of(object)};
    const machine::state s = all_.state_[object];
    x.movable = s != machine::state::runs;
    if (s != machine::state::rests) {
      x.load = to_seconds(all_.load_[object]);
      x.pending = all_.between_ ? 0 : 1;
      const workload::object& whole = all_.w_.objects[object];
      if (!whole.device.empty()) x.device = static_cast<double>(whole.device[all_.phase_ - all_.between_]);
    }
    found.push_back(x);
  }
  for (int k = 0; k < all_.w_.workers; ++k)
    if (const machine::worker& w = all_.worker_at(rank_, k); w.object != machine::nothing)
      found[all_.position_[w.object]].ran = static_cast<float>(to_seconds(all_.now_ - w.began));
  std::sort(found.begin(), found.end(), [](const object_info& a, const object_info& b) {
    return a.load != b.load ? a.load > b.load : a.id < b.id;
  });
  return found;
}

double modelled_host::cost(object_id object) const { return all_.w_.objects[all_.index_of(object)].bytes; }

std::vector<contact> modelled_host::contacts(object_id object) const {
  const machine::rank& here = all_.at(rank_);
  std::vector<contact> found;
  const std::uint32_t own = all_.index_of(object);
  if (!here.balancer || !here.balancer->wants_contacts() || all_.links_begin_.empty()) return found;
  for (std::size_t i = all_.links_begin_[own]; i < all_.links_begin_[own + 1]; ++i) {
    const workload::link& l = all_.w_.links[all_.links_[i]];
    const std::uint32_t with = l.from == own ? l.to : l.from;
    if (with == own) continue;
    found.push_back(
        {all_.id_of(with), all_.rank_[with], l.bytes, static_cast<std::uint64_t>(std::llround(l.messages))});
  }
  std::sort(found.begin(), found.end(), [](const contact& a, const contact& b) {
    return a.with != b.with ? a.with < b.with : a.bytes < b.bytes; // sums depend on the order
  });
  std::size_t kept = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (kept > 0 && found[kept - 1].with == found[i].with) {
      found[kept - 1].bytes += found[i].bytes;
      found[kept - 1].messages += found[i].messages;
    } else {
      found[kept++] = found[i];
    }
  }
  found.resize(kept);
  return found;
}

void modelled_host::move(object_id object, int to, std::function<void(bool)> done) {
  all_.move(rank_, object, to, std::move(done));
}

void modelled_host::after(double seconds, std::function<void()> what) {
  if (!(seconds >= 0))
    throw error(errc::invalid_argument, "the policy wants to be called in " + std::to_string(seconds) + " seconds",
                "give policy_context::after a number from 0");
  all_.foretell(machine::happening::timer, all_.now_ + to_nanoseconds(seconds),
                all_.errands_.put({rank_, std::move(what)}));
}

void modelled_host::fiber(std::function<void()> what) {
  ++all_.under_way_;
  all_.foretell(machine::happening::fiber, all_.now_, all_.errands_.put({rank_, std::move(what)}));
}

std::uint64_t modelled_host::random(std::uint64_t n) noexcept { return n == 0 ? 0 : all_.at(rank_).random.below(n); }

void modelled_host::place(object_id object, int worker) {
  const std::uint32_t index = all_.index_of(object);
  if (worker < -1 || worker >= all_.w_.workers)
    throw error(errc::invalid_argument,
                "the policy names worker " + std::to_string(worker) + ", and a rank has " +
                    std::to_string(all_.w_.workers),
                "name workers from 0 to below policy_context::workers, or -1");
  if (all_.rank_[index] != rank_ || all_.state_[index] != machine::state::waits) return; // it has begun, or left
  if (all_.wants_.empty()) all_.wants_.resize(all_.load_.size(), -1);
  if (std::exchange(all_.wants_[index], worker) == worker || all_.between_) return;
  all_.at(rank_).queue->gone(object);
  all_.at(rank_).queue->gone(object);
  all_.at(rank_).queue->push(-1, {object, to_seconds(all_.load_[index]), priority::normal}, worker);
}

void modelled_host::note(std::string_view what, double value) {
  if (all_.s_.on_note) all_.s_.on_note(rank_, to_seconds(all_.now_), what, value);
}

void modelled_host::post(int to, byte_buffer message) { all_.post(rank_, to, std::move(message)); }

} // namespace tern::balance::detail
