// SPDX-License-Identifier: Apache-2.0
/// \file
/// `tern replay`: tries policies, on any number of ranks, on what a run has recorded, or on a
/// made-up load.
#include "tools/tern/replay/replay.hpp"
#include "tools/tern/commands.hpp"
#include "tools/tern/launch/process.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <memory>
#include <numeric>
#include <optional>
#include <tuple>

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <tern/balance/model.hpp>
#include <tern/balance/node_queue.hpp>
#include <tern/balance/policy.hpp>
#include <tern/balance/recording.hpp>
#include <tern/base/clock.hpp>
#include <tern/base/error.hpp>
#include <tern/net/sim_world.hpp>

#include "tools/pictures/pictures.hpp"

namespace tern::tool {
namespace {

using balance::model_result;
using balance::workload;

constexpr std::int64_t most_workers = std::int64_t{1} << 24; // of all ranks together

struct replay_options {
  std::string file, placement, ranks, order, latency = "2us", bandwidth = "5G";
  std::vector<std::string> policies;
  int workers = 0, cores = 0, per_worker = 10, phases = 1;
  double period = 1;
  std::string seed = "1"; // a text: the parser would take -1 for a large number
  bool json = false, describe = false;
  std::string picture, course;
};

/// One policy on one number of ranks.
struct attempt {
  std::size_t number; ///< of the policy, as given
  std::string policy;
  model_result result;
  std::string failed;   ///< why it has no result
  double imbalance = 0; ///< of ranks' busy times: the longest over the mean
};

/// Of equal ones that which moves least; all can be told apart.
bool better(const attempt& a, const attempt& b) {
  const bool failed = !a.failed.empty(), other = !b.failed.empty();
  return std::tie(failed, a.result.makespan, a.result.moves, a.number) <
         std::tie(other, b.result.makespan, b.result.moves, b.number);
}

/// "diffusion:limit=2,neighbours=4,greedy" → two: what is NAME=VALUE belongs to the policy before
/// it.
std::vector<std::string> split_policies(const std::vector<std::string>& texts) {
  std::vector<std::string> found;
  for (const std::string& text : texts)
    for (std::size_t at = 0; at <= text.size();) {
      const std::size_t comma = std::min(text.find(',', at), text.size());
      const std::string part = text.substr(at, comma - at);
      const bool parameter = part.find('=') < part.find(':');
      if (parameter && at > 0)
        found.back() += (found.back().find(':') == std::string::npos ? ":" : ",") + part;
      else
        found.push_back(part);
      at = comma + 1;
    }
  return found;
}

std::vector<int> numbers_of_ranks(const std::string& text) {
  std::vector<int> found;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t comma = std::min(text.find(',', at), text.size());
    int n = 0;
    const char* const end = text.data() + comma;
    if (const auto [stop, wrong] = std::from_chars(text.data() + at, end, n);
        wrong != std::errc() || stop != end || n < 1)
      throw failure("--ranks " + text + ": it must be a list of numbers from 1, as in --ranks 2,8,32", 2);
    if (std::find(found.begin(), found.end(), n) == found.end()) found.push_back(n);
    at = comma + 1;
  }
  return found;
}

/// A number with its unit, as simulated worlds have it.
double network_value(const char* word, const std::string& text, double sim::network_settings::*value) {
  if (text.find_first_of(",=") != text.npos)
    throw failure("--" + std::string(word) + " \"" + text + "\" is not a number with its unit", 2);
  try {
    return sim::parse_world(std::string(word) + "=" + text).network.*value;
  } catch (const error& e) {
    throw failure("--" + std::string(word) + ": " + e.message() + "; " + e.hint(), 2);
  }
}

std::string counted(double n, const char* one, const char* many) { return grouped(n) + " " + (n == 1 ? one : many); }

/// Tells on a terminal what takes long.
class progress_line {
public:
  ~progress_line() { clear(); }
  void show(const std::string& what, double done) {
    const double now = steady_seconds();
    if (!terminal_ || now - start_ < 1 || now - last_ < 0.2) return;
    last_ = now;
    std::fprintf(stderr, "\r%s: %.0f %%\x1b[K", what.c_str(), 100 * done);
    std::fflush(stderr);
    shown_ = true;
  }
  void clear() {
    if (shown_) std::fprintf(stderr, "\r\x1b[K");
    shown_ = false;
  }

private:
  bool terminal_ = ::isatty(STDERR_FILENO) == 1, shown_ = false;
  double start_ = steady_seconds(), last_ = 0;
};

class replayer {
public:
  explicit replayer(const replay_options& o) : o_(o) {
    if (o.file.empty() == o.placement.empty())
      throw failure(o.file.empty() ? "name a recording, or a made-up load with --synthetic, as in "
                                     "tern replay --synthetic literature"
                                   : "it is either a recording or --synthetic, not both",
                    2);
    if (!o.placement.empty() && o.describe) throw failure("--describe needs a recording", 2);
    settings_.latency = network_value("latency", o.latency, &sim::network_settings::latency);
    settings_.bandwidth = network_value("bandwidth", o.bandwidth, &sim::network_settings::bandwidth);
    const char* const end = o.seed.data() + o.seed.size();
    if (const auto [stop, wrong] = std::from_chars(o.seed.data(), end, settings_.seed);
        wrong != std::errc() || stop != end)
      throw failure("--seed " + o.seed + ": it must be a number from 0 to 18446744073709551615", 2);
    settings_.period = o.period;
    if (!(o.period >= 1e-6 && o.period <= 1e6))
      throw failure("--period: it must be a number of seconds from 0.000001 to 1000000", 2);
    if (!o.order.empty()) settings_.order = o.order;
    try {
      balance::make_node_queue(settings_.order, 1);
    } catch (const error& e) {
      throw failure("--order: " + e.message() + "; " + e.hint(), 2);
    }
    policies_ = split_policies(o.policies);
    if (o.policies.empty())
      for (const auto& kind : balance::policies()) policies_.push_back(kind.name);
    for (const auto& policy : policies_) {
      try {
        balance::check_policy(policy);
      } catch (const error& e) {
        throw failure("--policies: " + e.message() + "; " + e.hint(), 2);
      }
    }
    if (!o.ranks.empty()) ranks_ = numbers_of_ranks(o.ranks);
  }

  int run() {
    if (!o_.file.empty()) {
      recording_ = balance::read_recording(o_.file);
      if (o_.describe) {
        describe_recording(recording_, o_.file);
        if (!o_.picture.empty()) draw_recording(recording_, o_.picture);
        return 0;
      }
      recorded_ = balance::to_workload(recording_);
      recording_.works = {}; // may be large, and is not needed any more
      recording_.links = {};
      if (recorded_.objects.empty()) throw failure(o_.file + " has no objects to replay", 1);
      if (o_.order.empty() && !recording_.order.empty()) settings_.order = recording_.order;
    }
    if (ranks_.empty()) ranks_ = {o_.file.empty() ? balance::synthetic().ranks : recorded_.ranks};
    bool good = true;
    for (std::size_t i = 0; i < ranks_.size(); ++i) {
      const workload w = workload_for(ranks_[i]);
      if (i && !o_.json) std::printf("\n");
      good = replay(w, i) && good;
    }
    return good ? 0 : 1;
  }

private:
  workload workload_for(int ranks) const {
    const int own = o_.file.empty() ? balance::synthetic().workers : recorded_.workers;
    const int workers = o_.cores ? o_.cores - 1 : o_.workers ? o_.workers : own;
    if (static_cast<std::int64_t>(ranks) * workers > most_workers)
      throw failure("--ranks " + std::to_string(ranks) + ": of " + std::to_string(workers) +
                        " workers each, they are more than " + grouped(most_workers) + ", the most that is modelled",
                    2);
    if (!o_.file.empty()) return balance::dealt(recorded_, ranks, workers);
    try {
      return balance::make({.placement = o_.placement,
                            .ranks = ranks,
                            .workers = workers,
                            .per_worker = o_.per_worker,
                            .phases = o_.phases,
                            .seed = settings_.seed});
    } catch (const error& e) {
      throw failure("--synthetic: " + e.message() + "; " + e.hint(), 2);
    }
  }

  attempt attempt_of(const workload& w, std::size_t number, const std::string& policy, const std::string& where) {
    attempt a{number, policy, {}, {}, 0};
    balance::model_settings s = settings_;
    s.policy = policy;
    s.progress = [&](double done) { progress_.show(where + policy, done); };
    try {
      a.result = run_model(w, s);
      a.failed = a.result.error;
    } catch (const error& e) {
      if (e.code() != errc::deadlock && e.code() != errc::timeout) throw;
      a.failed = e.message();
    }
    std::vector<double> busy(static_cast<std::size_t>(w.ranks));
    for (std::size_t i = 0; i < a.result.busy.size(); ++i)
      busy[i / static_cast<std::size_t>(w.workers)] += a.result.busy[i];
    if (const double sum = std::accumulate(busy.begin(), busy.end(), 0.0); sum > 0)
      a.imbalance = *std::max_element(busy.begin(), busy.end()) * static_cast<double>(busy.size()) / sum;
    return a;
  }

  /// \return whether all policies came to an end.
  bool replay(const workload& w, std::size_t turn) {
    std::vector<attempt> all;
    std::optional<attempt> none;
    std::size_t best = 0;
    for (std::size_t i = 0; i < policies_.size(); ++i) {
      const std::string where = std::to_string(turn * policies_.size() + i + 1) + " of " +
                                std::to_string(ranks_.size() * policies_.size()) + ", " +
                                counted(w.ranks, "rank", "ranks") + ", ";
      all.push_back(attempt_of(w, i, policies_[i], where));
      attempt& last = all.back();
      // The busy times of a million workers take 8 MB; only two of them are drawn.
      if (policies_[i] == "none") none = last;
      if (i == 0) continue;
      const bool wins = better(last, all[best]);
      all[wins ? best : i].result.busy = {};
      if (wins) best = i;
    }
    if (!o_.picture.empty() && !none) none = attempt_of(w, 0, "none", "for the picture, ");
    const attempt winner = all[best];
    progress_.clear();
    std::sort(all.begin(), all.end(), better);
    const double bound = w.bound(), at_rest = w.static_bound();
    o_.json ? print_json(w, all, bound, at_rest) : print_table(w, all, bound, at_rest);
    if (!o_.picture.empty() && none) draw_busy(w, *none, winner, bound);
    if (!o_.course.empty()) draw_course(w, all, bound);
    return all.back().failed.empty();
  }

  std::string title() const {
    if (o_.file.empty()) return "Synthetic load: " + o_.placement;
    const std::string program = recording_.program.empty() ? "A recorded run" : printable(recording_.program);
    return program + ", recorded on " + counted(recorded_.ranks, "rank", "ranks");
  }
  std::string what_is_modelled(const workload& w) const {
    std::string text = counted(w.ranks, "rank", "ranks") + " of " + counted(w.workers, "worker", "workers") + ", " +
                       counted(static_cast<double>(w.objects.size()), "object", "objects");
    if (w.phases() > 1) text += ", " + grouped(static_cast<double>(w.phases())) + " phases";
    return text;
  }
  std::string network() const {
    return "modelled: latency " + o_.latency + ", bandwidth " + o_.bandwidth + "B/s, order " +
           printable(settings_.order) + ", seed " + o_.seed;
  }

  void print_table(const workload& w, const std::vector<attempt>& all, double bound, double at_rest) const {
    std::printf("%s\n%s; %s\n", title().c_str(), what_is_modelled(w).c_str(), network().c_str());
    std::printf("no schedule ends before %s; without moves it takes at least %s\n\n", time_text(bound).c_str(),
                time_text(at_rest).c_str());
    table t({"policy", "ranks", "makespan", "/bound", "/static", "moves", "moved MiB", "remote MiB", "imbalance"});
    const auto ratio = [](double a, double b) { return b > 0 ? fixed(a / b, 3) : "-"; };
    constexpr double mib = 1024 * 1024;
    for (const attempt& a : all) {
      const model_result& r = a.result;
      if (a.failed.empty())
        t.row({a.policy, grouped(w.ranks), time_text(r.makespan), ratio(r.makespan, bound), ratio(r.makespan, at_rest),
               grouped(static_cast<double>(r.moves)), grouped(r.moved_bytes / mib, 1), grouped(r.remote_bytes / mib, 1),
               fixed(a.imbalance, 3)});
      else
        t.row({a.policy, grouped(w.ranks), "failed: " + printable(a.failed)});
    }
    t.print();
    const attempt& best = all.front();
    if (!best.failed.empty()) return;
    std::string equals;
    for (std::size_t i = 1; i < all.size(); ++i)
      if (all[i].failed.empty() && all[i].result.makespan == best.result.makespan) equals += ", " + all[i].policy;
    std::printf("best on %s: %s%s", counted(w.ranks, "rank", "ranks").c_str(), best.policy.c_str(), equals.c_str());
    if (bound > 0) std::printf(", %.1f %% above the bound", 100 * (best.result.makespan / bound - 1));
    std::printf("\n");
  }

  void print_json(const workload& w, const std::vector<attempt>& all, double bound, double at_rest) const {
    for (const attempt& a : all) {
      nlohmann::ordered_json line{
          {"policy", a.policy},          {"ranks", w.ranks},     {"workers", w.workers},   {"order", settings_.order},
          {"objects", w.objects.size()}, {"phases", w.phases()}, {"seed", settings_.seed}, {"bound", bound},
          {"static_bound", at_rest}};
      if (a.failed.empty())
        line.update({{"makespan", a.result.makespan},
                     {"moves", a.result.moves},
                     {"failed_moves", a.result.failed},
                     {"moved_bytes", a.result.moved_bytes},
                     {"most_moves", a.result.most_moves},
                     {"returns", a.result.returns},
                     {"messages", a.result.messages},
                     {"message_bytes", a.result.message_bytes},
                     {"remote_bytes", a.result.remote_bytes},
                     {"imbalance", a.imbalance}});
      else
        line["failed"] = a.failed;
      std::printf("%s\n", line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace).c_str());
    }
  }

  void draw_busy(const workload& w, const attempt& none, const attempt& best, double bound) const {
    pictures::busy_picture p{title(), what_is_modelled(w) + "; " + network(), {}, w.workers, bound};
    const auto add = [&](const std::string& name, const model_result& r) {
      p.panels.push_back({name, r.busy, r.makespan});
    };
    add("Without balancing", none.result);
    if (best.policy != "none" && best.failed.empty()) add(best.policy, best.result);
    draw(p, path_for(o_.picture, w.ranks));
  }

  void draw_course(const workload& w, const std::vector<attempt>& all, double bound) const {
    pictures::course_picture p{title(), what_is_modelled(w) + "; " + network(), {}, bound};
    for (const attempt& a : all) {
      if (!a.failed.empty()) continue;
      pictures::course c{a.policy, a.result.makespan, {}};
      for (const auto& s : a.result.over_time) c.moments.push_back({s.at, s.imbalance, s.moves});
      c.moments.push_back({a.result.makespan, 0, a.result.moves}); // the last sample was before
      p.courses.push_back(std::move(c));
    }
    if (!p.courses.empty()) draw(p, path_for(o_.course, w.ranks));
  }

  /// Several numbers of ranks have a picture each.
  std::string path_for(const std::string& path, int ranks) const {
    if (ranks_.size() < 2) return path;
    const std::size_t slash = path.rfind('/'), start = slash == path.npos ? 0 : slash + 1;
    const std::size_t dot = path.rfind('.');
    const std::size_t at = dot == path.npos || dot <= start ? path.size() : dot;
    return path.substr(0, at) + "-" + std::to_string(ranks) + path.substr(at);
  }

  const replay_options& o_;
  balance::model_settings settings_;
  std::vector<std::string> policies_;
  std::vector<int> ranks_;
  balance::recording recording_;
  workload recorded_;
  progress_line progress_;
};

int run_replay(const replay_options& o) {
  try {
    return replayer(o).run();
  } catch (const error& e) {
    throw failure(e.message() + (e.hint().empty() ? "" : "; " + e.hint()));
  }
}

} // namespace

void add_replay(CLI::App& app, int& code) {
  auto o = std::make_shared<replay_options>();
  auto* sub = app.add_subcommand("replay", "Try load-balancing policies on what a run has recorded");
  const auto not_empty = [](const std::string& text) { return std::string(text.empty() ? "it is empty" : ""); };
  sub->add_option("FILE", o->file, "What a run with --tern-record=FILE has written")->check(not_empty);
  auto* synthetic = sub->add_option("--synthetic", o->placement,
                                    "Instead of a file, a made-up load: " + std::string(balance::placements))
                        ->check(not_empty);
  sub->add_option("--policies", o->policies, "As for --tern-balance, with commas between (all there are)")
      ->allow_extra_args(false)
      ->check(not_empty);
  sub->add_option("-n,--ranks", o->ranks, "Numbers of ranks, with commas between (as recorded; 10)")->check(not_empty);
  auto* workers =
      sub->add_option("--workers", o->workers, "Workers of each rank (as recorded; 31)")->check(CLI::Range(1, 65536));
  sub->add_option("--cores", o->cores, "Instead: cores of each rank, of which one looks after messages")
      ->check(CLI::Range(2, 65537))
      ->excludes(workers);
  sub->add_option("--latency", o->latency, "Of the network (2us)")->check(not_empty);
  sub->add_option("--bandwidth", o->bandwidth, "Of each rank, bytes a second (5G)")->check(not_empty);
  sub->add_option("--order", o->order,
                  "What waits for a worker: " + std::string(balance::node_orders) + " (as recorded; fifo)")
      ->check(not_empty);
  sub->add_option("--period", o->period, "Seconds between two calls of a policy while there is work (1)");
  sub->add_option("--seed", o->seed, "Decides all that is left to chance (1)");
  sub->add_option("--per-worker", o->per_worker, "Objects for each worker, with --synthetic (10)")
      ->check(CLI::Range(1, 1 << 20))
      ->needs(synthetic);
  sub->add_option("--phases", o->phases, "Phases, with --synthetic (1)")
      ->check(CLI::Range(1, 1 << 20))
      ->needs(synthetic);
  auto* json = sub->add_flag("--json", o->json, "A JSON object for each policy and number of ranks, in a line");
  sub->add_option("--picture", o->picture, "Draw how long workers are busy, without balancing and with the best (PNG)")
      ->check(not_empty);
  sub->add_option("--course", o->course, "Draw imbalance and moves over time (PNG)")->check(not_empty);
  sub->add_flag("--describe", o->describe, "Only tell what is in the file; a picture is of the recorded run")
      ->excludes(json);
  sub->footer("Examples:\n"
              "  tern replay run.rec\n"
              "  tern replay run.rec -n 8,32,128 --policies none,diffusion:neighbours=8,greedy --picture busy.png\n"
              "  tern replay --synthetic literature --ranks 10 --cores 32\n"
              "docs/howto/replay.md tells how to read the table and the pictures. Exit code: 1 if a policy fails.");
  sub->callback([o, &code] { code = run_replay(*o); });
}

} // namespace tern::tool
