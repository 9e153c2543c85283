// SPDX-License-Identifier: Apache-2.0
/// \file
/// What the job's statistics say of objects.
#include <tern/mobile/directory.hpp>

#include <mutex>

#include <tern/mobile/directory/directory_parts.hpp>

namespace tern::mobile {
namespace {

enum column : std::size_t { created, living, arrived, left, mib, invocations, columns };

} // namespace

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
  for (const detail::shard& s : objects_.shards()) {
    const std::lock_guard hold(s.lock);
    for (const detail::class_counts& c : s.counts) {
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

} // namespace tern::mobile
