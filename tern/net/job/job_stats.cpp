// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <functional>
#include <iterator>
#include <limits>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <unistd.h>

#include <tern/base/clock.hpp>
#include <tern/net/collectives.hpp>
#include <tern/net/communicator.hpp>
#include <tern/net/job/job_stats.hpp>
#include <tern/net/node.hpp>
#include <tern/task/scheduler/scheduler_core.hpp>

namespace tern::net {
namespace {

const option<bool> stats_option{"stats", false, "print a table of what each rank did when the job ends"};

constexpr double unknown = std::numeric_limits<double>::quiet_NaN();
constexpr double kib = 1024, mib = 1024 * 1024;
constexpr std::size_t most_rows = 16, most_unusual = 4;
constexpr double unusual = 2.5; // standard deviations

struct column {
  const char* name;
  int decimals;
};
constexpr column columns[] = {{"sent", 0},        {"MiB", 2},    {"received", 0}, {"MiB", 2},   {"handlers", 0},
                              {"fibers", 0},      {"steals", 0}, {"parks", 0},    {"wakes", 0}, {"stacks", 0},
                              {"deepest KiB", 0}, {"cpu %", 1},  {"peak MiB", 1}};
constexpr std::size_t cpu = std::size(columns) - 2, peak = std::size(columns) - 1;
using row = std::array<double, std::size(columns)>;

/// What travels to rank 0.
struct account {
  std::uint64_t process = 0;
  double seconds = 0;
  std::vector<double> values;
  message_totals messages;
  std::vector<stats_table> tables; // of the layers above
  template <class A> void serialize(A& ar) {
    ar(process, seconds, values, messages.handled, messages.forwarded, messages.collectives, tables);
  }
};

// The processor time of all workers' threads until now. A clock of another thread:
// clock_getcpuclockid(3) has it for processes only, pthread_getcpuclockid for pthread_t only; the
// kernel's number for it is as here (CPUCLOCK_SCHED).
double cpu_seconds(scheduler& s) {
  double sum = 0;
  const auto add = [&](int thread) {
    std::timespec used{};
    if (thread > 0 && ::clock_gettime(static_cast<clockid_t>(~static_cast<unsigned>(thread) << 3 | 6), &used) == 0)
      sum += static_cast<double>(used.tv_sec) + 1e-9 * static_cast<double>(used.tv_nsec);
  };
  for (const auto& w : s.inside().workers) add(w->thread);
  add(s.inside().loop.poller_thread.load(std::memory_order_relaxed));
  return sum;
}

double peak_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;)
    if (double n = 0; word == "VmHWM:" && status >> n) return n * kib;
  return unknown;
}

std::uint64_t process_number() {
  char host[256] = "";
  ::gethostname(host, sizeof host - 1);
  return std::hash<std::string>()(host) << 22 ^
         static_cast<std::uint64_t>(::getpid()); // address: only compared with that of other ranks
}

std::string cell(double value, int decimals) {
  if (std::isnan(value)) return "-";
  char text[48];
  std::snprintf(text, sizeof text, "%.*f", decimals, value);
  return text;
}

using lines = std::vector<std::vector<std::string>>;

std::vector<std::string> line(std::string first, const row& values, int more_decimals = 0) {
  std::vector<std::string> cells{std::move(first)};
  for (std::size_t c = 0; c < values.size(); ++c) cells.push_back(cell(values[c], columns[c].decimals + more_decimals));
  return cells;
}

// Columns of which nothing is known are left out.
std::string aligned(const lines& all, const row& known) {
  std::vector<std::size_t> width;
  for (const auto& l : all) {
    width.resize(std::max(width.size(), l.size()));
    for (std::size_t c = 0; c < l.size(); ++c) width[c] = std::max(width[c], l[c].size());
  }
  std::string text;
  for (const auto& l : all) {
    for (std::size_t c = 0; c < l.size(); ++c) {
      if (c >= 1 && c <= known.size() && std::isnan(known[c - 1])) continue;
      if (c > known.size())
        text += "  " + l[c];
      else
        text += std::string(width[c] - l[c].size() + (c > 0 ? 2 : 0), ' ') + l[c];
    }
    text += '\n';
  }
  return text;
}

// The ranks that lie farthest from the others, and in what.
void add_unusual(lines& to, const std::vector<account>& all, const row& mean, const row& deviation) {
  struct odd {
    double how_much;
    std::size_t rank, in;
  };
  std::vector<odd> found;
  for (std::size_t r = 0; r < all.size(); ++r) {
    odd most{unusual, r, mean.size()};
    for (std::size_t c = 0; c < mean.size(); ++c)
      if (const double off = std::abs(all[r].values[c] - mean[c]) / deviation[c]; off > most.how_much)
        most = {off, r, c};
    if (most.in < mean.size()) found.push_back(most);
  }
  std::sort(found.begin(), found.end(), [](const odd& a, const odd& b) {
    return a.how_much != b.how_much ? a.how_much > b.how_much : a.rank < b.rank;
  });
  if (found.size() > most_unusual) found.resize(most_unusual);
  for (const odd& o : found) {
    row values;
    std::copy(all[o.rank].values.begin(), all[o.rank].values.end(), values.begin());
    to.push_back(line(std::to_string(o.rank), values));
    const bool first_mib = o.in == 1, second_mib = o.in == 3;
    to.back().push_back(std::string("unusual: ") + (first_mib    ? "MiB sent"
                                                    : second_mib ? "MiB received"
                                                                 : columns[o.in].name));
  }
}

std::string table(const std::vector<account>& all) {
  lines text(1, {"rank"});
  for (const column& c : columns) text[0].push_back(c.name);
  row least, most, mean, deviation;
  for (std::size_t c = 0; c < mean.size(); ++c) {
    double sum = 0, squares = 0;
    least[c] = most[c] = all[0].values[c];
    for (const account& a : all) {
      sum += a.values[c];
      least[c] = std::min(least[c], a.values[c]);
      most[c] = std::max(most[c], a.values[c]);
    }
    mean[c] = sum / static_cast<double>(all.size());
    for (const account& a : all) squares += (a.values[c] - mean[c]) * (a.values[c] - mean[c]);
    deviation[c] = std::sqrt(squares / static_cast<double>(all.size()));
  }
  if (all.size() <= most_rows) {
    for (std::size_t r = 0; r < all.size(); ++r) {
      row values;
      std::copy(all[r].values.begin(), all[r].values.end(), values.begin());
      text.push_back(line(std::to_string(r), values));
    }
  } else {
    text.push_back(line("least", least));
    text.push_back(line("mean", mean, 1));
    text.push_back(line("most", most));
    add_unusual(text, all, mean, deviation);
  }
  return aligned(text, mean);
}

} // namespace

void job_stats::begin() {
  wanted_ = here_.opts()[stats_option];
  if (here_.simulated()) return;
  cpu_ = cpu_seconds(here_.fibers()); // rank 0, which decides, may want it though we do not
  since_ = steady_seconds();
}

void job_stats::show() {
  const message_counters& counters = here_.counters();
  scheduler& fibers = here_.fibers();
  sim::simulation* const world = here_.world();
  if (!wanted_) return;
  account mine;
  mine.process = process_number();
  mine.seconds = world ? world->seconds() : steady_seconds() - since_;
  const auto number = [](std::uint64_t n) { return static_cast<double>(n); };
  const scheduler_counters counts = fibers.counters();
  const std::uint64_t again = counters.sum(message_counters::again),
                      forwarded = counters.sum(message_counters::forwarded);
  const std::uint64_t collectives =
      counters.sum(message_counters::uncounted, message_counters::parts) - counters.sum(message_counters::waits);
  mine.messages = {number(counters.sum(message_counters::done) - again - forwarded), number(forwarded),
                   number(collectives)};
  std::vector<reported_part*> parts;
  here_.for_each_part([&](reported_part& part) { parts.push_back(&part); });
  for (reported_part* part : parts)
    if (stats_table t = part->statistics(); !t.columns.empty()) mine.tables.push_back(std::move(t));
  mine.values = {number(counters.sum(message_counters::sent) - again + collectives),
                 number(counters.sum(message_counters::sent_bytes)) / mib,
                 number(here_.received_log().count() + counters.sum(message_counters::handed_over)),
                 number(counters.sum(message_counters::received_bytes)) / mib,
                 number(counters.sum(message_counters::handlers)),
                 number(counts.fibers),
                 number(counts.steals),
                 number(counts.parks),
                 number(counts.wakes),
                 unknown,
                 unknown,
                 unknown,
                 unknown};
  if (!world) { // simulated ranks share all this
    const stack_report stacks = fibers.stacks();
    mine.values[cpu - 2] = number(stacks.made);
    mine.values[cpu - 1] = number(stacks.deepest_bytes) / kib;
    mine.values[cpu] = 100 * (cpu_seconds(fibers) - cpu_) / (mine.seconds * fibers.workers());
    mine.values[peak] = peak_bytes() / mib;
  }
  std::vector<account> all = gather(std::move(mine));
  if (communicator::world().rank() != 0) return; // rank 0 may have been lost
  const bool one_process = here_.size() > 1 && std::all_of(all.begin(), all.end(), [&](const account& a) {
                             return a.process == all[0].process;
                           });
  char head[160];
  std::snprintf(head, sizeof head, "tern: %.6g s%s, %d rank%s, %d worker%s each", all[0].seconds,
                world ? " of virtual time" : "", here_.size(), here_.size() == 1 ? "" : "s", fibers.workers(),
                fibers.workers() == 1 ? "" : "s");
  std::string text = head;
  if (one_process) {
    text += ", one process with at most " + cell(peak_bytes() / mib, 1) + " MiB";
    for (account& a : all) a.values[peak] = unknown;
  }
  text += "\n" + table(all);
  message_totals messages;
  std::vector<stats_table> tables;
  for (const account& a : all) {
    messages.handled += a.messages.handled;
    messages.forwarded += a.messages.forwarded;
    messages.collectives += a.messages.collectives;
    add_tables(tables, a.tables);
  }
  text += messages.text() + "\n";
  for (const stats_table& t : tables) text += t.text();
  std::fputs(text.c_str(), stderr);
}

} // namespace tern::net
