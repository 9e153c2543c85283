// SPDX-License-Identifier: Apache-2.0
#include <tern/net/transport/sim/sim_job.hpp>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <limits>
#include <string_view>
#include <utility>

#include <unistd.h>

#include <tern/base/error.hpp>
#include <tern/net/report/tracing.hpp>
#include <tern/task/scheduler.hpp>
#include <tern/task/scheduler/scheduler_core.hpp>
#include <tern/task/sim/simulated_executor.hpp>
#include <tern/trace/record/events.hpp>

namespace tern::sim::detail {
namespace {

constexpr std::uint64_t noted_send = 32, noted_arrival = 33, noted_fault = 34, noted_slots = 35, noted_loss = 36;
constexpr std::size_t parcels_at_once = 256;
constexpr std::int64_t least_notice = 1'000'000; // ns after a crash; up to twice that, before another rank knows of it
constexpr std::uint32_t urgent_slots = 4;        // messages that may come on top of a channel's space
constexpr std::int64_t countable = std::numeric_limits<std::int64_t>::max() / 1000; // ns that the network knows, in ps

std::int64_t to_ns(double seconds) { return std::llround(std::min(seconds, 9e9) * 1e9); }

/// What one sender knows of each of its channels: a small hash table without deletion.
class channel_ends {
public:
  struct channel {
    std::uint32_t to = none;
    std::uint32_t unread : 31 = 0; // messages that have not been received; counted if there is not space for any number
    std::uint32_t refused : 1 = 0; // one since the sender was last told of space
    std::int64_t last = 0;         // when the last message arrives
  };
  /// There is a place for that channel from now on, and it comes into the cache.
  void approach(std::uint32_t to) {
    if (4 * (used_ + 1) > 3 * slots_.size()) grow();
    __builtin_prefetch(&slots_[place(to)]);
  }
  /// Until the next call of `approach`. \pre that was called for it.
  channel& operator[](std::uint32_t to) noexcept {
    channel& s = find(to);
    if (s.to == none) {
      s.to = to;
      ++used_;
    }
    return s;
  }

private:
  static constexpr std::uint32_t none = ~std::uint32_t{0};
  std::size_t place(std::uint32_t to) const noexcept {
    return (to * 2654435769u >> 7) & (slots_.size() - 1); // Knuth 6.4
  }
  channel& find(std::uint32_t to) noexcept {
    const std::size_t mask = slots_.size() - 1;
    std::size_t i = place(to);
    while (slots_[i].to != none && slots_[i].to != to) i = (i + 1) & mask;
    return slots_[i];
  }
  void grow() {
    std::vector<channel> old(std::max<std::size_t>(8, 2 * slots_.size()));
    old.swap(slots_);
    for (const channel& s : old)
      if (s.to != none) find(s.to) = s;
  }
  std::vector<channel> slots_;
  std::size_t used_ = 0;
};

} // namespace

/// A message on its way; then the memory of its head, until the receiver needs that no more. A
/// small one is two lines of the cache: what all have, and a head of up to 64 bytes.
struct alignas(64) sim_job::simulated_message final : event, byte_lender {
  void happen() noexcept override;
  void take_back(std::byte*) noexcept override { job->give(this); }
  /// It keeps more than a head in `near_head`.
  bool has_parts() const noexcept { return bytes != head_size; }
  sim_job* job = nullptr;
  simulated_message* next = nullptr;
  std::size_t bytes = 0;
  int from = 0, to = 0;
  std::int16_t early = 0;      // ps before the ns at which it happens
  bool has_card = false;       // the receiver's; or it needs none
  std::uint32_t head_size = 0; // of a head that is in `near_head`
  alignas(64) std::byte near_head[112];
  byte_buffer far_head, body; // the head is in one of two places
};

/// Lets a sender know that a channel which refused a message has space.
struct sim_job::slot_notice final : event {
  void happen() noexcept override;
  sim_job* job = nullptr;
  int rank = 0;
  bool planned = false;
};

/// Lets a rank know that another has crashed.
struct sim_job::loss_notice final : event {
  void happen() noexcept override;
  sim_job* job = nullptr;
  int rank = 0, lost = 0;
};

/// One rank's end. What a message touches when it arrives, down to `crashed`, is one line of the
/// cache.
class alignas(64) sim_job::port final : public net::transport {
  sim_job& job_;
  simulated_message *first_ = nullptr, *last_ = nullptr; // what has arrived
  const int rank_;

public:
  port(sim_job& job, int rank) : job_(job), rank_(rank) {}
  ~port() override {
    while (simulated_message* p = pop()) job_.give(p);
    job_.ports_[static_cast<std::size_t>(rank_)] = nullptr;
  }

  int rank() const noexcept override { return rank_; }
  int size() const noexcept override { return job_.world_.ranks; }
  int host_rank() const noexcept override { return rank_ % job_.world_.network.host; }
  std::string host() const override { return "simulated host " + std::to_string(rank_ / job_.world_.network.host); }
  int host_size() const noexcept override {
    const int host = job_.world_.network.host, first = rank_ / host * host;
    return std::min(host, size() - first);
  }
  std::string describe() const override {
    return "simulated, seed " + std::to_string(job_.world_.seed) + ", " + job_.world_.network.topology;
  }

  std::size_t head_limit() const noexcept override { return most_head; }
  bool any_thread_sends() const noexcept override { return true; } // all are this one

  bool send(int destination, std::span<const std::byte> head, byte_buffer& body, bool urgent) override {
    if (destination < 0 || destination >= size())
      throw error(errc::invalid_argument, "there is no rank " + std::to_string(destination),
                  "ranks are 0 to " + std::to_string(size() - 1));
    if (head.size() > most_head)
      throw error(errc::invalid_argument, "a head of " + std::to_string(head.size()) + " bytes is too large",
                  "heads have up to " + std::to_string(most_head) + " bytes; send the rest as the body");
    return job_.send(*this, destination, head, body, urgent);
  }
  bool receive(net::arrival& into) override {
    if (!lost.empty()) [[unlikely]]
      tell_lost();
    into.head = {};
    into.body = {};
    simulated_message* const p = pop();
    if (!p) return false;
    job_.engine_.charge(job_.overhead_);
    into.source = p->from;
    if (p->has_parts()) [[unlikely]]
      into.body = std::move(p->body);
    if (p->head_size > 0) {
      into.head = byte_buffer::borrow(p->near_head, p->head_size, *p); // comes back by itself
    } else {
      into.head = std::move(p->far_head);
      job_.give(p);
    }
    job_.received(into.source, rank_);
    return true;
  }
  void tell_failures(std::function<void(const net::lost_rank&)> f) override {
    told_of_ = std::move(f);
    for (int r = 0; r < size(); ++r)
      if (job_.crashed(r)) job_.notify_of(r, *this);
  }
  bool outlives_ranks() const noexcept override { return true; }
  void kill_for_test(int rank) override;
  void leave() override {
    left = true;
    const auto is_crashed = [](const port* p) { return p && p->crashed; };
    if (std::none_of(job_.ports_.begin(), job_.ports_.end(), is_crashed)) return;
    for (port* other : job_.ports_)
      if (other && other->told_of_) job_.notify_of(rank_, *other);
  }
  // The engine never sleeps.
  void wait(std::chrono::microseconds) override {}
  void wake() noexcept override {
    if (core) job_.engine_.notify_events(*core, job_.engine_.now());
  }
  void finish() override {}
  [[noreturn]] void abort(int code) noexcept override { give_up(job_.world_, code); }

  void push(simulated_message* p) noexcept {
    p->next = nullptr;
    (last_ ? last_->next : first_) = p;
    last_ = p;
    job_.engine_.notify_events(*core, job_.engine_.now());
  }

  tern::detail::scheduler_core* core = nullptr;
  std::int64_t served = 0; // when the last of those that waited for the card is done with it
  bool crashed = false, left = false;
  std::vector<int> lost; // ranks that have crashed, or left, of which it is to be told
  channel_ends ends;
  std::int64_t crashed_at = 0;

private:
  friend class sim_job;
  void tell_lost() {
    for (const int r : std::exchange(lost, {})) {
      const port& gone = *job_.ports_[static_cast<std::size_t>(r)];
      const std::int64_t at = gone.crashed_at;
      if (!gone.crashed) {
        told_of_({r, job_.engine_.now(), {}, {}, true});
        continue;
      }
      char text[64];
      std::snprintf(text, sizeof text, "rank %d crashed at %.9f s", r, 1e-9 * static_cast<double>(at));
      told_of_({r, at, "simulated host " + std::to_string(r / job_.world_.network.host), text, false});
    }
  }
  simulated_message* pop() noexcept {
    simulated_message* p = first_;
    if (!p) return nullptr;
    first_ = p->next;
    if (!first_) last_ = nullptr;
    return p;
  }
  static constexpr std::size_t most_head = 8192;
  std::function<void(const net::lost_rank&)> told_of_;
};

/// Something that goes wrong at a moment.
class sim_job::fault final : public event {
public:
  fault(sim_job& j, int r, double h) : job(j), rank(r), how_long(h) {}
  void happen() noexcept override {
    port& p = *job.ports_[static_cast<std::size_t>(rank)];
    job.engine_.note(noted_fault, static_cast<std::uint64_t>(rank), how_long < 0);
    if (how_long < 0) {
      const bool again = std::exchange(p.crashed, true);
      if (!again) p.crashed_at = job.engine_.now();
      for (port* other : job.ports_)
        if (!again && other && other->told_of_) job.notify_of(rank, *other);
      // What they wait for may have left.
      for (port* gone : job.ports_)
        if (!again && gone && gone->left && !gone->crashed)
          for (port* other : job.ports_)
            if (other && other->told_of_ && !other->left) job.notify_of(gone->rank_, *other);
      job.engine_.kill(*p.core);
      job.tell("rank " + std::to_string(rank) + " crashed");
    } else {
      job.engine_.hold(*p.core, job.engine_.now() + to_ns(how_long));
      job.tell("rank " + std::to_string(rank) + " was paused for " + std::to_string(how_long) + " s");
    }
    if (trace::on()) record(*p.core, job.told_.back());
  }
  sim_job& job;
  const int rank;
  const double how_long; // negative: for ever

private:
  void record(const tern::detail::scheduler_core& core, const std::string& what) const noexcept {
    tern::detail::trace_as(core.workers[0].get());
    how_long < 0 ? trace::detail::crash(what) : trace::detail::fault(what);
  }
};

void sim_job::port::kill_for_test(int rank) {
  job_.planned_.push_back(std::make_unique<fault>(job_, rank, -1));
  job_.engine_.schedule(job_.engine_.now(), *job_.planned_.back());
}

void sim_job::simulated_message::happen() noexcept {
  port* const p = job->ports_[static_cast<std::size_t>(to)];
  if (p->crashed) {
    job->give(this);
    return; // it never will be received: its space is lost too
  }
  if (const std::int64_t now = job->engine_.now(); !has_card && now < countable) {
    has_card = true;
    std::int64_t done = (job->network_->receive(from, to, bytes, now * 1000 - early) + 999) / 1000;
    // In order, though those of one moment happen in any.
    if (const int host = job->world_.network.host; done <= p->served && from / host != to / host) done = p->served + 1;
    if (done > now) {
      p->served = done;
      job->engine_.schedule(done, *this);
      return;
    }
  }
  job->engine_.note(noted_arrival, static_cast<std::uint64_t>(to), static_cast<std::uint64_t>(from));
  p->push(this);
}

void sim_job::slot_notice::happen() noexcept {
  planned = false;
  job->engine_.note(noted_slots, static_cast<std::uint64_t>(rank), 0);
  if (port* const p = job->ports_[static_cast<std::size_t>(rank)]; p && p->core)
    job->engine_.notify_events(*p->core, job->engine_.now());
}

void sim_job::loss_notice::happen() noexcept {
  port* const p = job->ports_[static_cast<std::size_t>(rank)];
  if (!p || !p->core || p->crashed) return;
  job->engine_.note(noted_loss, static_cast<std::uint64_t>(rank), static_cast<std::uint64_t>(lost));
  p->lost.push_back(lost);
  job->engine_.notify_events(*p->core, job->engine_.now());
}

/// No faster than a real job's ranks know it, as times go here. Nothing happens in a job in which
/// no rank asks.
void sim_job::notify_of(int lost, port& who) {
  if (who.rank_ == lost) return;
  auto notice = std::make_unique<loss_notice>();
  notice->job = this;
  notice->rank = who.rank_;
  notice->lost = lost;
  engine_.schedule(engine_.now() + least_notice +
                       static_cast<std::int64_t>(engine_.random_below(static_cast<std::uint64_t>(least_notice))),
                   *notice);
  losses_.push_back(std::move(notice));
}

sim_job::sim_job(const world& w, simulation& s)
    : world_(w), engine_(s.inside()), network_(make_network(w)), ports_(static_cast<std::size_t>(w.ranks)),
      overhead_(to_ns(w.network.overhead)), jitter_(to_ns(w.network.latency * w.network.jitter)),
      delay_(to_ns(w.faults.delay)), reorder_(to_ns(w.faults.reorder)), latency_(to_ns(w.network.latency)),
      slots_(static_cast<std::uint32_t>(w.slots)) {
  // Ranks of one host are nearer than others. No more than a microsecond: faults and messages that
  // are under way wait for it.
  engine_.look_ahead(std::min<std::int64_t>(1000, to_ns(w.network.latency) / (w.network.host > 1 ? 4 : 1)));
}
sim_job::~sim_job() = default;

std::unique_ptr<net::transport> sim_job::end(int rank) {
  auto p = std::make_unique<port>(*this, rank);
  ports_[static_cast<std::size_t>(rank)] = p.get();
  return p;
}

void sim_job::connect(int rank, scheduler& s) { ports_[static_cast<std::size_t>(rank)]->core = &s.inside(); }
bool sim_job::crashed(int rank) const noexcept {
  const port* p = ports_[static_cast<std::size_t>(rank)];
  return p && p->crashed;
}

sim_job::simulated_message* sim_job::take_message() {
  if (!free_) {
    message_store_.push_back(std::make_unique<simulated_message[]>(parcels_at_once));
    for (std::size_t i = parcels_at_once; i-- > 0;) {
      simulated_message& p = message_store_.back()[i];
      p.job = this;
      p.next = free_;
      free_ = &p;
    }
  }
  return std::exchange(free_, free_->next);
}

void sim_job::give(simulated_message* p) noexcept {
  if (p->has_parts()) {
    p->far_head = {};
    p->body = {};
  }
  p->bytes = p->head_size = 0;
  p->next = free_;
  free_ = p;
}

bool sim_job::send(port& from, int to, std::span<const std::byte> head, byte_buffer& body, bool urgent) {
  from.ends.approach(static_cast<std::uint32_t>(to)); // one of as many as there are ranks: it is looked at late
  if (slots_ > 0) {
    channel_ends::channel& channel = from.ends[static_cast<std::uint32_t>(to)];
    if (channel.unread >= slots_ + (urgent ? urgent_slots : 0)) {
      channel.refused = 1;
      return false;
    }
  }
  simulated_message* const p = take_message();
  if (head.size() <= sizeof p->near_head) {
    if (!head.empty()) std::memcpy(p->near_head, head.data(), head.size());
    p->head_size = static_cast<std::uint32_t>(head.size());
  } else {
    try {
      p->far_head = byte_buffer::copy_of(head);
    } catch (...) {
      give(p);
      throw;
    }
  }
  const std::size_t size = head.size() + body.size();
  p->bytes = size;
  if (p->has_parts()) p->body = std::move(body);
  engine_.charge(overhead_);
  const std::int64_t now = engine_.now();
  std::int64_t at = now, early = 0; // to itself: no network
  if (to != from.rank_) {
    if (now < countable) {
      const std::int64_t exact = network_->deliver(from.rank_, to, size, now * 1000);
      at = (exact + 999) / 1000;
      early = at * 1000 - exact;
    }
    if (jitter_ > 0) at += static_cast<std::int64_t>(engine_.random_below(static_cast<std::uint64_t>(jitter_) + 1));
    if (reorder_ > 0) at += static_cast<std::int64_t>(engine_.random_below(static_cast<std::uint64_t>(reorder_) + 1));
    if (delay_ > 0 && engine_.random() % 16 == 0)
      at += static_cast<std::int64_t>(engine_.random_below(static_cast<std::uint64_t>(delay_) + 1));
  }
  channel_ends::channel& channel = from.ends[static_cast<std::uint32_t>(to)];
  // In order, whatever chance says.
  if (at <= channel.last) at = channel.last + 1, early = 0;
  channel.last = at;
  if (slots_ > 0) ++channel.unread;
  p->from = from.rank_;
  p->to = to;
  p->early = static_cast<std::int16_t>(early);
  p->has_card = to == from.rank_;
  ++messages_;
  bytes_ += size;
  engine_.note(noted_send, static_cast<std::uint64_t>(from.rank_) << 32 | static_cast<std::uint64_t>(to), size);
  engine_.schedule(at, *p);
  return true;
}

// The receiver has taken a message out of a channel. A sender that was refused hears of it one
// latency later.
void sim_job::received(int from, int to) {
  port* const sender = ports_[static_cast<std::size_t>(from)];
  if (slots_ == 0 || !sender) return;
  channel_ends::channel& channel = sender->ends[static_cast<std::uint32_t>(to)];
  --channel.unread;
  if (!channel.refused) return;
  channel.refused = 0;
  if (notices_.empty()) notices_.resize(ports_.size());
  auto& notice = notices_[static_cast<std::size_t>(from)];
  if (!notice) {
    notice = std::make_unique<slot_notice>();
    notice->job = this;
    notice->rank = from;
  }
  // One that is on its way will do: the sender tries again everywhere.
  if (std::exchange(notice->planned, true)) return;
  engine_.schedule(engine_.now() + (from == to ? 0 : latency_), *notice);
}

void sim_job::tell(const std::string& what) {
  char at[48];
  std::snprintf(at, sizeof at, "at %.9f s ", 1e-9 * static_cast<double>(engine_.now()));
  told_.push_back(at + what);
}

void sim_job::plan_faults() {
  const auto rank_of = [&](int given) {
    return given >= 0 ? given : static_cast<int>(engine_.random_below(static_cast<std::uint64_t>(world_.ranks)));
  };
  const auto part = [&] { return static_cast<double>(engine_.random() >> 11) * 0x1p-53; };
  for (const auto& s : world_.faults.slow) {
    const int rank = rank_of(s.rank);
    const double factor = s.factor > 0 ? s.factor : 2 + 18 * part();
    engine_.slow(*ports_[static_cast<std::size_t>(rank)]->core, factor);
    tell("rank " + std::to_string(rank) + " is " + std::to_string(factor) + " times slower than the others");
  }
  const auto plan = [&](int given, double at, double how_long) {
    const int rank = rank_of(given);
    planned_.push_back(std::make_unique<fault>(*this, rank, how_long));
    engine_.schedule(to_ns(at >= 0 ? at : 1e-3 * part()), *planned_.back());
  };
  for (const auto& p : world_.faults.pause) plan(p.rank, p.at, p.seconds >= 0 ? p.seconds : 10e-3 * part());
  for (const auto& c : world_.faults.crash) plan(c.rank, c.at, -1);
}

// Replay --------------------------------------------------------------------------------------------------------------

namespace {

std::string quoted(const std::string& word) {
  if (!word.empty() && word.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                              "_-+=./:,@%") == std::string::npos)
    return word;
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

} // namespace

std::string replay_command(const world& w, const std::string& trace) {
  // In the environment, since a program may look at its arguments before Tern takes its own out of
  // them.
  std::string text = "TERN_SIM=" + quoted(to_string(w));
  if (!trace.empty()) text += " TERN_TRACE=" + quoted(trace);
  const auto known = [](std::string_view word, std::string_view dashes) {
    for (const char* name : {"sim", "transport", "ranks", "workers", "trace", "started"}) // the last: `tern sim`'s
      if (word.starts_with(dashes) && word.substr(dashes.size()) == name) return true;
    return false;
  };
  for (char** variable = environ; *variable; ++variable) {
    const std::string_view all = *variable, name = all.substr(0, all.find('='));
    std::string low(name);
    for (char& c : low) c = c == '_' ? '-' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    if (name.starts_with("TERN_") && name.size() < all.size() && !known(low, "tern-"))
      text += " " + std::string(name) + "=" + quoted(std::string(all.substr(name.size() + 1)));
  }
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  const std::string all{std::istreambuf_iterator<char>(file), {}};
  bool value = false; // of an option that the text has already
  for (std::size_t i = 0; i < all.size();) {
    const std::string word(all.c_str() + i);
    i += word.size() + 1;
    if (std::exchange(value, false)) continue;
    if (known(std::string_view(word).substr(0, word.find('=')), "--tern-"))
      value = word.find('=') == word.npos;
    else
      text += " " + quoted(word);
  }
  return text;
}

void tell_replay(const world& w) noexcept {
  std::fprintf(stderr, "tern: to see it again: %s\n", replay_command(w, "replay.json").c_str());
}

void give_up(const world& w, int code) noexcept {
  net::merge_at_once();
  tell_replay(w);
  std::fflush(stdout);
  std::fflush(stderr);
  std::_Exit(code);
}

} // namespace tern::sim::detail
