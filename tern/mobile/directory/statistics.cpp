// SPDX-License-Identifier: Apache-2.0
/// \file
/// What traces and the job's statistics say of objects.
#include <tern/mobile/directory.hpp>

#include <mutex>
#include <utility>

#include <tern/trace/record/events.hpp>

namespace tern::mobile {
namespace {

enum column : std::size_t { created, living, arrived, left, mib, invocations, columns };

} // namespace

// Under the shard's lock. An object's class is there from its first moment on this rank.
directory::class_counts& directory::shard::of(const type_record& type) {
  for (class_counts& c : counts)
    if (c.type == &type) return c;
  counts.push_back({&type});
  return counts.back();
}

// Under the shard's lock: the object is no longer here.
void directory::shard::add_runs(const type_record& type, entry& e) noexcept {
  of(type).invocations += std::exchange(e.runs, 0);
}

net::stats_table directory::statistics() {
  net::stats_table t;
  t.of = "class of objects";
  t.columns.resize(columns);
  t.columns[created] = {"created"};
  t.columns[living] = {"living"};
  t.columns[arrived] = {"arrived"};
  t.columns[left] = {"left"};
  t.columns[mib] = {"MiB", 2};
  t.columns[invocations] = {"invocations"};
  const auto number = [](std::uint64_t n) { return static_cast<double>(n); };
  for (std::size_t k = 0; k < shards; ++k) {
    const shard& s = shards_[k];
    const std::lock_guard hold(s.lock);
    for (const class_counts& c : s.counts) {
      auto& sum = t.at(c.type->name).values;
      sum[created] += number(c.created);
      sum[living] += number(c.created + c.arrived - c.left - c.destroyed);
      sum[arrived] += number(c.arrived);
      sum[left] += number(c.left);
      sum[mib] += number(c.bytes) / (1024 * 1024);
      sum[invocations] += number(c.invocations);
    }
    for (std::size_t i = 0; i < s.entries.capacity(); ++i)
      if (const entry* e = s.entries.at(i); e && e->type && e->runs > 0)
        t.at(e->type->name).values[invocations] += number(e->runs);
  }
  return t;
}

void directory::trace_object(object_id id, const type_record& type) noexcept {
  trace::detail::works_on(trace::detail::name_number(type.name), id.bits);
}

// By who has the object alone.
void directory::trace_name(object_id id, const type_record& type, const void* object) noexcept {
  if (!type.called) return;
  try {
    if (const std::string name = type.called(object); !name.empty()) trace::detail::name_object(id.bits, name);
  } catch (...) { // it cannot say, and is shown by its class and number
  }
}

void directory::trace_departure(object_id id, const type_record& type, int to, std::size_t bytes) noexcept {
  trace_object(id, type);
  trace::detail::departs(trace::detail::name_number(type.name), id.bits, to, bytes);
}

void directory::trace_landing(object_id id, const type_record& type, const void* object, int from,
                              std::size_t bytes) noexcept {
  trace_name(id, type, object);
  trace::detail::lands(trace::detail::name_number(type.name), id.bits, from, bytes);
}

} // namespace tern::mobile
