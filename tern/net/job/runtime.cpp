// SPDX-License-Identifier: Apache-2.0
#include <tern/net/runtime.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <thread>

#include <tern/base/log.hpp>
#include <tern/base/topology.hpp>
#include <tern/net/failure/rank_watch.hpp>
#include <tern/net/job/settings.hpp>
#include <tern/net/job/start_mark.hpp>
#include <tern/net/memory/malloc_tuning.hpp>
#include <tern/net/node.hpp>
#include <tern/net/report/reporter.hpp>
#include <tern/net/report/tracing.hpp>
#include <tern/net/simulate.hpp>
#include <tern/net/transport/sim/sim_job.hpp>

namespace tern {
namespace net {
namespace {

const option<int> ranks_option{"ranks", 1, "ranks to run in this process when no MPI launcher started it",
                               between<int>(1, 100000)};
const option<std::string> transport_option{
    "transport",
    "auto",
    "how ranks reach each other: as threads of one process, by MPI, or in a simulation; auto: sim if that is set, mpi "
    "under an MPI launcher, else inproc",
    {[](const std::string& t) {
       return t == "auto" || t == "inproc" || t == "mpi" || t == "sim" || t.starts_with("sim:");
     },
     "auto, inproc, mpi, sim, sim:WORD=VALUE,…"}};
const option<std::string> sim_option{
    "sim", "",
    "simulate the job, with a network, faults and virtual time; as ranks=256,workers=4,seed=7,faults=delay:reorder"};
const option<std::string> mpi_option{"mpi", "", "which MPI to use where the launcher leaves it open",
                                     one_of({"", "openmpi", "mpich"})};
const option<int> workers_option{"workers", 0, "worker threads of each rank; 0: as many as it has CPUs to itself",
                                 between<int>(0, 4096)};
const option<std::string> progress_option{
    "progress", "worker",
    "who looks after messages: an idle worker, or a thread of its own, which costs a CPU's time but answers while all "
    "workers are busy",
    one_of({"worker", "thread"})};
const option<std::string> unhandled_option{
    "unhandled", "stop",
    "what an exception does that no code takes: stop: out of a handler that was sent it ends the job; in a "
    "future that is dropped it is told of when the job ends; stop-all: both end the job; report: both are told of",
    one_of({"stop", "report", "stop-all"})};
const option<bool> preallocate_option{"preallocate", true,
                                      "keep receives and memory for small messages ready; without, for comparisons"};
const option<std::string> bind_option{"bind", "none", "bind each worker to", one_of({"none", "core", "numa"})};
const option<int> stack_option{"stack-kib", 256, "stack of each fiber, KiB", between<int>(16, 1 << 20)};
const option<int> spin_option{"spin-us", -1,
                              "how long an idle worker looks for work before it sleeps, microseconds; -1: 20 if every "
                              "worker has a CPU to itself, else 0",
                              between<int>(-1, 1000000)};

int usable_here(int host_size) { return std::max(1, usable_cpus() / std::max(1, host_size)); }

int log_rank() noexcept {
  const node* n = node::current();
  return n ? n->rank() : -1;
}

// Before MPI has started, the launcher's variables tell this process' rank; used to say things once and not N times.
int launcher_number(std::initializer_list<const char*> names, int otherwise) {
  for (const char* name : names)
    if (const char* text = std::getenv(name)) return std::atoi(text);
  return otherwise;
}
int launcher_rank() { return launcher_number({"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK"}, 0); }

int run_rank(const options& opts, std::unique_ptr<transport> wire, const std::function<int()>& main,
             const std::function<void()>& last = {}) {
  node n(std::make_shared<const options>(opts), std::move(wire));
  detail::rank_watch watch(n);
  return n.run(main, [&] {
    if (last) last();
    watch.end(); // from here on ranks go when they like
  });
}

int run_inproc(const options& opts, const std::function<int()>& main) {
  const report_session reports(opts);
  trace_session trace(opts, trace_session::job::here, 0, opts[ranks_option]);
  auto ends = make_inproc(opts[ranks_option]);
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

sim::world world_of(const options& opts) {
  sim::world w;
  w.ranks = opts[ranks_option];
  if (opts[workers_option] > 0) w.workers = opts[workers_option];
  w = sim::parse_world(opts[sim_option], std::move(w));
  const std::string& kind = opts[transport_option];
  return kind.starts_with("sim:") ? sim::parse_world(std::string_view(kind).substr(4), std::move(w)) : w;
}

int run_sim(const options& opts, const std::function<int()>& main) {
  const report_session reports(opts);
  const sim::world w = world_of(opts);
  trace_session trace(opts, trace_session::job::simulated, 0, w.ranks, w.workers);
  log_info("Tern " TERN_VERSION ": " + std::to_string(w.ranks) + (w.ranks == 1 ? " rank" : " ranks") +
           ", simulated: " + sim::to_string(w));
  try {
    const int code = sim::run(w, main, opts).code;
    trace.end();
    trace.merge();
    if (code != 0) sim::detail::tell_replay(w);
    return code;
  } catch (const std::exception& e) {
    log_error(e.what());
    sim::detail::give_up(w, 1);
  }
}

int start(const options& opts, int& argc, char** argv, const std::function<int()>& main) {
  keep_memory(opts);
  handler_table::freeze();
  set_log_level(log_level_from(opts[log_level_option]));
  if (launcher_rank() == 0)
    for (const auto& name : options::unknown_environment()) {
      const std::string near = options::nearest_environment(name);
      log_warning("the environment variable " + name + " is not one of Tern's" +
                  (near.empty() ? "" : "; did you mean " + near + "?"));
    }
  const std::string& kind = opts[transport_option];
  if (kind.starts_with("sim") || (kind == "auto" && !opts[sim_option].empty())) return run_sim(opts, main);
  // The option 'mpi' chooses between MPIs; whether there is one at all, the launcher or the option 'transport' says.
  const bool launched = !detect_mpi("").empty();
  std::string mpi = kind == "mpi" || (kind == "auto" && launched) ? detect_mpi(opts[mpi_option]) : "";
  if (mpi.empty() && kind == "mpi") mpi = "openmpi";
  if (mpi.empty() && launched && launcher_rank() == 0 && launcher_number({"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"}, 1) > 1)
    log_warning("an MPI launcher started this, but the transport is inproc: each process is a job of its own");
  if (mpi.empty()) return run_inproc(opts, main);
  int workers = opts[workers_option];
  if (workers == 0) workers = usable_here(launcher_number({"OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS"}, 1));
  if (opts.source("ranks") != "default" && launcher_rank() == 0)
    log_warning("the option 'ranks' (" + opts.source("ranks") +
                ") means nothing under MPI, where each process is a rank");
  // MPI was told how many threads there will be before it could tell how many ranks share the host: keep to that.
  options decided = opts;
  decided.set(workers_option, workers);
  auto wire = make_mpi(mpi, &argc, &argv, workers > 1 || opts[progress_option] == "thread", opts[preallocate_option]);
  const report_session reports(decided); // after MPI's own signal handlers, which then do what they do without us
  std::optional<trace_session> trace;
  try {
    trace.emplace(decided, trace_session::job::parallel, wire->rank(), wire->size());
  } catch (const std::exception& e) { // mostly all ranks fail alike: the first tells it and ends the others
    if (wire->rank() != 0) std::this_thread::sleep_for(std::chrono::seconds(2));
    std::fprintf(stderr, "tern: cannot start: %s\n", e.what());
    wire->abort(2);
  }
  const int code = run_rank(decided, std::move(wire), main, [&] { trace->end(); });
  trace->merge();
  return code;
}

// Used by the tern command and by quickstart and check.
const known_environment bench_variable{"TERN_BENCH_DIR"}, setup_variable{"TERN_SKIP_SETUP"};

std::atomic<std::size_t> local_slots{0}; // counts static objects, before main

/// Tells why this rank cannot start. \return the exit code.
int refuse(int& argc, char** argv, const char* why) {
  const auto tell = [why] { std::fprintf(stderr, "tern: cannot start: %s\n", why); };
  std::string mpi;
  try {
    mpi = detect_mpi("");
  } catch (const std::exception&) { // is perhaps what `why` says
  }
  if (mpi.empty() || launcher_number({"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"}, 2) < 2) {
    tell();
    return 2;
  }
  // Other ranks may have started well and wait for this one inside MPI_Init, where only MPI can end them (MPICH's
  // launcher does not mind a rank that leaves before it). Mostly all ranks fail alike: the first tells it and ends the
  // others.
  try {
    const auto wire = make_mpi(mpi, &argc, &argv, false);
    if (wire->rank() != 0) std::this_thread::sleep_for(std::chrono::seconds(2));
    tell();
    wire->abort(2);
  } catch (const std::exception&) {
    // No MPI to end the others with. Open MPI's launcher ends them when it sees the first leave: not before it has
    // spoken.
    if (launcher_rank() == 0)
      tell();
    else
      std::this_thread::sleep_for(std::chrono::seconds(1));
  }
  return 2;
}

} // namespace

const option<std::string> aggregate_option{"aggregate", "auto",
                                           "whether small messages for one rank travel together: all of them, which "
                                           "delays each a little; those that must wait "
                                           "for room anyway; or none",
                                           one_of({"off", "auto", "on"})};
aggregation aggregation_of(const options& opts) {
  const std::string& word = opts[aggregate_option];
  return word == "on" ? aggregation::on : word == "off" ? aggregation::off : aggregation::automatic;
}
bool stops_at_unhandled(const options& opts) { return opts[unhandled_option] != "report"; }
bool stops_at_dropped(const options& opts) { return opts[unhandled_option] == "stop-all"; }
std::size_t stack_bytes(const options& opts) { return static_cast<std::size_t>(opts[stack_option]) * 1024; }

job_settings resolve(const options& opts, int host_rank, int host_size) {
  job_settings s;
  s.quota = cgroup_quota();
  s.workers = opts[workers_option] > 0 ? opts[workers_option] : usable_here(host_size);
  s.stack_bytes = stack_bytes(opts);
  s.poll_apart = opts[progress_option] == "thread";
  const bool crowded = s.workers * host_size > usable_cpus();
  s.spin = std::chrono::microseconds(opts[spin_option] >= 0 ? opts[spin_option] : crowded ? 0 : 20);
  const binding kind = binding_from(opts[bind_option]);
  if (kind != binding::none) {
    s.cpus = plan_binding(kind, s.workers, host_rank, host_size);
    s.bound_to = opts[bind_option];
  }
  return s;
}

int run_job(int& argc, char** argv, const std::function<int()>& main) {
  set_rank_provider(log_rank);
  detail::mark_start(launcher_rank());
  try {
    const options opts = options::parse(argc, argv);
    if (opts.help_requested()) {
      if (launcher_rank() == 0) std::fputs(opts.help().c_str(), stdout);
      return 0;
    }
    return start(opts, argc, argv, main);
  } catch (const std::exception& e) {
    return refuse(argc, argv, e.what());
  }
}

std::size_t new_local_slot() noexcept { return local_slots.fetch_add(1, std::memory_order_relaxed); }
std::size_t local_slot_count() noexcept { return local_slots.load(std::memory_order_relaxed); }
void* local_slot(std::size_t index, void* (*make)(), void (*destroy)(void*)) {
  return node::here().local(index, make, destroy);
}

} // namespace net

int rank() { return net::node::here().rank(); }
int size() { return net::node::here().size(); }
const options& run_options() { return net::node::here().opts(); }

} // namespace tern
