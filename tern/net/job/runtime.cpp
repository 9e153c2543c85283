// SPDX-License-Identifier: Apache-2.0
#include <tern/net/runtime.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <tern/base/log.hpp>
#include <tern/base/topology.hpp>
#include <tern/net/failure/rank_watch.hpp>
#include <tern/net/hang/hang_watches.hpp>
#include <tern/net/job/rank_life.hpp>
#include <tern/net/job/settings.hpp>
#include <tern/net/job/start_mark.hpp>
#include <tern/net/memory/malloc_tuning.hpp>
#include <tern/net/node.hpp>
#include <tern/net/report/reporter.hpp>
#include <tern/net/report/tracing.hpp>
#include <tern/net/transport_kind.hpp>

namespace tern {
namespace net {
namespace {

const option<int> ranks_option{"ranks", 1, "ranks to run in this process when no MPI launcher started it",
                               between<int>(1, 100000)};
std::string joined(const std::vector<std::string>& words, const char* last) {
  std::string all;
  for (std::size_t i = 0; i < words.size(); ++i) all += (i == 0 ? "" : i + 1 == words.size() ? last : ", ") + words[i];
  return all;
}

// Of the kinds that Tern has; a program's own are accepted too.
std::string how_ranks_meet() {
  std::vector<const transport_kind*> kinds = transport_kinds();
  std::vector<std::string> ways, automatic;
  for (const auto* k : kinds) ways.push_back(k->about().what);
  std::sort(kinds.begin(), kinds.end(),
            [](const auto* a, const auto* b) { return a->about().preference > b->about().preference; });
  for (const auto* k : kinds)
    if (k->about().preference > 0)
      automatic.push_back(k->about().automatic.empty() ? "else " + k->name() : k->name() + " " + k->about().automatic);
  return "how ranks reach each other: " + joined(ways, ", or ") + "; auto: " + joined(automatic, ", ");
}

std::string transport_words() {
  std::string all = "auto";
  for (const auto* k : transport_kinds())
    all += ", " + k->name() + (k->about().words.empty() ? "" : ", " + k->about().words);
  return all;
}

const transport_kind* transport_of(const std::string& word) {
  for (const auto* k : transport_kinds())
    if (k->accepts(word)) return k;
  return nullptr;
}

const option<std::string> transport_option{
    "transport",
    "auto",
    how_ranks_meet(),
    {[](const std::string& word) { return word == "auto" || transport_of(word); }, transport_words()}};
const option<int> workers_option{"workers", 0, "worker threads of each rank; 0: as many as it has CPUs to itself",
                                 between<int>(0, 4096)};
const option<std::string> progress_option{
    "progress", "worker",
    "what polls for messages: an idle worker, or a thread of its own, which costs a CPU's time but answers while all "
    "workers are busy",
    one_of({"worker", "thread"})};
const option<std::string> bind_option{"bind", "none", "bind each worker to", one_of({"none", "core", "numa"})};
const option<int> stack_option{"stack-kib", 256, "stack of each fiber, KiB", between<int>(16, 1 << 20)};
const option<int> spin_option{"spin-us", -1,
                              "how long an idle worker looks for work before it sleeps, microseconds; -1: 20 if every "
                              "worker has a CPU to itself, else 0",
                              between<int>(-1, 1000000)};

int log_rank() noexcept {
  const node* n = node::current();
  return n ? n->rank() : -1;
}

/// What concerns all ranks is said once and not by each: before they have started, only a launcher
/// tells which is first.
int launched_rank() {
  for (const auto* k : transport_kinds())
    if (const auto by = k->launched()) return by->rank;
  return 0;
}

int run_rank(const options& opts, std::unique_ptr<transport> wire, const std::function<int()>& main,
             const std::function<void()>& last = {}) {
  rank_life life(std::make_shared<const options>(opts), std::move(wire));
  detail::rank_watch watch(life.here());
  return life.run(main, [&] {
    if (last) last();
    watch.end(); // from here on ranks go when they like
  });
}

/// All ranks are threads of this process.
int run_threads(const options& opts, std::vector<std::unique_ptr<transport>> ends, const std::function<int()>& main) {
  const report_session reports(opts, hang_watches(opts));
  trace_session trace(opts, trace_session::job::here, 0, static_cast<int>(ends.size()));
  std::vector<std::thread> others;
  std::atomic<int> code{0};
  const auto one = [&](std::unique_ptr<transport> wire) noexcept {
    transport* end = wire.get();
    try {
      code.store(run_rank(opts, std::move(wire), main)); // the same on every rank
    } catch (const std::exception& e) {
      log_error(e.what());
      tell_of_parts();
      end->abort(2);
    }
  };
  for (std::size_t r = 1; r < ends.size(); ++r) others.emplace_back([&, r] { one(std::move(ends[r])); });
  one(std::move(ends[0]));
  for (auto& t : others) t.join();
  trace.end();
  trace.merge();
  return code.load();
}

/// This process is one of the ranks.
int run_process(const options& opts, std::unique_ptr<transport> wire, const std::function<int()>& main) {
  const report_session reports(opts, hang_watches(opts)); // after signal handlers of an MPI, which are kept
  std::optional<trace_session> trace;
  try {
    trace.emplace(opts, trace_session::job::parallel, wire->rank(), wire->size());
  } catch (const std::exception& e) { // mostly all ranks fail alike: the first tells it and ends the others
    if (wire->rank() != 0) std::this_thread::sleep_for(std::chrono::seconds(2));
    std::fprintf(stderr, "tern: cannot start: %s\n", e.what());
    wire->abort(2);
  }
  const int code = run_rank(opts, std::move(wire), main, [&] { trace->end(); });
  trace->merge();
  return code;
}

int run_ranks(job_start& job, std::vector<std::unique_ptr<transport>> ends) {
  for (const auto* k : transport_kinds())
    if (const auto by = k->launched(); k != &job.kind && by && by->rank == 0 && by->size > 1)
      log_warning(by->by + " started this, but the transport is " + job.kind.name() +
                  ": each process is a job of its own");
  options decided = job.opts;
  if (job.workers != 0) decided.set(workers_option, job.workers);
  const std::size_t all = ends.empty() ? 0 : static_cast<std::size_t>(ends[0]->size());
  if (ends.size() == 1 && (all > 1 || ends[0]->processes())) return run_process(decided, std::move(ends[0]), job.main);
  if (ends.empty() || ends.size() != all)
    throw error(errc::invalid_state,
                "the transport " + job.kind.name() + " has opened " + std::to_string(ends.size()) + " of " +
                    std::to_string(all) + " ranks in this process",
                "a transport opens one rank, or all");
  return run_threads(decided, std::move(ends), job.main);
}

const transport_kind& chosen_transport(const options& opts) {
  if (const auto* const named = transport_of(opts[transport_option])) return *named;
  const transport_kind* best = nullptr;
  for (const auto* k : transport_kinds())
    if ((!best || k->about().preference > best->about().preference) && k->suits(opts)) best = k;
  if (!best) throw error(errc::not_found, "no transport suits here", "name one: --tern-transport");
  return *best;
}

int start(const options& opts, int& argc, char** argv, const std::function<int()>& main) {
  keep_memory(opts);
  handler_table::freeze();
  set_log_level(log_level_from(opts[log_level_option]));
  if (launched_rank() == 0)
    for (const auto& name : options::unknown_environment()) {
      const std::string near = options::nearest_environment(name);
      log_warning("the environment variable " + name + " is not one of Tern's" +
                  (near.empty() ? "" : "; did you mean " + near + "?"));
    }
  const transport_kind& kind = chosen_transport(opts);
  job_start job{opts,
                argc,
                argv,
                main,
                kind,
                opts[transport_option],
                opts[ranks_option],
                opts[workers_option],
                opts[progress_option] == "thread"};
  return kind.run(job, &run_ranks);
}

// Used by the tern command and by quickstart and check.
const known_environment bench_variable{"TERN_BENCH_DIR"}, setup_variable{"TERN_SKIP_SETUP"};

/// Tells why this rank cannot start. \return the exit code.
int refuse(int& argc, char** argv, const char* why) {
  const auto tell = [why] { std::fprintf(stderr, "tern: cannot start: %s\n", why); };
  for (const auto* k : transport_kinds())
    if (k->refuse(argc, argv, tell)) return 2;
  tell();
  return 2;
}

} // namespace

const option<std::string> aggregate_option{"aggregate", "auto",
                                           "whether small messages for one rank travel together: all of them, which "
                                           "delays each a little; those that must wait "
                                           "for room or for their own rank anyway; or none",
                                           one_of({"off", "auto", "on"})};
aggregation aggregation_of(const options& opts) {
  const std::string& word = opts[aggregate_option];
  return word == "on" ? aggregation::on : word == "off" ? aggregation::off : aggregation::automatic;
}
const option<std::string> unhandled_option{
    "unhandled", "stop",
    "what an exception does that no code takes: stop: out of a handler that was sent it ends the job; in a "
    "future that is dropped it is told of when the job ends; stop-all: both end the job; report: both are told of",
    one_of({"stop", "report", "stop-all"})};
bool stops_at_unhandled(const options& opts) { return opts[unhandled_option] != "report"; }
bool stops_at_dropped(const options& opts) { return opts[unhandled_option] == "stop-all"; }
std::size_t stack_bytes(const options& opts) { return static_cast<std::size_t>(opts[stack_option]) * 1024; }

int default_workers(const cpu_share& share) noexcept {
  const int own = static_cast<int>(share.allowed) / std::max(1, share.sharers);
  const int paid = share.quota ? usable_cpus(share.allowed * static_cast<std::size_t>(share.host_size), share.quota) /
                                     std::max(1, share.host_size)
                               : own;
  return std::max(1, std::min(own, paid));
}

bool has_cpu_each(const cpu_share& share, int workers) noexcept {
  return workers * share.sharers <= static_cast<int>(share.allowed) &&
         (!share.quota || workers * share.host_size <= *share.quota);
}

job_settings resolve(const options& opts, const transport& wire) {
  const transport::cpu_sharers among = wire.sharers();
  const cpu_share share{allowed_cpus().size(), cgroup_quota(), among.ranks, wire.host_size()};
  job_settings s;
  s.quota = share.quota;
  s.workers = opts[workers_option] > 0 ? opts[workers_option] : default_workers(share);
  s.stack_bytes = stack_bytes(opts);
  s.poll_apart = opts[progress_option] == "thread";
  s.spin = std::chrono::microseconds(opts[spin_option] >= 0           ? opts[spin_option]
                                     : has_cpu_each(share, s.workers) ? 20
                                                                      : 0);
  const binding kind = binding_from(opts[bind_option]);
  if (kind != binding::none) {
    s.cpus = plan_binding(kind, s.workers, among.rank, among.ranks);
    s.bound_to = opts[bind_option];
  }
  return s;
}

int run_job(int& argc, char** argv, const std::function<int()>& main) {
  set_rank_provider(log_rank);
  detail::mark_start(launched_rank());
  try {
    const options opts = options::parse(argc, argv);
    if (opts.help_requested()) {
      if (launched_rank() == 0) std::fputs(opts.help().c_str(), stdout);
      return 0;
    }
    return start(opts, argc, argv, main);
  } catch (const std::exception& e) {
    return refuse(argc, argv, e.what());
  }
}

} // namespace net
} // namespace tern
