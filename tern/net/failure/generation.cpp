// SPDX-License-Identifier: Apache-2.0
#include <tern/net/failure/generation.hpp>

#include <algorithm>
#include <cstddef>
#include <mutex>
#include <string>
#include <typeinfo>
#include <utility>

#include <tern/net/call/pending_calls.hpp>
#include <tern/net/collective/collective.hpp>
#include <tern/net/collective/collective_table.hpp>
#include <tern/net/epoch/epoch_table.hpp>
#include <tern/net/failure/failed_ranks.hpp>
#include <tern/net/failure/survivors.hpp>
#include <tern/net/node.hpp>
#include <tern/net/packing/packing.hpp>

namespace tern::net::detail {
namespace {

struct report_tag {};
struct decision_tag {};

standing standing_in(const payload& message) {
  standing s;
  unpack_into(body_of(message.bytes), s);
  return s;
}
// They belong to no generation, and never count.
const handler_record report_record{typeid(report_tag),
                                   "tern survivor",
                                   __FILE__,
                                   [](node& here, int source, const wire_header&, payload& message) {
                                     here.survivors().take_report(source, standing_in(message));
                                   },
                                   true,
                                   nullptr,
                                   {},
                                   true};
const handler_record decision_record{typeid(decision_tag),
                                     "tern survivors",
                                     __FILE__,
                                     [](node& here, int source, const wire_header&, payload& message) {
                                       here.survivors().take_decision(source, standing_in(message));
                                     },
                                     true,
                                     nullptr,
                                     {},
                                     true};

void post_standing(node& here, int to, const handler_record& what, const standing& s) {
  here.post(to, pack(wire_header{what.id(), flag_uncounted, 0}, s), {.counted = false, .urgent = true});
}

std::vector<int> dead_of(const node& here) {
  std::vector<int> ranks;
  for (const auto& d : here.generation().dead()) ranks.push_back(d.rank);
  return ranks;
}

standing standing_of(const node& here, std::int64_t copy, bool finished) {
  standing s{{}, copy, finished};
  for (auto& d : here.generation().dead()) {
    s.dead.push_back(d.rank);
    s.texts.push_back(std::move(d.text));
  }
  return s;
}

} // namespace

bool survives(node& here) noexcept { return here.wire().outlives_ranks(); }
void kill_for_test(node& here, int rank) { here.wire().kill_for_test(rank); }
void guard(node& here) { here.survivors().guard(); }
int generation_of(const node& here) noexcept { return here.generation().number(); }
bool abandoned(const node& here) noexcept { return here.generation().abandoned(); }
std::vector<int> living(const node& here) { return here.generation().living(); }
error rank_lost_error(const node& here, const std::string& what) { return here.lost(-1, what); }
void check_living(const node& here, int rank, const char* what) {
  if (here.generation().plain() > 0) return;
  if (here.generation().abandoned() || here.generation().is_dead(rank)) throw here.lost(rank, what);
}

std::optional<recovery> recover_unless_over(node& here, std::int64_t copy) { return here.survivors().recover(copy); }
recovery recover(node& here, std::int64_t copy) {
  if (auto begun = here.survivors().recover(copy)) return *std::move(begun);
  throw error(errc::internal, "rank " + std::to_string(here.rank()) +
                                  " wants to go on after a death, but another rank has come to the end of the job");
}

void survivors::guard() {
  if (here_.generation().guarded()) return;
  here_.generation().guard();
  here_.failures().listen(here_);
  // What was known before is learnt anew, where messages arrive.
  if (const standing known = standing_of(here_, -1, false); !known.dead.empty())
    post_standing(here_, here_.rank(), report_record, known);
}

void survivors::wake() {
  guard_.lock();
  auto* const all = waiting_.take();
  guard_.unlock();
  tern::detail::waiter_list::wake_all(all);
}

void survivors::learn(generation_state::death d) {
  const int rank = d.rank;
  generation_state& generation = here_.generation();
  const bool is_new = generation.add(std::move(d));
  if (!generation.guarded()) return; // then all is as it would be if it had not been noticed
  if (is_new) here_.drop_sends_to(rank);
  if (!generation.abandoned() && generation.dead_count() > static_cast<std::size_t>(generation.number()))
    abandon();
  else if (!is_new)
    return;
  decide(); // what was missing may have been of that rank
  wake();
}

// It would be waited for in vain.
void survivors::leaves(int) {
  guard_.lock();
  over_ = true;
  guard_.unlock();
  if (here_.generation().guarded() && !here_.generation().abandoned()) abandon();
  wake();
}

void survivors::abandon() {
  here_.abandon_generation();
  here_.abandon_sends();
  const error why = here_.lost(-1, "what waited for other ranks");
  const std::exception_ptr thrown = std::make_exception_ptr(why);
  here_.collectives().abandon(why);
  here_.calls().abandon(thrown);
  here_.epochs().abandon(thrown);
  here_.shutdown().set(shutdown_state::open); // senders that wait for the ranks' decision go on
  abandon_hook::call_all(here_, why);
  here_.shutdown().notify_if_idle(); // `quiesce` may wait until nothing is queued
}

void survivors::learn_all(int source, const standing& theirs) {
  for (std::size_t i = 0; i < theirs.dead.size(); ++i) {
    const int r = theirs.dead[i];
    if (r == here_.rank()) continue; // its transport tells it, if that is so
    if (r < 0 || r >= here_.size() || theirs.texts.size() != theirs.dead.size())
      throw error(errc::invalid_data, "rank " + std::to_string(source) + " says that rank " + std::to_string(r) +
                                          " is dead, which cannot be");
    learn({r, theirs.texts[i]});
  }
}

void survivors::take_report(int source, standing theirs) {
  learn_all(source, theirs);
  if (source == here_.rank()) return; // from `guard`
  {
    const std::lock_guard hold(guard_);
    reports_[source] = std::move(theirs);
  }
  decide();
}

// Where messages arrive, or in the fiber that recovers.
void survivors::decide() {
  {
    const std::lock_guard hold(guard_);
    if (!ready_ || reports_.size() + 1 + ready_->dead.size() < static_cast<std::size_t>(here_.size())) return;
  }
  const std::vector<int> left = here_.generation().living(), dead = dead_of(here_);
  standing all;
  {
    const std::lock_guard hold(guard_);
    if (!ready_ || ready_->dead != dead || left.front() != here_.rank()) return;
    all = *ready_;
    for (const int r : left) {
      if (r == here_.rank()) continue;
      const auto at = reports_.find(r);
      if (at == reports_.end() || at->second.dead != dead) return;
      all.copy = std::max(all.copy, at->second.copy);
      all.finished = all.finished || at->second.finished;
    }
    reports_.clear();
    ready_.reset(); // told once
  }
  for (const int r : left) post_standing(here_, r, decision_record, all);
}

void survivors::take_decision(int source, const standing& all) {
  learn_all(source, all);
  if (all.dead != dead_of(here_) || !here_.generation().abandoned()) return; // a later one follows
  const std::vector<int> left = here_.generation().living();
  here_.collectives().make_everyone(here_, left);
  here_.calls().go_on();
  {
    const std::lock_guard hold(guard_);
    ready_.reset();
  }
  here_.shutdown().set(shutdown_state::open); // the end of the job may have been decided meanwhile
  here_.begin_generation(static_cast<int>(all.dead.size()));
  {
    const std::lock_guard hold(guard_);
    begun_ = recovery{static_cast<int>(all.dead.size()), left, all.copy, all.finished};
  }
  wake();
}

void survivors::begin_recovering() {
  guard_.lock();
  while (recovering_) {
    tern::detail::waiter self({tern::detail::wait_kind::other, this});
    waiting_.push(self);
    self.wait(guard_);
    guard_.lock();
  }
  recovering_ = true;
  guard_.unlock();
}

void survivors::end_recovering() noexcept {
  guard_.lock();
  recovering_ = false;
  guard_.unlock();
  wake();
}

std::optional<recovery> survivors::recover(std::int64_t copy) {
  const auto now = [&] { return recovery{here_.generation().number(), here_.generation().living(), copy, false}; };
  struct one_at_a_time {
    survivors& of;
    explicit one_at_a_time(survivors& s) : of(s) { of.begin_recovering(); }
    ~one_at_a_time() { of.end_recovering(); }
    one_at_a_time(const one_at_a_time&) = delete;
    one_at_a_time& operator=(const one_at_a_time&) = delete;
  } const turn(*this);
  if (!here_.generation().abandoned()) return now();
  const bool finished = copy == finished_copy;
  for (;;) {
    job_shutdown& shutdown = here_.shutdown();
    shutdown.wait_until_idle([&] { return shutdown.is_idle(); });
    if (here_.generation().is_dead(here_.rank())) throw here_.lost(-1, "the recovery of a rank that is dead itself");
    const standing mine = standing_of(here_, finished ? -1 : copy, finished);
    {
      const std::lock_guard hold(guard_);
      begun_.reset();
      ready_ = mine;
    }
    const int first = here_.generation().living().front();
    if (first == here_.rank())
      decide();
    else
      post_standing(here_, first, report_record, mine);
    guard_.lock();
    while (!begun_ && !over_ && mine.dead.size() == here_.generation().dead_count()) {
      tern::detail::waiter self({tern::detail::wait_kind::other, this});
      waiting_.push(self);
      self.wait(guard_);
      guard_.lock();
    }
    std::optional<recovery> result = std::move(begun_);
    const bool over = over_;
    guard_.unlock();
    if (result || over) return result;
  }
}

} // namespace tern::net::detail
