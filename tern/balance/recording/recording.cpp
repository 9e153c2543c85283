// SPDX-License-Identifier: Apache-2.0
/// \file
/// Recordings of runs: making one of the ranks' parts, and workloads of them. The file is in
/// recording_file.cpp.
#include <tern/balance/recording.hpp>

#include <algorithm>
#include <compare>
#include <limits>
#include <numeric>
#include <tuple>
#include <utility>

#include <tern/base/error.hpp>

namespace tern::balance {
namespace {

constexpr std::size_t most_times = std::size_t{1} << 28;

template <class T> void append(std::vector<T>& to, std::vector<T>& from) {
  if (to.empty())
    to = std::move(from);
  else
    to.insert(to.end(), from.begin(), from.end());
}

/// Neighbours that are `same` become one.
template <class T, class Same, class Add> void add_up(std::vector<T>& all, Same same, Add add) {
  std::size_t kept = 0;
  for (std::size_t i = 1; i < all.size(); ++i)
    if (same(all[kept], all[i]))
      add(all[kept], all[i]);
    else
      all[++kept] = all[i];
  if (!all.empty()) all.resize(kept + 1);
}

/// Equal ones keep their order. (Not std::stable_sort: clang-19 warns of how libstdc++ 12 does it.)
template <class T, class Less> void sort_in_order(std::vector<T>& all, Less less) {
  if (std::is_sorted(all.begin(), all.end(), less)) return;
  std::vector<std::size_t> order(all.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return less(all[a], all[b]) || (!less(all[b], all[a]) && a < b); });
  std::vector<T> sorted;
  sorted.reserve(all.size());
  for (const std::size_t i : order) sorted.push_back(all[i]);
  all = std::move(sorted);
}

/// An order for any two numbers, also those that are none, so that whatever a part holds can be
/// sorted.
template <class T> void sort_by_time(std::vector<T>& all) {
  sort_in_order(all, [](const T& a, const T& b) {
    const auto order = std::strong_order(a.at, b.at);
    if constexpr (requires { a.rank; })
      return order == 0 ? a.rank < b.rank : order < 0;
    else
      return order < 0;
  });
}

} // namespace

std::uint32_t recording::name(std::string_view text) {
  const auto number = static_cast<std::size_t>(std::find(names.begin(), names.end(), text) - names.begin());
  if (number == names.size()) names.emplace_back(text);
  return static_cast<std::uint32_t>(number);
}

void combine(recording& into, recording part) {
  const auto refuse = [](const std::string& what) {
    throw error(errc::invalid_argument, "parts of a recording do not belong together: " + what,
                "combine what the ranks of one run have recorded");
  };
  if (std::tie(into.ranks, into.workers) != std::tie(part.ranks, part.workers))
    refuse(std::to_string(into.ranks) + " ranks of " + std::to_string(into.workers) + " workers, and " +
           std::to_string(part.ranks) + " of " + std::to_string(part.workers));
  if (into.unit != part.unit) refuse("their units of time differ");
  const auto named = [&](std::uint32_t name) {
    if (name >= part.names.size()) refuse("a name is used that the part does not have");
  };
  for (const auto& x : part.objects) named(x.type);
  for (const auto& x : part.notes) named(x.name);

  std::vector<std::uint32_t> names;
  for (const auto& text : part.names) names.push_back(into.name(text));
  for (auto& x : part.objects) x.type = names[x.type];
  for (auto& x : part.notes) x.name = names[x.name];
  into.length = std::max(into.length, part.length);
  if (part.phase_ends.size() > into.phase_ends.size()) std::swap(into.phase_ends, part.phase_ends);
  double end = 0; // a rank that has seen fewer phases may have ended its last one later than others the next
  for (std::size_t i = 0; i < into.phase_ends.size(); ++i) {
    end = std::max(end, into.phase_ends[i]);
    if (i < part.phase_ends.size()) end = std::max(end, part.phase_ends[i]);
    into.phase_ends[i] = end;
  }
  append(into.objects, part.objects);
  append(into.works, part.works);
  append(into.links, part.links);
  append(into.migrations, part.migrations);
  append(into.busies, part.busies);
  append(into.notes, part.notes);
}

void tidy(recording& r) {
  sort_in_order(r.objects, [](const auto& a, const auto& b) { return a.id < b.id; });
  add_up(
      r.objects, [](const auto& a, const auto& b) { return a.id == b.id; }, // that have worked on several ranks
      [](recording::object& one, const recording::object& same) { one.bytes = std::max(one.bytes, same.bytes); });
  const auto by_phase = [](const recording::work& w) { return std::tie(w.object, w.phase); };
  sort_in_order(r.works, [&](const auto& a, const auto& b) { return by_phase(a) < by_phase(b); });
  add_up(
      r.works, [&](const auto& a, const auto& b) { return by_phase(a) == by_phase(b); },
      [](recording::work& sum, const recording::work& w) {
        const std::uint64_t both = std::uint64_t{sum.invocations} + w.invocations;
        sum.invocations =
            static_cast<std::uint32_t>(std::min<std::uint64_t>(both, std::numeric_limits<std::uint32_t>::max()));
        sum.seconds += w.seconds;
        sum.device += w.device;
      });
  const auto by_ends = [](const recording::link& l) { return std::tie(l.from, l.to); };
  sort_in_order(r.links, [&](const auto& a, const auto& b) { return by_ends(a) < by_ends(b); });
  add_up(
      r.links, [&](const auto& a, const auto& b) { return by_ends(a) == by_ends(b); },
      [](recording::link& sum, const recording::link& l) {
        sum.bytes += l.bytes;
        sum.messages += l.messages;
      });
  sort_by_time(r.migrations);
  sort_by_time(r.busies);
  sort_by_time(r.notes);
}

workload to_workload(const recording& r) {
  const std::size_t phases = r.phases();
  if (!r.objects.empty() && phases > most_times / r.objects.size())
    throw error(errc::unsupported,
                "a recording of " + std::to_string(r.objects.size()) + " objects in " + std::to_string(phases) +
                    " phases is too large for a model",
                "record fewer phases");
  std::vector<std::size_t> order(r.objects.size()), place(r.objects.size()); // of objects; and back
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return std::tie(r.objects[a].rank, r.objects[a].id) < std::tie(r.objects[b].rank, r.objects[b].id);
  });
  for (std::size_t i = 0; i < order.size(); ++i) place[order[i]] = i;
  std::vector<std::pair<mobile::object_id, std::size_t>> by_id;
  for (std::size_t i = 0; i < r.objects.size(); ++i) by_id.emplace_back(r.objects[i].id, place[i]);
  std::sort(by_id.begin(), by_id.end());
  const auto number_of = [&](mobile::object_id id) {
    const auto found = std::lower_bound(by_id.begin(), by_id.end(), std::pair(id, std::size_t{0}));
    if (found == by_id.end() || found->first != id)
      throw error(errc::invalid_argument, "a recording does not list object " + to_string(id) + ", which it tells of",
                  "record all objects");
    return found->second;
  };

  workload w;
  w.ranks = r.ranks;
  w.workers = r.workers;
  w.objects.resize(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) {
    w.objects[i].rank = r.objects[order[i]].rank;
    w.objects[i].bytes = r.objects[order[i]].bytes;
    w.objects[i].seconds.resize(phases);
  }
  for (const auto& x : r.works) {
    workload::object& o = w.objects[number_of(x.object)];
    if (x.phase >= phases)
      throw error(errc::invalid_argument,
                  "a recording of " + std::to_string(phases) + " phases tells of phase " + std::to_string(x.phase),
                  "record when phases end");
    o.seconds[x.phase] += x.seconds * r.unit;
    if (x.device > 0) {
      o.device.resize(phases);
      o.device[x.phase] += static_cast<float>(x.device * r.unit);
    }
  }
  const auto share = 1 / static_cast<double>(phases);
  for (const auto& x : r.links)
    w.links.push_back({static_cast<std::uint32_t>(number_of(x.from)), static_cast<std::uint32_t>(number_of(x.to)),
                       x.bytes * share, static_cast<double>(x.messages) * share});
  return w;
}

workload dealt(workload w, int ranks, int workers) {
  w.workers = workers;
  if (ranks == w.ranks) return w;
  std::vector<double> slow;
  for (int r = 0; !w.slow.empty() && r < ranks; ++r)
    slow.push_back(w.slow[static_cast<std::size_t>(static_cast<std::int64_t>(r) * w.ranks / ranks)]);
  const std::size_t n = w.objects.size();
  std::vector<std::pair<int, std::size_t>> order; // ranks and objects
  for (std::size_t i = 0; i < n; ++i) order.emplace_back(w.objects[i].rank, i);
  std::sort(order.begin(), order.end());
  for (std::size_t i = 0; i < n; ++i)
    w.objects[order[i].second].rank = static_cast<int>(i * static_cast<std::size_t>(ranks) / n);
  w.ranks = ranks;
  w.slow = std::move(slow);
  return w;
}

} // namespace tern::balance
