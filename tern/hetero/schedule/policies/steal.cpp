// SPDX-License-Identifier: Apache-2.0
/// \file
/// A queue for each device, and devices of one model take from each other: work stealing
/// (Blumofe, Leiserson 1999), as far as expected times say that it pays.
///
/// When a task becomes ready, the model of device on which it is expected to end first gets it,
/// where devices of a model share what they have to do; of these, the one where the fewest bytes
/// are missing, and of several the one that has time first.
///
/// A device that has a free slot and nothing queued takes from the like device whose queue is
/// expected to last longest: from its end, half of the expected time. A task goes only if what it
/// waits less exceeds what copies take more. Tasks that a device has been given stay: their data
/// are on their way.
#include <algorithm>
#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include <tern/hetero/schedule/policies/by_device.hpp>
#include <tern/hetero/schedule/policies/by_time.hpp>
#include <tern/hetero/schedule/policy_entry.hpp>

namespace tern::hetero::detail {
namespace {

class steal final : public by_time {
public:
  const char* name() const noexcept override { return "steal"; }

protected:
  const candidate& choose(const ready_task& t, std::span<const candidate> all, std::span<const device_load> devices,
                          double now) override {
    const candidate* best = nullptr;
    double least = 0;
    for (const candidate& c : all) {
      if (std::any_of(all.begin(), all.end(), [&](const candidate& before) {
            return before.device < c.device && like(devices, before.device, c.device);
          }))
        continue; // its model has been looked at
      double free = 0;
      std::size_t of_model = 0;
      const candidate* nearest = nullptr;
      for (const candidate& other : all)
        if (like(devices, other.device, c.device)) {
          free += free_at(t, other, now);
          ++of_model;
          if (!nearest || nearer(t, other, *nearest, now)) nearest = &other;
        }
      const double end = std::max(free / static_cast<double>(of_model), nearest->arrival) + nearest->seconds;
      if (best && end >= least) continue;
      best = nearest;
      least = end;
    }
    return *best;
  }

  void fill(std::size_t d, std::span<const device_load> devices) override {
    std::size_t victim = d;
    double longest = 0;
    for (std::size_t v = 0; v < devices_.size(); ++v)
      if (v != d && like(devices, v, d) && devices_[v].tasks.size() > 0)
        if (const double left = devices_[v].load.queued(); left > longest) {
          longest = left;
          victim = v;
        }
    if (victim != d) take_half(victim, d, longest, devices);
  }

private:
  static bool like(std::span<const device_load> devices, std::size_t a, std::size_t b) {
    return a == b || devices[a].model == devices[b].model;
  }
  double free_at(const ready_task& t, const candidate& c, double now) {
    return devices_[c.device].load.free_at(t.priority(), now);
  }
  bool nearer(const ready_task& t, const candidate& a, const candidate& b, double now) {
    return a.copies != b.copies ? a.copies < b.copies : free_at(t, a, now) < free_at(t, b, now);
  }

  /// Costs a look at each of the victim's tasks, of which half go.
  void take_half(std::size_t victim, std::size_t d, double all, std::span<const device_load> devices) {
    queue_of &from = devices_[victim], &to = devices_[d];
    tasks_.clear();
    while (const auto t = from.tasks.take([](const ready_task&) { return true; })) tasks_.push_back(*t);
    const double now = tasks_.front().now();
    double passed = 0, moved = 0;
    for (const ready_task& t : tasks_) {
      const double seconds = std::max(static_cast<double>(t.note()), 0.0), before = passed;
      passed += seconds;
      if (before < all / 2 || t.note() < 0 || !usable(t, devices, d)) {
        from.tasks.push(t); // it is still counted there
        continue;
      }
      const double start = from.load.running_until(now) + (before - moved) / from.load.units();
      look_at_data(t);
      candidate here = look_at_copies(t, d, seconds, now), there = look_at_copies(t, victim, seconds, now);
      here.end = std::max(to.load.free_at(t.priority(), now), here.arrival) + seconds;
      there.end = std::max(start, there.arrival) + seconds;
      const double earlier = start - to.load.free_at(t.priority(), now);
      if (earlier <= here.copies - there.copies || !may_leave(t, there, here, now)) {
        from.tasks.push(t);
        continue;
      }
      taken_out(t, victim);
      here.end = std::max(to.load.free_at(t.priority(), now), here.arrival) + seconds;
      promise_data(t, here, now);
      put(t, d, t.note());
      moved += seconds;
    }
  }

  std::vector<ready_task> tasks_; // for its memory
};

} // namespace

extern const policy_entry steal_policy;
constinit const policy_entry steal_policy{
    "steal", [](std::uint64_t) -> std::unique_ptr<policy> { return std::make_unique<steal>(); }};

} // namespace tern::hetero::detail
