// SPDX-License-Identifier: Apache-2.0
/// \file
/// The model's time: events, and phases.
#include <tern/balance/model.hpp>

#include <algorithm>
#include <cmath>
#include <limits>

#include <tern/balance/model/model.hpp>
#include <tern/base/error.hpp>

namespace tern::balance {
namespace detail {
namespace {

constexpr double most_time = 4e9; // seconds: half of what nanoseconds can count, so that sums cannot overflow

void require(bool good, const std::string& what, const char* hint) {
  if (!good) throw error(errc::invalid_argument, "a model cannot have " + what, hint);
}

} // namespace

nanoseconds to_nanoseconds(double seconds) noexcept {
  return static_cast<nanoseconds>(std::llround(std::min(seconds, most_time) * 1e9));
}

machine::machine(const workload& w, const model_settings& s)
    : w_(w), s_(s), latency_(to_nanoseconds(s.latency)), overhead_(to_nanoseconds(s.overhead)),
      period_(to_nanoseconds(s.period)), delay_(to_nanoseconds(s.delay)), random_(s.seed) {
  const auto amount = [](double x) { return x >= 0 && std::isfinite(x); };
  require(amount(s.latency) && amount(s.overhead) && amount(s.period) && amount(s.delay) && amount(s.most_seconds),
          "a latency, overhead, period, delay or limit that is negative or no number", "give seconds from 0");
  require(s.bandwidth > 0, "a bandwidth of " + std::to_string(s.bandwidth), "give bytes per second, above 0");
  require(s.fails >= 0 && s.fails <= 1, "a share of " + std::to_string(s.fails) + " moves that fail", "give 0 to 1");
  const std::size_t n = w.objects.size(),
                    cores = static_cast<std::size_t>(w.ranks) * static_cast<std::size_t>(w.workers);
  require(cores < nothing, std::to_string(cores) + " workers", "give fewer than 2^32 - 1");

  double work = 0;
  load_.resize(n);
  home_.resize(n);
  rank_.resize(n);
  position_.resize(n);
  state_.resize(n);
  left_.resize(n, nothing);
  ranks_ = std::vector<rank>(static_cast<std::size_t>(w.ranks));
  bool sharing = false;
  for (std::size_t i = 0; i < n; ++i) {
    const workload::object& x = w.objects[i];
    for (const double seconds : x.seconds) {
      work += seconds;
      all_ += seconds > 0;
    }
    sharing = sharing || x.tasklets > 1;
    home_[i] = x.rank;
    settle_down(static_cast<std::uint32_t>(i), x.rank);
  }
  const double slowest = w.slow.empty() ? 1 : *std::max_element(w.slow.begin(), w.slow.end());
  require(work * slowest <= most_time, "work of " + std::to_string(work * slowest) + " seconds", "give at most 4e9");
  const double lasts = w.static_bound();
  limit_ = to_nanoseconds(s.most_seconds > 0 ? s.most_seconds : 10 * lasts + 1);
  sample_every_ = std::max<nanoseconds>(1, to_nanoseconds(w.bound() / 200));

  links_begin_.resize(w.links.empty() ? 0 : n + 1);
  for (const workload::link& l : w.links) {
    ++links_begin_[l.from];
    if (l.to != l.from) ++links_begin_[l.to];
  }
  std::size_t ends = 0;
  for (std::size_t& begin : links_begin_)
    begin = ends += begin; // each is its part's end, until it is filled from there
  links_.resize(ends);
  for (std::size_t i = w.links.size(); i-- > 0;) {
    links_[--links_begin_[w.links[i].from]] = static_cast<std::uint32_t>(i);
    if (w.links[i].to != w.links[i].from) links_[--links_begin_[w.links[i].to]] = static_cast<std::uint32_t>(i);
  }

  workers_.resize(cores);
  if (sharing && w.workers > 1) shares_.resize(cores);
  idle_words_ = (static_cast<std::size_t>(w.workers) + 63) / 64;
  idle_bits_.resize(ranks_.size() * idle_words_);
  for (int r = 0; r < w.ranks; ++r) {
    rank& here = at(r);
    here.random = random_numbers(random_numbers(s.seed ^ static_cast<std::uint64_t>(r) << 32).next());
    here.as_host = std::make_unique<modelled_host>(*this, r);
    here.queue = make_node_queue(s.order, w.workers);
    for (int k = 0; k < w.workers; ++k) set_idle(r, k, true);
    here.balancer = make_policy(s.policy, *here.as_host);
  }
}

void machine::foretell(happening kind, nanoseconds when, std::uint32_t a, std::uint32_t b) {
  events_.push({when, order_++ << 8 | static_cast<std::uint64_t>(kind), a, b});
}

model_result machine::run() {
  if (w_.phases() == 0) return results();
  begin_phase();
  for (;;) {
    if (remaining_ == 0 && under_way_ == 0) {
      if (between_)
        begin_phase();
      else if (!end_phase())
        return results();
      continue;
    }
    if (events_.empty())
      throw error(errc::deadlock,
                  std::to_string(remaining_) + " invocations are left after " + std::to_string(to_seconds(now_)) +
                      " seconds, and nothing can happen",
                  "look for objects that the policy " + s_.policy + " has taken in push and does not give back in pop");
    const event e = events_.pop();
    if (e.at > limit_)
      throw error(errc::timeout,
                  "the model is given up after " + std::to_string(to_seconds(limit_)) + " seconds, when " +
                      std::to_string(ended_) + " of " + std::to_string(all_) + " invocations have ended",
                  "give a larger most_seconds, or look for what the policy " + s_.policy + " waits for");
    if (e.at >= next_sample_) measure(e.at);
    restless(e.at);
    now_ = e.at;
    ++result_.events;
    happens(e);
    settle();
  }
}

void machine::happens(const event& e) {
  switch (e.kind()) {
  case happening::work_ends:
    if (workers_[e.a].foretold == e.b) end(e.a);
    return;
  case happening::message_arrives: {
    const int to = messages_[e.a].to;
    if (put_off(to, e)) return;
    rank& here = at(to);
    here.core_free = std::max(now_, here.core_free) + overhead_;
    return foretell(happening::message_taken, here.core_free, e.a);
  }
  case happening::message_taken:
    return take_message(e.a);
  case happening::object_arrives:
    return arrive(e.a);
  case happening::move_known:
    if (!put_off(journeys_[e.a].from, e)) move_known(e.a);
    return;
  case happening::timer:
    if (!put_off(errands_[e.a].rank, e)) run_errand(e.a);
    return;
  case happening::fiber:
    --under_way_;
    return run_errand(e.a);
  case happening::period:
    return period();
  }
}

// One event for all ranks: a million of them would cost more than all else.
void machine::arm() {
  if (period_ == 0 || off_ || remaining_ == 0 || std::exchange(armed_, true)) return;
  foretell(happening::period, (now_ / period_ + 1) * period_, 0);
}

void machine::period() {
  armed_ = false;
  for (int r = 0; r < w_.ranks && !off_; ++r) {
    rank& here = at(r);
    if (here.ready == 0 && here.idle == static_cast<std::uint32_t>(w_.workers)) continue;
    if (s_.apart || here.idle > 0) {
      tell(r, trigger::period);
      settle();
    } else {
      here.period_due = true; // once, however late
    }
  }
  arm();
}

// Calls what has been asked for meanwhile, which may ask for more.
void machine::settle() {
  do {
    for (std::size_t i = 0; i < calls_.size(); ++i) { // which may grow
      const call c = calls_[i];
      const int r = static_cast<int>(c.rank);
      if (c.object == nothing)
        let(r, [&](policy& p) { p.dist_balance(c.why); });
      else
        let(r, [&](policy& p) { p.notify(id_of(c.object)); });
    }
    calls_.clear();
    if (requeue_) requeue();
    for (const std::uint32_t r : std::exchange(revisits_, {})) {
      at(static_cast<int>(r)).revisit = false;
      look_for_work(static_cast<int>(r));
    }
  } while (!calls_.empty() || requeue_);
}

void machine::requeue() {
  requeue_ = false;
  if (between_) return; // nothing waits for a worker
  for (int r = 0; r < w_.ranks; ++r) {
    if (!std::exchange(at(r).own_queue, false)) continue;
    for (const std::uint32_t object : at(r).objects)
      if (state_[object] == state::waits) make_ready(r, object);
    look_for_work(r);
  }
}

void machine::begin_phase() {
  between_ = false;
  last_end_ = now_;
  for (rank& r : ranks_) r.waiting = 0, r.ready = 0;
  for (std::size_t i = 0; i < load_.size(); ++i) {
    const double seconds = w_.objects[i].seconds[phase_];
    load_[i] = seconds > 0 ? std::max<nanoseconds>(1, to_nanoseconds(seconds)) : 0;
    state_[i] = seconds > 0 ? state::waits : state::rests;
    if (!(seconds > 0)) continue;
    rank& here = at(rank_[i]);
    here.waiting += load_[i];
    ++here.ready;
    ++remaining_;
  }
  for (int r = 0; r < w_.ranks; ++r) {
    for (const std::uint32_t object : at(r).objects) {
      if (state_[object] != state::waits) continue;
      make_ready(r, object);
      if (phase_ > 0) tell(r, object);
    }
    settle();
  }
  for (int r = 0; phase_ == 0 && r < w_.ranks; ++r) {
    tell(r, trigger::start);
    settle();
  }
  arm();
  for (int r = 0; r < w_.ranks; ++r) {
    look_for_work(r);
    settle();
  }
}

bool machine::end_phase() {
  result_.phase_ends.push_back(to_seconds(last_end_));
  for (const workload::link& l : w_.links)
    if (rank_[l.from] != rank_[l.to]) result_.remote_bytes += l.bytes;
  for (const departure& d : departures_) left_[d.object] = nothing;
  departures_.clear();
  if (++phase_ == w_.phases()) return false;
  between_ = true;
  for (std::size_t i = 0; i < load_.size(); ++i) {
    if (load_[i] == 0) continue;
    state_[i] = state::waits;
    rank& here = at(rank_[i]);
    here.waiting += load_[i];
    ++here.ready;
  }
  for (int r = 0; r < w_.ranks; ++r) {
    tell(r, trigger::phase);
    settle();
  }
  return true;
}

// A policy may talk as much as it likes while there is work; without, or if time stands still, it
// must end some day.
void machine::restless(nanoseconds when) {
  if (running_ > 0 && when > now_) since_work_ = 0;
  if (++since_work_ <= 10'000 * ranks_.size()) return;
  since_work_ = 0;
  if (!off_) fail(-1, "does not come to rest");
}

void machine::measure(nanoseconds until) {
  nanoseconds most = 0;
  double sum = 0;
  for (const rank& r : ranks_) {
    most = std::max(most, r.waiting + r.running);
    sum += static_cast<double>(r.waiting + r.running);
  }
  const double imbalance = sum > 0 ? static_cast<double>(most) * static_cast<double>(ranks_.size()) / sum : 1;
  std::vector<model_result::sample>& samples = result_.over_time;
  while (next_sample_ <= until) {
    samples.push_back({to_seconds(next_sample_), imbalance, result_.moves});
    if (samples.size() == 300) { // the length of the run is not known: every other one is dropped
      for (std::size_t i = 1; i < 150; ++i) samples[i] = samples[2 * i];
      samples.resize(150);
      sample_every_ *= 2;
      next_sample_ = to_nanoseconds(samples.back().at);
    }
    next_sample_ += sample_every_;
  }
  if (s_.progress && all_ > 0) s_.progress(static_cast<double>(ended_) / static_cast<double>(all_));
}

model_result machine::results() {
  if (ended_ != all_)
    throw error(errc::internal,
                "the model has run " + std::to_string(ended_) + " of " + std::to_string(all_) + " invocations", "");
  if (!result_.phase_ends.empty()) result_.makespan = result_.phase_ends.back();
  result_.busy.reserve(workers_.size());
  for (const worker& k : workers_) result_.busy.push_back(to_seconds(k.busy));
  if (s_.progress) s_.progress(1);
  return std::move(result_);
}

} // namespace detail

model_result run_model(const workload& w, const model_settings& s) {
  check(w);
  return detail::machine(w, s).run();
}

} // namespace tern::balance
