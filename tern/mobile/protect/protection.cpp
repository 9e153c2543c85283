// SPDX-License-Identifier: Apache-2.0
/// \file
/// Steps that are repeated when a rank has died.
#include <tern/mobile/protect/protection.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <deque>
#include <exception>
#include <map>
#include <string_view>
#include <utility>

#include <tern/base/error.hpp>
#include <tern/base/log.hpp>
#include <tern/mobile/array/array_table.hpp>
#include <tern/mobile/checkpoint/agreement.hpp>
#include <tern/mobile/checkpoint/rank_saver.hpp>
#include <tern/mobile/checkpoint/restored_job.hpp>
#include <tern/mobile/directory.hpp>
#include <tern/mobile/protect/buddies.hpp>
#include <tern/mobile/protect/roll_back.hpp>
#include <tern/net/collectives.hpp>
#include <tern/net/communicator.hpp>
#include <tern/net/failure/generation.hpp>
#include <tern/net/message.hpp>
#include <tern/net/rank_local.hpp>
#include <tern/net/runtime.hpp>
#include <tern/net/transport.hpp>

namespace tern {

every::every(std::chrono::nanoseconds time) : time_(time) {
  if (time.count() < 0)
    throw error(errc::invalid_argument, "tern::every was given " + std::to_string(time.count()) + " ns",
                "give a time of 0 or more; 0: before each step");
}

namespace mobile::detail {
namespace {

constexpr std::size_t most_pieces_under_way = 4;

/// What a rank knows of its calls of `protect`. The hook looks at it where messages arrive.
struct protecting_rank {
  std::atomic<bool> active{false}, used{false};
  std::atomic<bool> recovering{false}; ///< behind its protected work
};
const rank_local<protecting_rank> the_protection;

// So that others need not wait for a rank which has left its protected work.
void recover_after_work(net::node& here) {
  protecting_rank& state = the_protection.of(here);
  if (state.recovering.exchange(true)) return;
  here.fibers().spawn(
      [&here, &state] {
        try { // until nothing is to be agreed on, or the job is over
          while (net::detail::abandoned(here) && net::detail::recover_unless_over(here, net::detail::finished_copy)) {
          }
        } catch (const error& e) { // this rank itself is taken for dead
          if (e.code() != errc::rank_lost) throw;
        }
        state.recovering = false;
      },
      {.name = "recovery"});
}

void on_abandon(net::node& here, const error&) {
  if (directory* const all = directory::if_made(here)) all->abandon();
  if (array_table* const arrays = array_table::if_made(here)) arrays->abandon();
  const protecting_rank* const state = the_protection.if_made(here);
  if (state && state->used && !state->active) recover_after_work(here); // else its fiber recovers
}
const net::detail::abandon_hook hook{&on_abandon};

/// What the ranks' steps have returned.
struct vote {
  std::int32_t more = -1, over = -1; ///< a rank that has returned true, and one that has returned false
  std::uint8_t due = 0;              ///< a copy is
  template <class A> void serialize(A& ar) { ar(more, over, due); }
};

std::string listed(const std::vector<int>& ranks) {
  std::string text;
  for (std::size_t i = 0; i < ranks.size(); ++i)
    text += (i == 0 ? "" : i + 1 == ranks.size() ? " and " : ", ") + std::to_string(ranks[i]);
  return text;
}

double seconds_since(fiber_clock::time_point t) {
  return std::chrono::duration<double>(fiber_clock::now() - t).count();
}

std::string how_to_restart(net::node& here) {
  const std::string& folder = restored_job::of(here).last_folder();
  return folder.empty() ? "call tern::checkpoint now and then, so that the job can be restarted"
                        : "start the program again with --tern-restart " + folder;
}

} // namespace

protected_run::protected_run(net::node& here, const every& interval, protected_steps& what)
    : here_(here), interval_(interval), what_(what) {
  if (const auto* const inside = running_invocation::here())
    throw error(errc::invalid_state,
                "tern::protect was called by an invocation of object " + to_string(inside->id()) + " (" +
                    inside->type().name + ")",
                "all ranks call it from their main functions");
  protecting_rank& state = the_protection.of(here);
  if (state.active.load())
    throw error(errc::invalid_state, "tern::protect was called by a step of tern::protect",
                "protect the outer steps only");
  if (here.size() == 1)
    throw error(errc::invalid_argument,
                "tern::protect was called in a job of one rank: no other rank could keep a copy, nor go on",
                "start the job with more ranks, or save it by tern::checkpoint");
  state.used = true;
  state.active = true;
}

protected_run::~protected_run() {
  the_protection.of(here_).active = false;
  if (net::detail::abandoned(here_)) recover_after_work(here_);
  copy_shelf::of(here_).clear();
}

protection protected_run::run_alone() {
  if (communicator::world().rank() == 0)
    log_warning("tern::protect takes no copies: no MPI job can go on without one of its ranks. If one dies, the job "
                "ends; to be able to restart it, " +
                how_to_restart(here_));
  while (what_.step()) ++done_.steps;
  return done_;
}

protection protected_run::run() {
  net::detail::guard(here_);
  directory::of(here_); // before a rank dies
  for (bool more = true; more;) {
    bool asked = false;
    try {
      more = go_on();
    } catch (const roll_back_request&) {
      asked = true;
    } catch (...) {
      if (!net::detail::abandoned(here_)) throw;
    }
    if (asked) {
      quiesce();
      go_back(net::detail::living(here_));
    }
    // Also if the step has caught the error, and returned.
    while (!over_ && net::detail::abandoned(here_)) more = recover();
  }
  done_.kept = copy_shelf::of(here_).bytes();
  return done_;
}

bool protected_run::go_on() {
  if (hosts_.empty()) find_hosts();
  if (due_) take_copy();
  return next_step();
}

void protected_run::find_hosts() {
  const communicator world = communicator::world();
  const std::vector<std::string> names = world.allgather(here_.wire().host());
  hosts_.assign(static_cast<std::size_t>(here_.size()), -1);
  std::map<std::string_view, std::int32_t> numbers;
  for (std::size_t place = 0; place < names.size(); ++place)
    hosts_[static_cast<std::size_t>(world.job_rank(static_cast<int>(place)))] =
        numbers.try_emplace(names[place], static_cast<std::int32_t>(place)).first->second;
}

// The ranks learn from each other whether all go on, and whether it is time for a copy.
bool protected_run::next_step() {
  const bool more = what_.step();
  ++done_.steps;
  const communicator world = communicator::world();
  vote mine;
  (more ? mine.more : mine.over) = here_.rank();
  mine.due = world.rank() == 0 && fiber_clock::now() - last_ >= interval_.time();
  const vote all = allreduce(mine, [](vote a, const vote& b) {
    if (a.more < 0) a.more = b.more;
    if (a.over < 0) a.over = b.over;
    a.due |= b.due;
    return a;
  });
  if (all.more >= 0 && all.over >= 0)
    throw error(errc::invalid_state,
                "the step of tern::protect returned true on rank " + std::to_string(all.more) + " and false on rank " +
                    std::to_string(all.over),
                "return the same on all ranks");
  due_ = all.due != 0;
  return more;
}

// Copies --------------------------------------------------------------------------------------------------------------

void protected_run::take_copy() {
  const auto begun = fiber_clock::now();
  directory& all = directory::of(here_);
  const frozen_objects rest(all.objects());
  quiesce();
  const communicator world = communicator::world();
  if (world.size() == 1) {
    if (!std::exchange(alone_, true)) log_warning("tern::protect takes no more copies: one rank is left");
    due_ = false;
    return;
  }
  together(true, [] { check_nothing_open("a step of tern::protect ends"); });
  job_copy copy;
  copy.number = static_cast<std::uint64_t>(copy_ + 1);
  for (int place = 0; place < world.size(); ++place) copy.ranks.push_back(world.job_rank(place));
  copy.buddies = buddies_of(copy.ranks, hosts_);
  for (int h = 0; h < all.homes().count(); ++h) copy.homes.push_back(all.homes().rank_of(h));
  copy.own = std::make_shared<memory_copy>(here_.rank(), copy.number);
  together(true, [&] { send_copy(copy); }); // returns when all ranks have theirs, and their buddies too
  copy_ = static_cast<std::int64_t>(copy.number);
  copy_shelf::of(here_).settle(copy.number);
  ++done_.copies;
  done_.packed = copy.own->size();
  done_.kept = copy_shelf::of(here_).bytes();
  due_ = false;
  last_ = fiber_clock::now();
  done_.copy_seconds = seconds_since(begun);
}

void protected_run::send_copy(job_copy& copy) {
  const std::int32_t buddy = copy.buddy_of(here_.rank());
  std::deque<future<void>> under_way;
  piece_writer to([&](std::uint32_t index, bool is_tables, memory_copy::piece p) {
    copy.own->put(index, is_tables, p);
    if (buddy == here_.rank()) return;
    if (under_way.size() == most_pieces_under_way) {
      under_way.front().get();
      under_way.pop_front();
    }
    under_way.push_back(tern::call<&keep_piece>(buddy, here_.rank(), copy.number, index, is_tables, std::move(p)));
  });
  std::vector<saved_root> roots;
  split_recorder::credits credits;
  {
    split_recorder given(split_recorder::gives::copies);
    roots = what_.save_roots();
    credits = given.take();
  }
  rank_saver saver(here_, to);
  saver.save_objects();
  saver.save_rest(std::move(roots), std::move(credits));
  for (auto& one : under_way) one.get();
  copy_shelf::of(here_).add(copy);
}

// Recovery ------------------------------------------------------------------------------------------------------------

bool protected_run::recover() {
  const auto begun = fiber_clock::now();
  directory::of(here_).settle_disk();
  const auto agreed = net::detail::recover_unless_over(here_, copy_);
  const std::vector<int> living = net::detail::living(here_);
  done_.lost.clear();
  for (int r = 0; r < here_.size(); ++r)
    if (!std::binary_search(living.begin(), living.end(), r)) done_.lost.push_back(r);
  // All ranks have ended the last step, and one has gone on from there.
  if (!agreed || agreed->finished) {
    over_ = true;
    return false;
  }
  if (agreed->copy < 0) give_up("before the first copy was complete");
  copy_ = agreed->copy;
  copy_shelf::of(here_).settle(static_cast<std::uint64_t>(copy_));
  try {
    go_back(agreed->living);
  } catch (...) {
    if (!net::detail::abandoned(here_)) throw;
    return true; // another one has died
  }
  done_.recovery_seconds = seconds_since(begun);
  if (const bool many = done_.lost.size() > 1; communicator::world().rank() == 0)
    log_warning("rank" + std::string(many ? "s " : " ") + listed(done_.lost) + (many ? " have" : " has") + " died; " +
                std::to_string(living.size()) + (living.size() == 1 ? " rank goes" : " ranks go") + " on from copy " +
                std::to_string(copy_));
  return true;
}

void protected_run::go_back(const std::vector<std::int32_t>& living) {
  const auto copy = copy_shelf::of(here_).own(static_cast<std::uint64_t>(copy_));
  if (!copy)
    throw error(errc::internal,
                "rank " + std::to_string(here_.rank()) + " does not have its copy " + std::to_string(copy_));
  if (const auto both = lost_with_buddy(*copy, living))
    give_up("before a new copy was complete, and rank " + std::to_string(both->second) + " kept the copy of rank " +
            std::to_string(both->first));
  roll_back(here_, *copy, living, what_);
  ++done_.recoveries;
  due_ = true;
}

void protected_run::give_up(const std::string& what) const {
  const bool many = done_.lost.size() > 1;
  throw error(errc::rank_lost,
              "the job cannot go on: rank" + std::string(many ? "s " : " ") + listed(done_.lost) +
                  (many ? " were lost " : " was lost ") + what,
              how_to_restart(here_));
}

protection protect_job(const every& interval, protected_steps& what) {
  net::node& here = net::node::here();
  protected_run all(here, interval, what);
  return net::detail::survives(here) ? all.run() : all.run_alone();
}

} // namespace mobile::detail
} // namespace tern
