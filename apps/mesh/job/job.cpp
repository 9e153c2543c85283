// SPDX-License-Identifier: GPL-3.0-or-later
#include "apps/mesh/job/job.hpp"

#include "apps/common/progress.hpp"

#include <algorithm>
#include <cstdio>
#include <functional>
#include <map>
#include <numeric>

#include <sys/resource.h>
#include <unistd.h>

#include <tern/balance/balance.hpp>
#include <tern/base/clock.hpp>
#include <tern/mobile/checkpoint.hpp>
#include <tern/net/collectives.hpp>
#include <tern/net/epoch.hpp>
#include <tern/task/future.hpp>

namespace mesh {
namespace {

constexpr const char* usual_policy = "steal";

// Points are numbered with 32 bits where the mesh is put together, and each triangle takes some 70
// bytes.
constexpr double most_triangles = 2e9;

// Before anything is cut, which for an absurd sizing would not end: the triangles that the box
// would have if all of it were sea, from a sample of the size field.
void check_size(const domain& sea, const size_field& sizes) {
  constexpr int samples = 300;
  const double dx = (sea.high.x - sea.low.x) / samples, dy = (sea.high.y - sea.low.y) / samples;
  double sum = 0;
  for (int j = 0; j < samples; ++j)
    for (int i = 0; i < samples; ++i) {
      const double h = sizes.h(sea.low.x + (i + 0.5) * dx, sea.low.y + (j + 0.5) * dy);
      sum += 5.1 * dx * dy / (h * h); // as decompose() estimates
    }
  sum *= sea.area / ((sea.high.x - sea.low.x) * (sea.high.y - sea.low.y));
  if (sum > most_triangles)
    throw tern::error(tern::errc::invalid_argument,
                      "this sizing asks for about " + std::to_string(static_cast<std::uint64_t>(sum / 1e6)) +
                          " million triangles, more than the " +
                          std::to_string(static_cast<std::uint64_t>(most_triangles / 1e6)) + " million that fit",
                      "make --hmin, --hmax or --grade larger, or the box smaller");
}

// Consecutive subdomains (neighbours, mostly) with equal shares of the estimated work.
std::vector<int> place(const decomposition& cut, int ranks) {
  std::vector<int> owners;
  double before = 0;
  for (const auto& g : cut.groups) {
    const double middle = before + g.work / 2;
    owners.push_back(std::clamp(static_cast<int>(middle / cut.work * ranks), 0, ranks - 1));
    before += g.work;
  }
  // A heavy subdomain may leave a rank without any: then by number.
  for (int r = 0; r < ranks; ++r)
    if (std::find(owners.begin(), owners.end(), r) == owners.end()) {
      for (std::size_t g = 0; g < owners.size(); ++g)
        owners[g] = static_cast<int>(g * static_cast<std::size_t>(ranks) / owners.size());
      break;
    }
  return owners;
}

double peak_mib_of_process() {
  rusage use{};
  getrusage(RUSAGE_SELF, &use);
  return static_cast<double>(use.ru_maxrss) / 1024;
}

// Calls F on each group. All of them wait at once, so that those which have not begun can go where
// there is time.
template <auto F> std::uint64_t on_each_group(const std::vector<group_ptr>& groups) {
  std::vector<tern::future<std::uint64_t>> all;
  all.reserve(groups.size());
  for (const auto g : groups) all.push_back(tern::call<F>(g));
  std::uint64_t sum = 0;
  for (auto& f : all) sum += f.get();
  return sum;
}

std::uint64_t sum_over_ranks(std::uint64_t mine) { return tern::allreduce(mine, std::plus<>()); }

// How far the first meshing has come: what a checkpoint keeps beside the subdomains.
struct course {
  std::vector<group_ptr> groups;    // by number
  std::vector<std::uint32_t> order; // in which they are meshed
  std::uint64_t done = 0;           // of those
  std::uint64_t told = 0;           // splits of borders that were sent
  std::vector<sharp_joint> joints;
  std::uint64_t coarse_triangles = 0;
  double estimated_triangles = 0;
};

// In turn one of each rank.
std::vector<std::uint32_t> order_of(const std::vector<int>& owners) {
  std::map<int, std::uint32_t> before;
  std::vector<std::pair<std::uint32_t, int>> place;
  for (const int owner : owners) place.emplace_back(before[owner]++, owner);
  std::vector<std::uint32_t> order(owners.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](auto a, auto b) { return place[a] < place[b]; });
  return order;
}

// Where subdomains are that a checkpoint has brought.
std::vector<int> owners_of(const std::vector<group_ptr>& groups) {
  std::vector<std::uint32_t> mine;
  for (std::size_t g = 0; g < groups.size(); ++g)
    if (tern::is_here(groups[g])) mine.push_back(static_cast<std::uint32_t>(g));
  std::vector<int> owners(groups.size());
  const auto all = tern::communicator::world().allgather(mine);
  for (std::size_t r = 0; r < all.size(); ++r)
    for (const std::uint32_t g : all[r]) owners[g] = static_cast<int>(r);
  return owners;
}

// What rank 0's command line says of it.
struct saving {
  std::string folder;
  std::uint64_t every = 0;
};

struct distribution {
  size_field sizes;
  std::vector<group_ptr> groups;
  std::vector<int> owners;
  double estimated = 0;
};

// Rank 0: cuts the sea, makes the subdomains where they belong and introduces neighbours.
void distribute(const decomposition& cut, distribution& to) {
  to.owners = place(cut, tern::size());
  std::vector<tern::future<group_ptr>> made;
  for (std::size_t g = 0; g < cut.groups.size(); ++g)
    made.push_back(tern::create_on<group>(to.owners[g], std::cref(cut.groups[g]).get()));
  for (auto& f : made) to.groups.push_back(f.get());
  std::vector<tern::future<void>> met;
  for (std::size_t g = 0; g < cut.groups.size(); ++g) {
    std::map<std::uint32_t, group_ptr> neighbours;
    for (const auto& piece : cut.groups[g].pieces)
      if (piece.neighbour != no_neighbour) neighbours[piece.neighbour] = to.groups[piece.neighbour];
    met.push_back(tern::call<&group::meet>(
        to.groups[g], std::vector<std::pair<std::uint32_t, group_ptr>>(neighbours.begin(), neighbours.end())));
  }
  for (auto& f : met) f.get();
}

rank_report report_of_rank() {
  rank_report r;
  r.busy = rank_busy();
  r.process = static_cast<std::uint64_t>(getpid());
  r.peak_mib = peak_mib_of_process();
  r.arrived = tern::balance::count().arrived;
  char host[256] = "";
  gethostname(host, sizeof host - 1);
  r.host = host;
  return r;
}

// What a rank knows of the groups that were made there.
struct group_ends {
  std::vector<std::uint32_t> numbers;
  std::vector<int> where;
  std::vector<std::uint64_t> triangles;
  template <class A> void serialize(A& ar) { ar(numbers, where, triangles); }
};

// Where they are in the end, and what has become of them.
void look_at_groups(const std::vector<std::uint32_t>& numbers, meshed& job) {
  group_ends mine{numbers, {}, {}};
  for (const std::uint32_t n : numbers) {
    const auto s = tern::call<&group::statistics>(job.groups[n]).get();
    mine.where.push_back(tern::call<&group::whereabouts>(job.groups[n]).get());
    mine.triangles.push_back(s.triangles);
    job.total += s;
  }
  job.total = tern::reduce(std::move(job.total), [](group_statistics a, const group_statistics& b) {
    a += b;
    return a;
  });
  job.ranks = tern::gather(report_of_rank());
  for (const group_ends& part : tern::communicator::world().allgather(mine))
    for (std::size_t i = 0; i < part.numbers.size(); ++i) {
      if (job.owners[part.numbers[i]] != part.where[i]) ++job.moved;
      job.owners[part.numbers[i]] = part.where[i];
      if (job.ranks.empty()) continue; // not rank 0
      rank_report& r = job.ranks[static_cast<std::size_t>(part.where[i])];
      ++r.groups;
      r.triangles += part.triangles[i];
    }
}

} // namespace

double meshed::peak_mib() const {
  std::map<std::pair<std::string, std::uint64_t>, double> processes;
  for (const auto& r : ranks) processes[{r.host, r.process}] = std::max(processes[{r.host, r.process}], r.peak_mib);
  return std::accumulate(processes.begin(), processes.end(), 0.0, [](double sum, auto& p) { return sum + p.second; });
}

void meshed::measure_peak() {
  for (auto& r : ranks)
    if (r.process == ranks[0].process && r.host == ranks[0].host) r.peak_mib = peak_mib_of_process();
}

double meshed::imbalance() const {
  double most = 0, sum = 0;
  for (const auto& r : ranks) {
    most = std::max(most, r.busy);
    sum += r.busy;
  }
  return sum > 0 ? most / (sum / static_cast<double>(ranks.size())) : 1;
}

meshed run_job(const domain& sea, const settings& wanted, phase_times so_far) {
  // Unless the user wants another policy, or none.
  if (tern::rank() == 0 && tern::run_options().source(tern::balance::balance_option.name()) == "default")
    tern::balance::use(usual_policy).get();
  tern::barrier();
  meshed result;
  result.times = so_far;
  tern::stopwatch clock;
  const auto lap = [&](double& phase) {
    phase = clock.seconds();
    clock.restart();
  };
  distribution shared;
  decomposition cut;
  if (tern::rank() == 0) {
    shared.sizes = size_field(sea, wanted.sizes);
    lap(result.times.sizing);
  }
  tern::barrier(); // the others' clocks do not matter; rank 0's phases begin together with theirs
  rank_sizes() = tern::broadcast(std::move(shared.sizes));
  tern::barrier(); // rank 0 makes subdomains on all ranks, which look at it
  clock.restart();
  course now; // a subdomain that is read back needs the size field
  const bool again = tern::restored(now.groups, now.order, now.done, now.told, now.joints, now.coarse_triangles,
                                    now.estimated_triangles);
  if (!again && tern::rank() == 0) {
    check_size(sea, rank_sizes());
    // A small sea gives several ranks something to do too. Not by their number: the mesh must not
    // depend on it.
    cut = decompose(sea, rank_sizes(),
                    {.triangles_per_group = wanted.triangles_per_group,
                     .groups = wanted.groups,
                     .at_least = 16,
                     .work = wanted.work});
    lap(result.times.decompose);
    if (cut.groups.size() < static_cast<std::size_t>(tern::size()))
      throw tern::error(tern::errc::invalid_argument,
                        "there are " + std::to_string(tern::size()) + " ranks but only " +
                            std::to_string(cut.groups.size()) + " subdomains",
                        "start fewer ranks, or cut smaller subdomains with --group-size or --groups");
    distribute(cut, shared);
    now.groups = std::move(shared.groups);
    now.joints = std::move(cut.joints);
    now.coarse_triangles = cut.coarse_triangles;
    now.estimated_triangles = cut.triangles;
    cut = {};
  }
  now.groups = tern::broadcast(std::move(now.groups));
  result.groups = now.groups;
  result.owners = again ? owners_of(now.groups) : tern::broadcast(std::move(shared.owners));
  if (!again) now.order = order_of(result.owners);
  if (tern::rank() == 0) {
    result.joints = now.joints;
    result.coarse_triangles = now.coarse_triangles;
    result.estimated_triangles = now.estimated_triangles;
  }
  lap(result.times.distribute);

  std::vector<group_ptr> mine; // to follow their neighbours
  std::vector<std::uint32_t> numbers;
  for (std::size_t g = 0; g < result.groups.size(); ++g)
    if (result.owners[g] == tern::rank()) {
      mine.push_back(result.groups[g]);
      numbers.push_back(static_cast<std::uint32_t>(g));
    }

  const saving save = tern::broadcast(saving{wanted.checkpoint, wanted.every});
  apps::progress_begin({"meshing", "subdomains"}, result.groups.size() - now.done, wanted.quiet);
  // An epoch each, of all ranks: when it is over every border split has reached its neighbour.
  const auto world = tern::communicator::world();
  while (now.done < now.order.size()) {
    const std::uint64_t end =
        save.folder.empty() ? now.order.size() : std::min(now.order.size(), now.done + save.every);
    std::vector<group_ptr> next;
    for (std::uint64_t i = now.done; i < end; ++i)
      if (const std::uint32_t g = now.order[i]; result.owners[g] == tern::rank()) next.push_back(result.groups[g]);
    now.told += sum_over_ranks(tern::finish(
        world, [&] { return on_each_group<&group::refine>(next); }, "refinement"));
    now.done = end;
    if (save.folder.empty()) break;
    tern::checkpoint(save.folder, now.groups, now.order, now.done, now.told, now.joints, now.coarse_triangles,
                     now.estimated_triangles);
    if (tern::rank() == 0 && !wanted.quiet)
      std::fprintf(stderr, "mesh: %zu of %zu subdomains are saved in %s\n", static_cast<std::size_t>(now.done),
                   now.order.size(), save.folder.c_str());
  }
  lap(result.times.refine);
  std::uint64_t open = 0;
  for (std::uint64_t all = now.told; all > 0; all = sum_over_ranks(open)) {
    ++result.rounds;
    open = tern::finish(
        world, [&] { return on_each_group<&group::follow>(mine); }, "neighbours' splits");
  }
  lap(result.times.exchange);
  apps::progress_end();

  look_at_groups(numbers, result);
  result.policy = tern::balance::in_use();
  lap(result.times.statistics);
  return result;
}

} // namespace mesh
