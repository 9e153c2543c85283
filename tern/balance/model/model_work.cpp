// SPDX-License-Identifier: Apache-2.0
/// \file
/// The model's workers and objects.

#include <algorithm>
#include <bit>
#include <cmath>

#include <tern/balance/model/model.hpp>
#include <tern/base/error.hpp>

namespace tern::balance::detail {

object_id machine::id_of(std::uint32_t object) const noexcept { return {home_[object], std::uint64_t{object} + 1}; }

std::uint32_t machine::index_of(object_id id) const {
  const std::uint64_t index = id.number() - 1;
  if (index >= load_.size() || id_of(static_cast<std::uint32_t>(index)) != id)
    throw error(errc::invalid_argument, "the policy names an object " + to_string(id) + " that there is not",
                "name objects that policy_context::objects or notify have named");
  return static_cast<std::uint32_t>(index);
}

nanoseconds machine::transfer(double bytes) const noexcept { return to_nanoseconds(bytes / s_.bandwidth); }

// To talk to another rank takes the sender's worker some time too: that is what makes places
// matter.
nanoseconds machine::time_of(int r, std::uint32_t object) const {
  if (w_.slow.empty() && links_begin_.empty()) return load_[object];
  double seconds = to_seconds(load_[object]) * (w_.slow.empty() ? 1 : w_.slow[static_cast<std::size_t>(r)]);
  if (!links_begin_.empty())
    for (std::size_t i = links_begin_[object]; i < links_begin_[object + 1]; ++i) {
      const workload::link& l = w_.links[links_[i]];
      if (l.from == object && rank_[l.to] != r) seconds += l.bytes / s_.bandwidth + l.messages * s_.overhead;
    }
  return std::max<nanoseconds>(1, to_nanoseconds(seconds));
}

void machine::make_ready(int r, std::uint32_t object) {
  rank& here = at(r);
  const ready_object it{id_of(object), to_seconds(load_[object]), priority::normal};
  bool taken = false;
  ask(r, [&](policy& p) { taken = p.push(-1, it); });
  if (taken)
    here.own_queue = true;
  else
    here.queue->push(-1, it, wants_.empty() ? -1 : wants_[object]);
}

std::uint32_t machine::next_for(int r, int k) {
  rank& here = at(r);
  for (std::size_t tries = 0;; ++tries) {
    object_id id;
    std::uint32_t object = nothing;
    if (here.own_queue)
      ask(r, [&](policy& p) {
        if (tries > 1000 + here.objects.size())
          throw error(errc::invalid_state, "pop names only objects that do not wait", "forget those that have begun");
        if ((id = p.pop(k))) object = index_of(id);
      });
    if (!id) {
      if (!(id = here.queue->pop(k))) return nothing;
      object = index_of(id);
    }
    if (object != nothing && state_[object] == state::waits && rank_[object] == r) return object;
  }
}

void machine::look_for_work(int r) {
  rank& here = at(r);
  if (here.idle == 0) return;
  count_help(r);
  bool more = true;
  for (std::size_t i = 0; more && i < idle_words_; ++i)
    for (std::uint64_t bits = idle_bits_[static_cast<std::size_t>(r) * idle_words_ + i]; more && bits != 0;
         bits &= bits - 1) {
      const int k = static_cast<int>(64 * i) + std::countr_zero(bits);
      const std::uint32_t object = next_for(r, k);
      if (object != nothing)
        begin(r, k, object);
      else
        more = here.own_queue; // a policy may keep something for another worker; the queue does not
    }
  share_help(r);
  if (here.idle > 0) idle(r);
}

void machine::idle(int r) {
  if (!std::exchange(at(r).idle_told, true)) tell(r, trigger::idle);
}

void machine::begin(int r, int k, std::uint32_t object) {
  rank& here = at(r);
  worker& me = worker_at(r, k);
  const nanoseconds takes = time_of(r, object);
  set_idle(r, k, false);
  state_[object] = state::runs;
  here.waiting -= load_[object];
  here.running += load_[object];
  --here.ready;
  here.idle_told = false;
  me.object = object;
  me.began = now_;
  if (!wants_.empty()) wants_[object] = -1;
  ++running_;
  since_work_ = 0;
  here.queue->begun(k, to_seconds(load_[object]));
  const auto number = static_cast<std::uint32_t>(&me - workers_.data());
  if (!shares_.empty() && w_.objects[object].tasklets > 1) {
    shares_[number] = {static_cast<double>(takes), -1, takes, now_}; // less than none: share_help foretells its end
    here.shared.push_back(number);
  } else {
    foretell(happening::work_ends, now_ + takes, number, ++me.foretold);
  }
}

void machine::end(std::uint32_t number) {
  const int r = static_cast<int>(number / static_cast<std::uint32_t>(w_.workers));
  const int k = static_cast<int>(number % static_cast<std::uint32_t>(w_.workers));
  rank& here = at(r);
  worker& me = workers_[number];
  const std::uint32_t object = me.object;
  if (state_[object] != state::runs || rank_[object] != r)
    throw error(errc::internal, "the model runs object " + to_string(id_of(object)) + " twice");
  count_help(r);
  const bool shared = std::erase(here.shared, number) > 0;
  here.worked += shared ? shares_[number].all : now_ - me.began;
  here.done += load_[object];
  here.running -= load_[object];
  me.busy += now_ - me.began;
  me.object = nothing;
  state_[object] = state::rests;
  --running_;
  --remaining_;
  ++ended_;
  since_work_ = 0;
  last_end_ = now_;
  set_idle(r, k, true);
  tell(r, object);
  settle();
  empty_inbox(r);
  settle();
  if (me.object == nothing) {
    const std::uint32_t next = next_for(r, k);
    if (next != nothing) {
      begin(r, k, next);
    } else {
      here.queue->begun(k, 0);
      idle(r);
    }
  }
  share_help(r);
}

void machine::set_idle(int r, int k, bool idle) {
  std::uint64_t& bits = idle_bits_[static_cast<std::size_t>(r) * idle_words_ + static_cast<std::size_t>(k) / 64];
  bits ^= std::uint64_t{1} << k % 64;
  at(r).idle += idle ? 1 : -1u;
}

// Idle workers have helped since this was called last. Called before it changes which are idle.
void machine::count_help(int r) {
  if (at(r).shared.empty()) return;
  double helpers = 0, time = 0;
  for (const std::uint32_t number : at(r).shared) {
    share& s = shares_[number];
    time = static_cast<double>(now_ - s.since);
    s.left -= time * (1 + s.helpers);
    s.since = now_;
    helpers += s.helpers;
  }
  for (int k = 0; time > 0 && helpers > 0 && k < w_.workers; ++k) {
    if (worker_at(r, k).object != nothing) continue;
    worker_at(r, k).busy += static_cast<nanoseconds>(std::llround(std::min(1.0, helpers) * time));
    helpers -= 1;
  }
}

// Assigns idle workers to invocations that can use their help, the oldest first.
void machine::share_help(int r) {
  double idle = at(r).idle;
  for (const std::uint32_t number : at(r).shared) {
    share& s = shares_[number];
    const double helpers = std::min(w_.objects[workers_[number].object].tasklets - 1, idle);
    idle -= helpers;
    if (helpers == s.helpers) continue;
    s.helpers = helpers;
    const auto takes = static_cast<nanoseconds>(std::ceil(std::max(0.0, s.left) / (1 + helpers)));
    foretell(happening::work_ends, now_ + takes, number, ++workers_[number].foretold);
  }
}

void machine::leave(std::uint32_t object) {
  rank& here = at(rank_[object]);
  const std::uint32_t last = here.objects.back();
  here.objects[position_[object]] = last;
  position_[last] = position_[object];
  here.objects.pop_back();
  if (!wants_.empty()) wants_[object] = -1;
  if (state_[object] == state::waits) {
    here.queue->gone(id_of(object));
    here.waiting -= load_[object];
    --here.ready;
    state_[object] = state::travels_waiting;
    if (!between_) here.queue->gone(id_of(object));
  } else {
    state_[object] = state::travels;
  }
}

void machine::settle_down(std::uint32_t object, int r) {
  rank& here = at(r);
  rank_[object] = r;
  position_[object] = static_cast<std::uint32_t>(here.objects.size());
  here.objects.push_back(object);
  if (state_[object] == state::travels_waiting) {
    state_[object] = state::waits;
    here.waiting += load_[object];
    ++here.ready;
  } else {
    state_[object] = state::rests;
  }
}

void machine::move(int r, object_id id, int to, std::function<void(bool)> done) {
  check_rank(to);
  const std::uint32_t object = index_of(id);
  ++under_way_;
  journey j{object, r, to, true, std::move(done)};
  const bool here = rank_[object] == r && (state_[object] == state::waits || state_[object] == state::rests);
  if (!here || to == r) {
    j.arrived = here;
    if (!here) ++result_.failed;
    foretell(happening::move_known, now_, journeys_.put(std::move(j)));
    return;
  }
  leave(object);
  if (s_.fails > 0 && random_.fraction() < s_.fails) {
    j.arrived = false;
    foretell(happening::object_arrives, now_ + 2 * latency_, journeys_.put(std::move(j)));
  } else {
    rank_[object] = to;
    rank& from = at(r);
    from.card_free = std::max(now_, from.card_free) + transfer(w_.objects[object].bytes);
    foretell(happening::object_arrives, from.card_free + latency_, journeys_.put(std::move(j)));
  }
  tell(r, object);
}

void machine::arrive(std::uint32_t slot) {
  const journey& j = journeys_[slot]; // until something can be put there
  const std::uint32_t object = j.object;
  const bool arrived = j.arrived;
  const int r = arrived ? j.to : j.from;
  settle_down(object, r);
  if (arrived)
    record_move(object, j.from, j.to);
  else
    ++result_.failed;
  if (j.done) {
    foretell(happening::move_known, arrived ? now_ + latency_ : now_, slot);
  } else {
    journeys_.take(slot);
    --under_way_;
  }
  tell(r, object);
  if (between_ || state_[object] != state::waits) return;
  make_ready(r, object);
  look_for_work(r);
}

void machine::record_move(std::uint32_t object, int from, int to) {
  ++result_.moves;
  result_.moved_bytes += w_.objects[object].bytes;
  std::uint32_t before = 0;
  bool returns = false;
  for (std::uint32_t d = left_[object]; d != nothing; d = departures_[d].before) {
    ++before;
    returns = returns || departures_[d].rank == to;
  }
  result_.returns += returns;
  result_.most_moves = std::max(result_.most_moves, before + 1);
  departures_.push_back({object, from, left_[object]});
  left_[object] = static_cast<std::uint32_t>(departures_.size() - 1);
}

} // namespace tern::balance::detail
