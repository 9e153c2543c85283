// SPDX-License-Identifier: Apache-2.0
#include <tern/hetero/plan/graph_of_tasks.hpp>

#include <algorithm>
#include <bit>
#include <map>
#include <mutex>
#include <unordered_map>

#include <tern/hetero/graph/runtime.hpp>

namespace tern::hetero::detail {
namespace {

// Of a link that no copy has shown yet: seconds, bytes a second.
constexpr double guessed_latency = 1e-5, guessed_bandwidth = 8e9;

struct shape_hash {
  std::uint64_t so_far = 0x9e3779b97f4a7c15;
  void add(std::uint64_t v) noexcept {
    so_far = std::rotl(so_far ^ (v * 0xff51afd7ed558ccd), 29) * 0xc4ceb9fe1a85ec53 + 1;
  }
  template <class T> void add_all(const T& all) noexcept {
    for (const auto v : all) add(static_cast<std::uint64_t>(v));
  }
};

kernel_at kernel_of(task_record& t) noexcept {
  if (!t.work || !t.work->kernel) return {};
  for (unsigned k = 0; k < device_kinds_most; ++k)
    if (t.kinds >> k & 1)
      if (const kernel_at at = t.work->kernel(t, static_cast<device_kind>(k)); at.code) return at;
  return {};
}

struct part_of_object {
  object_state* object;
  box part;
  std::uint32_t number;
};

/// All parts that tasks use, by object.
class parts_used {
public:
  explicit parts_used(const std::vector<task_record*>& tasks) {
    for (task_record* t : tasks)
      for (std::size_t i = 0; i < t->use_count; ++i) add(t->use_at(i));
  }
  std::size_t count() const noexcept { return count_; }
  template <class F> void each_met(const use& u, F&& f) const {
    for (const part_of_object& x : by_object_.at(u.object->number))
      if (x.part.meets(u.part)) f(x.number);
  }
  template <class F> void each(F&& f) const {
    for (const auto& [number, all] : by_object_)
      for (const part_of_object& x : all) f(x);
  }

private:
  void add(const use& u) {
    std::vector<part_of_object>& all = by_object_[u.object->number];
    if (std::none_of(all.begin(), all.end(), [&](const part_of_object& x) { return x.part == u.part; }))
      all.push_back({u.object, u.part, count_++});
  }
  std::unordered_map<std::uint64_t, std::vector<part_of_object>> by_object_;
  std::uint32_t count_ = 0;
};

/// A bit for each device in whose memory all of the part is valid.
std::uint64_t valid_devices(const device_table& devices, object_state& o, const box& part) {
  std::uint64_t spaces = ~std::uint64_t{0};
  {
    const std::lock_guard hold(o.lock);
    o.each(part, [&](fragment& f) {
      std::uint64_t here = 0;
      for (std::size_t k = 0; k < o.instances.size(); ++k)
        if (f.valid >> k & 1) here |= std::uint64_t{1} << o.instances[k].space;
      spaces &= here;
    });
  }
  std::uint64_t all = 0;
  for (std::size_t d = 0; d < devices.count(); ++d)
    if (spaces >> devices.space_of(d) & 1) all |= std::uint64_t{1} << d;
  return all;
}

std::vector<double> copies_of_bytes(runtime& r, std::uint64_t bytes) {
  const device_table& devices = r.devices();
  const std::size_t n = devices.count();
  std::vector<double> all(n * n, 0);
  for (std::size_t a = 0; a < n; ++a)
    for (std::size_t b = 0; b < n; ++b)
      if (devices.space_of(a) != devices.space_of(b))
        all[a * n + b] = r.sampler()
                             .expected_copy(a, b, bytes)
                             .value_or(guessed_latency + static_cast<double>(bytes) / guessed_bandwidth);
  return all;
}

} // namespace

std::uint64_t shape_of_round(const std::vector<task_record*>& tasks) noexcept {
  shape_hash h;
  h.add(tasks.size());
  for (task_record* t : tasks) {
    const kernel_at at = kernel_of(*t);
    h.add(reinterpret_cast<std::uintptr_t>(at.code ? static_cast<const void*>(at.code) // address: compared only
                                                   : static_cast<const void*>(t->work)));
    if (at.shape) {
      h.add_all(at.shape->groups);
      h.add_all(at.shape->items);
    }
    h.add(t->kinds);
    for (std::size_t i = 0; i < t->use_count; ++i) {
      const use& u = t->use_at(i);
      h.add(u.object->number);
      h.add_all(u.part.low);
      h.add_all(u.part.high);
      h.add(static_cast<std::uint64_t>(u.how));
    }
  }
  return h.so_far;
}

heft_problem graph_of_tasks(const std::vector<task_record*>& tasks) {
  heft_problem p;
  const parts_used parts(tasks);
  p.tasks.resize(tasks.size());
  p.pieces.resize(parts.count());
  struct order {
    std::int64_t writer = -1;
    std::vector<std::uint32_t> readers; // since
  };
  std::vector<order> orders(parts.count());
  for (std::uint32_t n = 0; n < tasks.size(); ++n) {
    heft_problem::task& t = p.tasks[n];
    for (std::size_t i = 0; i < tasks[n]->use_count; ++i) {
      const use& u = tasks[n]->use_at(i);
      parts.each_met(u, [&](std::uint32_t piece) {
        const bool read = reads(u.how), written = writes(u.how);
        t.uses.push_back({piece, read, written});
        order& o = orders[piece];
        if (o.writer >= 0 && o.writer != n) t.before.push_back(static_cast<std::uint32_t>(o.writer));
        if (!written) {
          o.readers.push_back(n);
          return;
        }
        for (const std::uint32_t other : o.readers)
          if (other != n) t.before.push_back(other);
        o.readers.clear();
        o.writer = n;
      });
    }
    std::sort(t.before.begin(), t.before.end());
    t.before.erase(std::unique(t.before.begin(), t.before.end()), t.before.end());
  }
  return p;
}

std::int64_t add_expected(runtime& r, const std::vector<task_record*>& tasks, heft_problem& p) {
  const device_table& devices = r.devices();
  p.units.clear();
  for (std::size_t d = 0; d < devices.count(); ++d) p.units.push_back(d == 0 ? devices.info(0).compute_units : 1);
  for (std::size_t n = 0; n < tasks.size(); ++n) {
    std::vector<double>& seconds = p.tasks[n].seconds;
    seconds.assign(devices.count(), heft_problem::impossible);
    bool known = false;
    for (std::size_t d = 0; d < devices.count(); ++d)
      if (r.placement().allowed(*tasks[n], static_cast<int>(d)))
        if (const auto time = r.sampler().expected_time(*tasks[n], d)) {
          seconds[d] = *time;
          known = true;
        }
    if (!known) return static_cast<std::int64_t>(n);
  }
  const parts_used parts(tasks);
  std::map<std::uint64_t, std::vector<double>> copies; // by bytes: few differ
  parts.each([&](const part_of_object& x) {
    const std::uint64_t bytes = static_cast<std::uint64_t>(x.part.size()) * x.object->element;
    auto found = copies.find(bytes);
    if (found == copies.end()) found = copies.emplace(bytes, copies_of_bytes(r, bytes)).first;
    p.pieces[x.number] = {found->second, valid_devices(devices, *x.object, x.part)};
  });
  return -1;
}

} // namespace tern::hetero::detail
