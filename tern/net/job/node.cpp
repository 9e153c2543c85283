// SPDX-License-Identifier: Apache-2.0
#include <tern/net/node.hpp>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <mutex>
#include <utility>

#include <tern/base/archive.hpp>
#include <tern/base/log.hpp>
#include <tern/base/topology.hpp>
#include <tern/net/call/remote_exception.hpp>
#include <tern/net/collectives.hpp>
#include <tern/net/failure/rank_watch.hpp>
#include <tern/net/job/settings.hpp>
#include <tern/net/memory/lent_buffer.hpp>
#include <tern/net/message.hpp>
#include <tern/net/report/reporter.hpp>
#include <tern/net/report/tracing.hpp>
#include <tern/net/runtime.hpp>
#include <tern/task/scheduler/scheduler_core.hpp>
#include <tern/trace/trace.hpp>

namespace tern::net {
namespace {

using detail::describe, detail::failure;

// What rank 0 tells all others first.
struct beginning {
  std::uint64_t program = 0, job = 0;
  bool stats = false;
  std::string trace;
  template <class A> void serialize(A& ar) { ar(program, job, stats, trace); }
};

// How all main functions ended.
struct main_ends {
  static constexpr int nobody = std::numeric_limits<int>::max();
  int code = 0;               // the largest exit code
  int first_changed = nobody; // the first rank that returned another number than its exit code
  template <class A> void serialize(A& ar) { ar(code, first_changed); }
};

// What exit() would leave of it, but never success for a failure; so that the largest of all ranks' is what it seems.
int exit_code(int returned) {
  return returned >= 0 && returned <= 255 ? returned : (returned & 255) ? returned & 255 : 1;
}

void tell_of_exit_code(int returned) {
  const int kept = returned & 255;
  log_warning("the main function returned " + std::to_string(returned) +
              ", of which the system keeps the last 8 bits as an exit code: " + std::to_string(kept) +
              (kept == 0 ? "; Tern makes it 1, since 0 would mean success" : "") + "; return a number from 0 to 255");
}

constexpr double slice_seconds = 50e-6;
constexpr double patience_seconds = 1.5e-6; // with those that may answer: a round trip to a far core
constexpr double quick_seconds = 2e-6; // what a handler may take to run where messages arrive: about what a fiber costs

int worker_count(const options& opts, const transport& wire, const sim::simulation* world, int simulated) {
  return world ? simulated : resolve(opts, wire.host_rank(), wire.host_size()).workers;
}

// Summed over all ranks by termination detection: of messages sent, and done.
using counts = std::array<std::uint64_t, 2>;

} // namespace

// The runtime's own handlers. They run on the polling context and must not block.
struct node::internal_handlers {
  static void reply_value(node& here, int source, const wire_header& h, payload& message) {
    auto who = here.calls_.take(h.reply, source);
    if (!who) return here.message_done(h); // too late
    try {
      who->value(detail::body_of(message.bytes));
    } catch (...) {
      who->failed(std::current_exception());
    }
    here.message_done(h);
  }
  static void reply_error(node& here, int source, const wire_header& h, payload& message) {
    auto who = here.calls_.take(h.reply, source);
    if (!who) return here.message_done(h); // too late
    failure f;
    unpack_into(detail::body_of(message.bytes), f);
    who->failed(std::make_exception_ptr(f.as_error()));
    here.message_done(h);
  }
  static void collective(node& here, int source, const wire_header& h, payload& message) {
    const bool part = (h.flags & flag_detects) == 0;
    here.collectives_.take(source, std::move(message), *here.everyone_);
    if (part) here.counters_.add(here.worker_here(), message_counters::parts_taken);
  }
  static void enquiry(node& here, int source, const wire_header&, payload& message) {
    here.collectives_.answer(source, message.bytes);
  }
};

namespace {
const detail::collective_kind start_kind{"the start"}, closing_kind{"the end of the job"},
    end_of_main{"the end of the main function"};
// By quiescence.
const detail::collective_kind quiesce_kinds[] = {detail::collective_kind("quiesce", true),
                                                 detail::collective_kind("quiesce (fibers)", true),
                                                 detail::collective_kind("quiesce (timers)", true)}; // by quiescence
struct reply_value_tag {};
struct reply_error_tag {};
struct collective_tag {};
struct enquiry_tag {};
const handler_record reply_value_record{typeid(reply_value_tag), "tern reply", __FILE__,
                                        &node::internal_handlers::reply_value, true};
const handler_record reply_error_record{typeid(reply_error_tag), "tern error reply", __FILE__,
                                        &node::internal_handlers::reply_error, true};
const handler_record collective_record{typeid(collective_tag), "tern collective", __FILE__,
                                       &node::internal_handlers::collective, true};
const handler_record enquiry_record{typeid(enquiry_tag), "tern enquiry", __FILE__, &node::internal_handlers::enquiry,
                                    true};
} // namespace

namespace {
rank_stage* first_stage = nullptr; // filled before `main`
}

rank_stage::rank_stage(function begins, function ends) : begins_(begins), ends_(ends), next_(first_stage) {
  first_stage = this;
}

node::node(std::shared_ptr<const options> opts, std::unique_ptr<transport> wire, sim::simulation* world, int workers,
           bool apart)
    : opts_(std::move(opts)), world_(world), recorded_(trace::on()), wire_(std::move(wire)), rank_(wire_->rank()),
      size_(wire_->size()), head_limit_(wire_->head_limit()), handlers_(handler_table::all()),
      queue_(*wire_, aggregation_of(*opts_), batch_handler(), world ? 20'000 : tern::detail::ticks_in(20e-6)),
      counters_(worker_count(*opts_, *wire_, world, workers)), handler_costs_(handler_table::size()), slots_(local_slot_count()) {
  job_settings s;
  if (world) { // nothing of this machine counts
    s.workers = workers;
    s.stack_bytes = stack_bytes(*opts_);
  } else {
    s = resolve(*opts_, wire_->host_rank(), wire_->host_size());
  }
  scheduler::settings cfg;
  cfg.workers = s.workers;
  cfg.stack_bytes = s.stack_bytes;
  cfg.spin = s.spin;
  cfg.cpus = s.cpus;
  cfg.name = "tern r" + std::to_string(rank_);
  cfg.context = this;
  cfg.events = this;
  cfg.source = &socket_;
  cfg.poll_apart = s.poll_apart || apart;
  poll_apart_ = s.poll_apart;
  computing_ = s.workers - (apart ? 1 : 0);
  has_server_ = apart;
  cfg.simulation = world;
  cfg.trace_rank = rank_;
  cfg.opts = opts_.get();
  scheduler_ = std::make_unique<scheduler>(std::move(cfg));
  core_ = &scheduler_->inside();
  core_->main_is = "main function of rank " + std::to_string(rank_);
  if (stops_at_dropped(*opts_))
    core_->tell_dropped = [](void* here, const std::string& text) noexcept {
      static_cast<node*>(here)->fatal("a future was dropped with an exception that was never retrieved: " + text);
    };
  single_worker_ = s.workers == 1;
  one_thread_ = single_worker_ && !poll_apart_ && !world;
  if (one_thread_ && !detail::reporter_sends(*opts_)) queue_.nobody_else_sends();
  light_barrier_ = core_->barrier.usable();
  quick_ = tern::detail::ticks_in(quick_seconds);
  slice_ = tern::detail::ticks_in(slice_seconds);
  // Who shares a core had better leave it to those that are to answer.
  patience_ = s.spin.count() > 0 ? tern::detail::ticks_in(patience_seconds) : 0;
  if (rank_ == 0 && !world) // thousands of jobs may be simulated one after the other
    log_info("Tern " TERN_VERSION ": " + std::to_string(size_) + (size_ == 1 ? " rank" : " ranks") + " (" +
             wire_->describe() + "), " + std::to_string(s.workers) + (s.workers == 1 ? " worker" : " workers") +
             " each" + (s.poll_apart ? ", a thread for messages, " : ", ") +
             (s.cpus.empty() ? std::string("not bound") : "bound to " + s.bound_to) +
             (s.quota ? ", CPU quota " + std::to_string(*s.quota) : std::string()));
  everyone_ = collectives_.make(*this, 0, {}, {}, rank_);
  reported_.emplace(*this);
}

node::~node() {
  if (batch_) batch_->abandon();
}

namespace {
thread_local node* polled_apart = nullptr; // by the calling thread, which is no worker
}

tern::detail::cause* node::account_apart() const noexcept { return polled_apart == this ? delivering_ : nullptr; }

node* node::current() noexcept {
  void* const n = tern::detail::this_worker_head()->context;
  return n ? static_cast<node*>(n) : polled_apart;
}

node& node::here_apart() {
  if (polled_apart) return *polled_apart;
  throw error(errc::invalid_state, "this thread works for no rank",
              "call Tern's functions from inside tern::run, not from threads of your own");
}

std::uint32_t node::reply_handler() { return reply_value_record.id(); }

void node::reply_error(int to, std::uint64_t reply, std::exception_ptr e, const std::string& context) {
  failure f = describe(std::move(e));
  f.message += " (in " + context + " on rank " + std::to_string(rank_);
  if (!reply) f.message += ", for rank " + std::to_string(to);
  f.message += ")";
  if (reply) {
    try {
      post(to, pack(wire_header{reply_error_record.id(), 0, reply}, f), {.urgent = true});
    } catch (const std::exception& x) {
      fatal("rank " + std::to_string(to) + " cannot be told that " + f.message + ": " + x.what());
    }
    return;
  }
  const std::string text =
      error(f.code, f.message, f.hint.empty() ? "nobody waited for it: use call instead of send to handle it" : f.hint,
            f.place)
          .what();
  if (stops_at_unhandled(*opts_)) fatal(text);
  log_error(text);
}

void node::tell_idle() noexcept {
  // Of two that were the last, on two workers, one at least sees what both have counted.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (counters_.active() != 0) return;
  idle_guard_.lock();
  auto* all = idle_list_.take();
  idle_guard_.unlock();
  tern::detail::waiter_list::wake_all(all);
}

void node::fatal(const std::string& what, int code) noexcept {
  log_error(what);
  report_failure(what);
  tell_of_parts();
  detail::exit_guard::disarm();
  wire_->abort(code);
  __builtin_unreachable(); // g++ does not see [[noreturn]] through the virtual call
}

void node::end_from_outside(const std::string& what, int code, bool by_parent) noexcept {
  const std::string asked = "rank " + std::to_string(rank_) + " was asked to end: " + what;
  if (by_parent && wire_->processes()) return report_failure_here(asked + " by the launcher");
  const std::string text = asked + "; the job ends, with code " + std::to_string(code);
  log_error(text);
  report_failure_here(text);
  tell_of_parts();
  detail::exit_guard::disarm();
  wire_->abort(code);
  __builtin_unreachable(); // as above
}

// Termination and the rank's life -------------------------------------------------------------------------------------

std::uint32_t node::collective_handler() { return collective_record.id(); }
std::uint32_t node::enquiry_handler() { return enquiry_record.id(); }

void node::quiesce(quiescence of, const std::source_location& where, bool closes) {
  // What waits here for space would not be handled by the next wave, which might take that space for ever.
  const auto rests = [this] { return counters_.active() == 0 && queue_.kept() == 0; };
  counts before{~0ull, 0};
  for (;;) {
    if (!rests()) { // to wait takes a barrier for all threads, which costs more than all the rest
      idle_waiters_.fetch_add(1, std::memory_order_seq_cst);
      scheduler_->inside().barrier(); // see tell_if_idle
      for (;;) {
        idle_guard_.lock();
        if (rests()) break;
        tern::detail::waiter self({tern::detail::wait_kind::other, this});
        idle_list_.push(self);
        self.wait(idle_guard_);
      }
      idle_guard_.unlock();
      idle_waiters_.fetch_sub(1, std::memory_order_seq_cst);
    }
    if (of != quiescence::messages) {
      scheduler_->rest(of == quiescence::timers);
      if (!rests()) continue; // something has come
    }
    // In this order: never counts a reply as done but not as sent.
    const bool all = of != quiescence::messages;
    const std::uint64_t done = all ? counters_.ended_of_all() : counters_.ended();
    const counts mine{all ? counters_.begun_of_all() : counters_.begun(), done};
    const counts now = communicator(everyone_).allreduce_as(
        quiesce_kinds[static_cast<std::size_t>(of)], mine,
        [](const counts& a, const counts& b) {
          return counts{a[0] + b[0], a[1] + b[1]};
        },
        where);
    // The second sum was begun after the first was complete everywhere. If nothing was sent or done in between, and as
    // much was done as sent, nothing was under way then and nothing can have begun since, but by fibers. If these
    // rested too when each rank gave its part of the second, nothing could rouse any but timers.
    const bool all_done = now[0] == now[1];
    if (all_done && now == before && (!closes || close_door(mine[0], where))) return;
    before = now;
    if (!all_done) this_fiber::yield(); // what is under way to this rank must be able to arrive
  }
}

void node::wait_for(detail::loan& lent) noexcept {
  counters_.add(worker_here(), message_counters::parts);
  counters_.add(worker_here(), message_counters::waits);
  lent.wait();
  counters_.add(worker_here(), message_counters::parts_taken);
}

// \param sent what this rank had sent when all was quiet. \return whether no rank has sent anything since, and none can
// any more.
bool node::close_door(std::uint64_t sent, const std::source_location& where) {
  set_door(door::deciding);
  scheduler_->inside().barrier(); // whoever has not been counted now sees the door
  const bool quiet = communicator(everyone_).allreduce_as(
      closing_kind, counters_.begun() == sent, [](bool a, bool b) { return a && b; }, where);
  if (quiet) epochs_.end();
  set_door(quiet ? door::closed : door::open);
  return quiet;
}

void node::set_door(door d) noexcept {
  idle_guard_.lock();
  door_.store(d, std::memory_order_seq_cst);
  auto* const all = d == door::deciding ? nullptr : door_list_.take();
  idle_guard_.unlock();
  tern::detail::waiter_list::wake_all(all);
}

// The runtime's own handlers cannot, and need not: if they run, something was under way, and the door opens again.
bool node::may_wait_at_door() const noexcept {
  if (!scheduler::in_fiber() || detail::releasing()) return false;
  const bool polls = poll_apart_ ? polled_apart == this : worker_here() == 0;
  return !(polls && in_internal_); // which is that thread's
}

void node::wait_at_door() {
  idle_guard_.lock();
  while (door_.load(std::memory_order_relaxed) == door::deciding) {
    tern::detail::waiter self({tern::detail::wait_kind::other, this});
    door_list_.push(self);
    self.wait(idle_guard_);
    idle_guard_.lock();
  }
  const bool closed = door_.load(std::memory_order_relaxed) == door::closed;
  idle_guard_.unlock();
  if (closed)
    throw error(errc::invalid_state, "a message was sent after the job had ended",
                "all main functions have returned and all that was sent has been handled: what is to be done before, "
                "the main function must wait for, or a handler do");
}

void* node::first_local(std::size_t index, void* (*make)(), void (*destroy)(void*)) {
  if (index >= slots_.size())
    throw error(errc::invalid_state, "a rank_local was made after the job had started",
                "make it a static object of the program, or load its library before tern::run");
  slot& s = slots_[index];
  std::lock_guard making(s.making);
  if (void* there = s.object.load(std::memory_order_relaxed)) return there;
  void* object = make();
  s.destroy = destroy;
  {
    std::lock_guard hold(slot_order_lock_);
    slot_order_.push_back(index);
  }
  s.object.store(object, std::memory_order_release);
  return object;
}

// \return the trace that rank 0 wants.
std::string node::compare_programs() {
  // With it goes what the job is called in reports, and what rank 0 wants of all; in a simulation nothing, as no run
  // may differ from another.
  beginning first{handler_table::fingerprint(), 0, stats_, {}};
  const std::uint64_t mine = first.program;
  const communicator all(everyone_);
  const auto here = std::source_location::current();
  if (world_) {
    first.program = all.broadcast_as(start_kind, std::pair<std::uint64_t, std::uint64_t>{mine, 0}, 0, here).first;
  } else {
    first.job = report_job();
    first.trace = wanted_trace();
    first = all.broadcast_as(start_kind, std::move(first), 0, here);
  }
  if (first.job) set_report_job(first.job);
  if (stats_ && !first.stats)
    log_warning("there is no table of statistics: the option 'stats' must be given to rank 0 too");
  stats_ = first.stats;
  if (first.program != mine)
    throw error(errc::invalid_state, "rank " + std::to_string(rank_) + " runs another program than rank 0",
                "start the same executable, built once, on all ranks");
  barrier(); // a rank that has compared must not send to one that has not: that would run another function there
  return first.trace;
}

int node::guarded_main(const std::function<int()>& main) {
  try {
    begin_trace(*this, compare_programs());
    for (const rank_stage* s = first_stage; s; s = s->next_)
      if (s->begins_) s->begins_(*this);
    return main();
  } catch (...) {
    const failure f = describe(std::current_exception());
    fatal(error(f.code, "the main function failed on rank " + std::to_string(rank_) + ": " + f.message, f.hint, f.place)
              .what());
  }
}

int node::run(const std::function<int()>& main, const std::function<void()>& last) {
  try {
    node* const outer = std::exchange(polled_apart, poll_apart_ ? this : polled_apart);
    scheduler_->run([&] { live(main); });
    polled_apart = outer;
  } catch (const error& e) { // a deadlock: the other ranks would wait for this one
    fatal(e.what());
  }
  return end(last);
}

void node::live(const std::function<int()>& main) {
  begin_stats();
  const int returned = guarded_main(main);
  code_ = exit_code(returned);
  try {
    const auto here = std::source_location::current();
    const main_ends all = communicator(everyone_).allreduce_as(
        end_of_main, main_ends{code_, code_ == returned ? main_ends::nobody : rank_},
        [](main_ends a, main_ends b) {
          return main_ends{std::max(a.code, b.code), std::min(a.first_changed, b.first_changed)};
        },
        here);
    code_ = all.code;
    if (all.first_changed == rank_) tell_of_exit_code(returned);
    align_trace(*this);
    quiesce(quiescence::messages, here, true);
    for (const rank_stage* s = first_stage; s; s = s->next_)
      if (s->ends_) s->ends_(*this);
    show_stats();
    barrier();
    everyone_->end(); // nothing may be left of an earlier operation
    if (const std::string strange = collectives_.strangers(); !strange.empty())
      throw error(errc::invalid_state, strange, "all ranks of a communicator must call the same of its operations");
  } catch (...) {
    const failure f = describe(std::current_exception());
    fatal(
        error(f.code, "the end of the job failed on rank " + std::to_string(rank_) + ": " + f.message, f.hint, f.place)
            .what());
  }
}

int node::end(const std::function<void()>& last) {
  // The last worker may have gone to rest before the owner sent what others wait for: a barrier's end.
  while (!queue_.empty())
    if (poll() == polled::nothing) wait(std::chrono::milliseconds(1));
  destroy_locals();
  if (last) last();
  wire_->finish();
  return code_;
}

// After every fiber has ended. In a scheduler of its own, so that destructors know their rank.
void node::destroy_locals() {
  over_ = true;
  if (slot_order_.empty()) return;
  scheduler last(
      {.name = "tern r" + std::to_string(rank_), .context = this, .simulation = world_, .trace_rank = rank_});
  last.run([this] {
    while (!slot_order_.empty()) { // a destructor may use, and so make, another slot
      slot& s = slots_[slot_order_.back()];
      slot_order_.pop_back();
      s.destroy(s.object.exchange(nullptr, std::memory_order_relaxed));
    }
  });
}

void node::wait(std::chrono::microseconds at_most) {
  if (!has_next_) wire_->wait(at_most);
}
void node::wake() noexcept { wire_->wake(); }

} // namespace tern::net
