// SPDX-License-Identifier: Apache-2.0
#include <tern/hetero/policy.hpp>

#include <algorithm>
#include <map>
#include <random>
#include <vector>

#include <tern/base/error.hpp>
#include <tern/base/options/option_table.hpp>
#include <tern/hetero/graph/runtime.hpp>

namespace tern::hetero {

namespace {

std::map<std::string, policy_maker, std::less<>>& makers();
/// \throws error(invalid_option).
policy_maker find_maker(std::string_view name);

} // namespace

const option<std::string> hetero_policy{
    "hetero-policy",
    "locality",
    "where tasks run that could run on several devices: locality, eager, round-robin, random, or one of the program's",
    {.verify = [](const std::string& name, const options&) { static_cast<void>(find_maker(name)); }}};

const char* ready_task::name() const noexcept { return task_->text_name(); }
int ready_task::priority() const noexcept { return task_->priority; }
bool ready_task::may_run_on(int device) const noexcept { return task_->home->allowed(*task_, device); }
std::int64_t ready_task::bytes_missing(int device) const {
  return task_->home->bytes_missing(task_, static_cast<std::uint8_t>(device));
}

void ready_queue::push(ready_task t) {
  detail::task_record* const x = t.inside();
  const auto [at, fresh] = lines_.try_emplace(x->priority);
  line& l = at->second;
  if (!fresh && !l.first) --empty_lines_;
  x->next = nullptr;
  (l.first ? l.last->next : l.first) = x;
  l.last = x;
  ++count_;
}
detail::task_record* ready_queue::after(detail::task_record* t) noexcept { return t->next; }
ready_task ready_queue::unlink(line& of, detail::task_record* before, detail::task_record* t) noexcept {
  (before ? before->next : of.first) = t->next;
  if (of.last == t) of.last = before;
  t->next = nullptr;
  --count_;
  constexpr std::size_t kept = 16; // lines without tasks: priorities come again
  if (!of.first && ++empty_lines_ > kept) {
    std::erase_if(lines_, [](const auto& one) { return !one.second.first; });
    empty_lines_ = 0;
  }
  return ready_task(t);
}

namespace {

bool usable(const ready_task& t, std::span<const device_load> devices, std::size_t d) {
  return !devices[d].lost && t.may_run_on(static_cast<int>(d));
}
bool anywhere(const ready_task& t, std::span<const device_load> devices) {
  for (std::size_t d = 0; d < devices.size(); ++d)
    if (usable(t, devices, d)) return true;
  return false;
}

/// Numbers of devices with room, those with the fewest tasks first.
void by_load(std::span<const device_load> devices, std::vector<std::size_t>& order) {
  order.clear();
  for (std::size_t d = 0; d < devices.size(); ++d)
    if (devices[d].free_slots > 0 && !devices[d].lost) order.push_back(d);
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return devices[a].tasks != devices[b].tasks ? devices[a].tasks < devices[b].tasks : a < b;
  });
}

class eager final : public policy {
public:
  const char* name() const noexcept override { return "eager"; }
  void push(ready_task t, std::span<const device_load> devices) override {
    (anywhere(t, devices) ? queue_ : unplaceable_).push(t);
  }
  std::optional<placement> pop(std::span<const device_load> devices) override {
    if (const auto t = unplaceable_.take([](const ready_task&) { return true; })) return placement{*t, -1};
    if (queue_.empty()) return std::nullopt;
    if (std::any_of(devices.begin(), devices.end(), [](const device_load& l) { return l.lost; }))
      if (const auto t = queue_.take([&](const ready_task& x) { return !anywhere(x, devices); }))
        return placement{*t, -1};
    by_load(devices, order_);
    for (const std::size_t d : order_)
      if (const auto t = queue_.take([&](const ready_task& x) { return usable(x, devices, d); }))
        return placement{*t, static_cast<int>(d)};
    return std::nullopt;
  }

private:
  ready_queue queue_, unplaceable_;
  std::vector<std::size_t> order_;
};

/// A queue for each device, into which a task is put at once.
class by_device : public policy {
public:
  void push(ready_task t, std::span<const device_load> devices) final {
    queues_.resize(std::max(queues_.size(), devices.size()));
    const int d = choose(t, devices);
    if (d < 0)
      unplaceable_.push(t);
    else
      queues_[static_cast<std::size_t>(d)].push(t);
  }
  std::optional<placement> pop(std::span<const device_load> devices) final {
    queues_.resize(std::max(queues_.size(), devices.size()));
    for (std::size_t d = 0; d < devices.size(); ++d) // those of a lost device are chosen for again
      while (devices[d].lost && !queues_[d].empty()) push(*take(d), devices);
    if (const auto t = unplaceable_.take([](const ready_task&) { return true; })) return placement{*t, -1};
    by_load(devices, order_);
    for (const std::size_t d : order_)
      if (const auto t = take(d)) return placement{*t, static_cast<int>(d)};
    for (const std::size_t d : order_)
      if (const auto t = steal(d, devices)) return placement{*t, static_cast<int>(d)};
    return std::nullopt;
  }

protected:
  /// \return -1 if it may run nowhere.
  virtual int choose(const ready_task& t, std::span<const device_load> devices) = 0;
  /// For device `d`, which has room and nothing of its own.
  virtual std::optional<ready_task> steal(std::size_t, std::span<const device_load>) { return std::nullopt; }
  std::vector<ready_queue> queues_;

private:
  std::optional<ready_task> take(std::size_t d) {
    return queues_[d].take([](const ready_task&) { return true; });
  }
  ready_queue unplaceable_;
  std::vector<std::size_t> order_;
};

/// Where the fewest bytes are missing; among those where the fewest tasks are.
class locality final : public by_device {
public:
  const char* name() const noexcept override { return "locality"; }

protected:
  int choose(const ready_task& t, std::span<const device_load> devices) override {
    int best = -1;
    std::int64_t missing = 0;
    std::size_t tasks = 0;
    for (std::size_t d = 0; d < devices.size(); ++d) {
      if (!usable(t, devices, d)) continue;
      const std::int64_t m = t.bytes_missing(static_cast<int>(d));
      const std::size_t n = static_cast<std::size_t>(devices[d].tasks) + queues_[d].size();
      if (best >= 0 && (m > missing || (m == missing && n >= tasks))) continue;
      best = static_cast<int>(d);
      missing = m;
      tasks = n;
    }
    return best;
  }
  std::optional<ready_task> steal(std::size_t d, std::span<const device_load> devices) override {
    for (std::size_t v = 0; v < queues_.size(); ++v)
      if (v != d && devices[v].free_slots <= 0)
        if (auto t = queues_[v].take([&](const ready_task& x) { return usable(x, devices, d); })) return t;
    return std::nullopt;
  }
};

class round_robin final : public by_device {
public:
  const char* name() const noexcept override { return "round-robin"; }

protected:
  int choose(const ready_task& t, std::span<const device_load> devices) override {
    for (std::size_t i = 0; i < devices.size(); ++i) {
      const std::size_t d = next_++ % devices.size();
      if (usable(t, devices, d)) return static_cast<int>(d);
    }
    return -1;
  }

private:
  std::size_t next_ = 0;
};

class random_choice final : public by_device {
public:
  explicit random_choice(std::uint64_t seed) : generator_(seed) {}
  const char* name() const noexcept override { return "random"; }

protected:
  int choose(const ready_task& t, std::span<const device_load> devices) override {
    std::size_t possible = 0;
    for (std::size_t d = 0; d < devices.size(); ++d) possible += usable(t, devices, d) ? 1 : 0;
    if (possible == 0) return -1;
    std::size_t wanted = generator_() % possible;
    std::size_t d = 0;
    while (!usable(t, devices, d) || wanted-- > 0) ++d;
    return static_cast<int>(d);
  }

private:
  std::mt19937_64 generator_;
};

std::map<std::string, policy_maker, std::less<>>& makers() {
  static std::map<std::string, policy_maker, std::less<>> all{
      {"locality", [](std::uint64_t) -> std::unique_ptr<policy> { return std::make_unique<locality>(); }},
      {"eager", [](std::uint64_t) -> std::unique_ptr<policy> { return std::make_unique<eager>(); }},
      {"round-robin", [](std::uint64_t) -> std::unique_ptr<policy> { return std::make_unique<round_robin>(); }},
      {"random", [](std::uint64_t seed) -> std::unique_ptr<policy> { return std::make_unique<random_choice>(seed); }}};
  return all;
}

policy_maker find_maker(std::string_view name) {
  const auto at = makers().find(name);
  if (at != makers().end()) return at->second;
  std::vector<std::string> known;
  for (const auto& [other, make] : makers()) known.push_back(other);
  throw error(errc::invalid_option, "there is no policy '" + std::string(name) + "'",
              tern::detail::nearest_of(name, known, "there are"));
}

} // namespace

policy_registration::policy_registration(std::string_view name, policy_maker make) {
  if (!makers().emplace(name, make).second)
    throw error(errc::already_exists, "two policies are called '" + std::string(name) + "'",
                "give one of them another name");
}

std::unique_ptr<policy> make_policy(std::string_view name, std::uint64_t seed) { return find_maker(name)(seed); }

} // namespace tern::hetero
