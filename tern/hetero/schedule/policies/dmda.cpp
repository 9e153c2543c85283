// SPDX-License-Identifier: Apache-2.0
/// \file
/// Where a task is expected to end first, with the copies that it needs: "deque model, data aware"
/// (StarPU's dmda: Augonnet, Thibault, Namyst, Wacrenier 2011), after HEFT (Topcuoglu, Hariri, Wu
/// 2002).
///
/// When a task becomes ready, each device d gets a score, α(EFT(d) − least EFT) + β·copies(d) +
/// γ·J(d), and the task goes into the queue of the one with the least. EFT = max(when the device
/// has time, when the data can be there) + the expected time; copies: what missing data take on
/// the link, which is a queue as well; J: joules. Parameters: `alpha`, `beta`, `gamma` (seconds a
/// joule).
///
/// In a queue higher priorities come first. Of equal ones, of the first 16, that with the fewest
/// missing bytes does: what has been copied is used before it has to go.
///
/// A device on which the task's time is not known is tried: by one task of a size class at a time,
/// and by at most a tenth of the tasks that the device could run. The others go by the times that
/// are known. Where none is, or one never will be (a function of the program's; a device that does
/// not measure), the task goes where the fewest bytes are missing, and a device without work takes
/// it from one that has too much, as under `locality`.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include <tern/hetero/schedule/policies/by_device.hpp>
#include <tern/hetero/schedule/policies/load_estimate.hpp>
#include <tern/hetero/schedule/policy_entry.hpp>

namespace tern::hetero::detail {
namespace {

constexpr std::size_t looked_at = 16; ///< in a queue, for the one with the fewest missing bytes
constexpr std::size_t tried_of = 10;  ///< one in so many tasks may be a try
// Of a link that no copy has shown yet: seconds, bytes a second.
constexpr double guessed_latency = 1e-5, guessed_bandwidth = 8e9;
constexpr float not_known = -1; ///< as a task's note, which is its expected time

class dmda final : public policy {
public:
  explicit dmda(policy_parameters& p)
      : alpha_(p.number("alpha", 1, 0, 1e9)), beta_(p.number("beta", 1, 0, 1e9)), gamma_(p.number("gamma", 0, 0, 1e9)) {
  }
  const char* name() const noexcept override { return "dmda"; }
  void push(ready_task t, std::span<const device_load> devices) override;
  std::optional<placement> pop(std::span<const device_load> devices) override;
  bool follow(ready_task t, int device, std::span<const device_load> devices) override;
  void ended(ready_task t, int device, std::span<const device_load>) override {
    devices_[static_cast<std::size_t>(device)].load.end(t, t.now());
    std::erase_if(tries_, [&](const attempt& a) { return a.task == t; });
  }

private:
  struct queue_of {
    ready_queue tasks;
    load_estimate load;
    int slots = 0;            ///< free ones, when it had no task
    double link_free = 0;     ///< when copies to it can begin
    std::size_t possible = 0; ///< tasks that it could run, so far
    std::size_t tries = 0;    ///< of these
    std::size_t unknown = 0;  ///< tasks in the queue of which the time is not known
  };
  struct attempt {
    ready_task task;
    std::uint64_t size_class;
    std::size_t device;
  };
  struct candidate {
    std::size_t device;
    double seconds;
    double copies, arrival; ///< seconds on the link; when all of its data are there
    double end;             ///< EFT
  };
  struct promise { ///< a piece of data is on its way for another task, or will be
    double arrival;
    double until; ///< when that task is expected to begin
  };

  void know(std::span<const device_load> devices);
  std::size_t by_bytes(const ready_task& t, std::span<const device_load> devices) const;
  const candidate& best_of(const ready_task& t, double now);
  void look_at_copies(const ready_task& t, candidate& c, double now);
  void promise_data(const ready_task& t, const candidate& c, double now);
  void put(ready_task t, std::size_t d, float seconds);
  ready_task take_out(ready_task t, std::size_t d) noexcept;
  bool takes_more(const device_load& l, std::size_t d) const noexcept;
  std::optional<ready_task> take(std::size_t d);
  std::optional<ready_task> take_unknown(std::size_t d, std::span<const device_load> devices);
  static std::uint64_t promised(std::uint64_t piece, std::size_t d) noexcept { return piece * 257 + d; }

  const double alpha_, beta_, gamma_;
  std::vector<queue_of> devices_;
  std::size_t queued_ = 0; // tasks, in all queues of devices
  ready_queue unplaceable_;
  std::vector<attempt> tries_; ///< that have not ended
  std::unordered_map<std::uint64_t, promise> promises_;
  // For their memory.
  std::vector<candidate> candidates_;
  std::vector<attempt> untried_;
  std::vector<missing_data> missing_;
  std::vector<std::size_t> order_;
};

void dmda::know(std::span<const device_load> devices) {
  for (std::size_t d = devices_.size(); d < devices.size(); ++d) {
    const int slots = devices[d].free_slots + devices[d].tasks;
    const int units = d == 0 ? devices[d].info->compute_units : 1;
    devices_.push_back({.tasks = {}, .load = load_estimate(units, d == 0 ? units : slots), .slots = slots});
  }
}

void dmda::push(ready_task t, std::span<const device_load> devices) {
  know(devices);
  candidates_.clear();
  untried_.clear();
  std::size_t possible = 0, last = 0;
  bool never_known = false;
  for (std::size_t d = 0; d < devices.size(); ++d) {
    if (!usable(t, devices, d)) continue;
    ++possible;
    last = d;
    ++devices_[d].possible;
    if (const auto seconds = t.expected_time(static_cast<int>(d)))
      candidates_.push_back({d, *seconds, 0, 0, 0});
    else if (const std::uint64_t size_class = t.size_class(static_cast<int>(d)))
      untried_.push_back({t, size_class, d});
    else
      never_known = true;
  }
  if (possible == 0) return unplaceable_.push(t);
  if (possible == 1) // nothing is left to choose
    return put(t, last, candidates_.empty() ? not_known : static_cast<float>(candidates_.front().seconds));
  if (!never_known)
    for (const attempt& a : untried_) {
      queue_of& q = devices_[a.device];
      const bool under_way = std::any_of(tries_.begin(), tries_.end(), [&](const attempt& other) {
        return other.size_class == a.size_class && other.device == a.device;
      });
      if (under_way || q.tries * tried_of >= q.possible) continue;
      ++q.tries;
      tries_.push_back(a);
      return put(t, a.device, not_known);
    }
  if (never_known || candidates_.empty()) return put(t, by_bytes(t, devices), not_known);
  const double now = t.now();
  const candidate& best = best_of(t, now);
  promise_data(t, best, now);
  put(t, best.device, static_cast<float>(best.seconds));
}

// As `locality` chooses.
std::size_t dmda::by_bytes(const ready_task& t, std::span<const device_load> devices) const {
  std::optional<std::size_t> best;
  std::int64_t missing = 0;
  std::size_t tasks = 0;
  for (std::size_t d = 0; d < devices.size(); ++d) {
    if (!usable(t, devices, d)) continue;
    const std::int64_t m = t.bytes_missing(static_cast<int>(d));
    const std::size_t n = static_cast<std::size_t>(devices[d].tasks) + devices_[d].tasks.size();
    if (best && (m > missing || (m == missing && n >= tasks))) continue;
    best = d;
    missing = m;
    tasks = n;
  }
  return *best;
}

void dmda::look_at_copies(const ready_task& t, candidate& c, double now) {
  t.find_missing(static_cast<int>(c.device), missing_);
  for (const missing_data& m : missing_) {
    const auto found = promises_.find(promised(m.piece, c.device));
    if (found != promises_.end() && found->second.until > now) {
      c.arrival = std::max(c.arrival, found->second.arrival);
      continue;
    }
    c.copies += t.expected_copy(m.from, static_cast<int>(c.device), m.bytes)
                    .value_or(guessed_latency + static_cast<double>(m.bytes) / guessed_bandwidth);
  }
  if (c.copies > 0) c.arrival = std::max({c.arrival, now + c.copies, devices_[c.device].link_free + c.copies});
}

const dmda::candidate& dmda::best_of(const ready_task& t, double now) {
  double first = 0;
  for (candidate& c : candidates_) {
    look_at_copies(t, c, now);
    c.end = std::max(devices_[c.device].load.free_at(t.priority(), now), c.arrival) + c.seconds;
    first = &c == &candidates_.front() ? c.end : std::min(first, c.end);
  }
  const candidate* best = nullptr;
  double least = 0;
  for (const candidate& c : candidates_) {
    double score = alpha_ * (c.end - first) + beta_ * c.copies;
    if (gamma_ > 0) score += gamma_ * t.expected_joules(static_cast<int>(c.device), c.seconds).value_or(0);
    if (best && score >= least) continue;
    best = &c;
    least = score;
  }
  return *best;
}

// Other tasks that need the same data there need not wait for copies of their own.
void dmda::promise_data(const ready_task& t, const candidate& c, double now) {
  if (c.copies <= 0) return;
  constexpr std::size_t many = 4096;
  if (promises_.size() >= many) std::erase_if(promises_, [now](const auto& one) { return one.second.until <= now; });
  t.find_missing(static_cast<int>(c.device), missing_);
  for (const missing_data& m : missing_) {
    promise& p = promises_[promised(m.piece, c.device)];
    if (p.until <= now) p = {c.arrival, c.end - c.seconds};
  }
  devices_[c.device].link_free = std::max(devices_[c.device].link_free, c.arrival);
}

void dmda::put(ready_task t, std::size_t d, float seconds) {
  t.set_note(seconds);
  devices_[d].tasks.push(t);
  devices_[d].load.queue(t.priority(), static_cast<double>(seconds));
  if (seconds < 0) ++devices_[d].unknown;
  ++queued_;
}

ready_task dmda::take_out(ready_task t, std::size_t d) noexcept {
  devices_[d].load.take_out(t.priority(), static_cast<double>(t.note()));
  if (t.note() < 0) --devices_[d].unknown;
  --queued_;
  return t;
}

// The host is given no more tasks ahead than it has workers: until they begin they could still be
// overtaken by others.
bool dmda::takes_more(const device_load& l, std::size_t d) const noexcept {
  return d != 0 || devices_[0].slots - l.free_slots < devices_[0].load.units();
}

std::optional<ready_task> dmda::take(std::size_t d) {
  const auto t = devices_[d].tasks.take_least(
      looked_at, [d](const ready_task& x) { return x.bytes_missing(static_cast<int>(d)); });
  return t ? std::optional(take_out(*t, d)) : std::nullopt;
}

// As `locality` steals.
std::optional<ready_task> dmda::take_unknown(std::size_t d, std::span<const device_load> devices) {
  for (std::size_t v = 0; v < devices_.size(); ++v)
    if (v != d && devices[v].free_slots <= 0 && devices_[v].unknown > 0)
      if (const auto t =
              devices_[v].tasks.take([&](const ready_task& x) { return x.note() < 0 && usable(x, devices, d); }))
        return take_out(*t, v);
  return std::nullopt;
}

// If it would be chosen for the device now, of which all times must be known.
bool dmda::follow(ready_task t, int device, std::span<const device_load> devices) {
  know(devices);
  if (t.bytes_missing(device) > 0) return false;
  candidates_.clear();
  for (std::size_t d = 0; d < devices.size(); ++d) {
    if (!usable(t, devices, d)) continue;
    const auto seconds = t.expected_time(static_cast<int>(d));
    if (!seconds) return false;
    candidates_.push_back({d, *seconds, 0, 0, 0});
  }
  if (candidates_.empty()) return false;
  const candidate& best = best_of(t, t.now());
  if (best.device != static_cast<std::size_t>(device)) return false;
  t.set_note(static_cast<float>(best.seconds));
  devices_[best.device].load.give(t, best.seconds, t.now());
  return true;
}

std::optional<placement> dmda::pop(std::span<const device_load> devices) {
  if (queued_ == 0 && unplaceable_.empty()) return std::nullopt;
  know(devices);
  for (std::size_t d = 0; d < devices.size(); ++d) // those of a lost device are chosen for again
    while (devices[d].lost && !devices_[d].tasks.empty()) {
      const ready_task t = *take(d);
      std::erase_if(tries_, [&](const attempt& a) { return a.task == t; });
      push(t, devices);
    }
  if (const auto t = unplaceable_.take([](const ready_task&) { return true; })) return placement{*t, -1};
  by_load(devices, order_);
  std::erase_if(order_, [&](std::size_t d) { return !takes_more(devices[d], d); });
  const auto give = [&](ready_task t, std::size_t d) {
    devices_[d].load.give(t, static_cast<double>(t.note()), t.now());
    return placement{t, static_cast<int>(d)};
  };
  for (const std::size_t d : order_)
    if (const auto t = take(d)) return give(*t, d);
  for (const std::size_t d : order_)
    if (const auto t = take_unknown(d, devices)) return give(*t, d);
  return std::nullopt;
}

} // namespace

extern const policy_entry dmda_policy;
constinit const policy_entry dmda_policy{
    "dmda", nullptr,
    [](std::uint64_t, policy_parameters& given) -> std::unique_ptr<policy> { return std::make_unique<dmda>(given); }};

} // namespace tern::hetero::detail
