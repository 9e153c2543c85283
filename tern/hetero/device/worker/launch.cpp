// SPDX-License-Identifier: Apache-2.0
// Launches tasks when their data have come: one by one, several as one, or one as several.
#include <algorithm>
#include <array>
#include <bit>
#include <exception>
#include <string>
#include <utility>

#include <tern/base/error.hpp>
#include <tern/hetero/device/worker/device_worker.hpp>
#include <tern/hetero/record/failure.hpp>
#include <tern/task/fiber/charged_context.hpp>
#include <tern/task/scheduler/scheduler_core.hpp>
#include <tern/trace/trace.hpp>

namespace tern::hetero::detail {

// \return whether it did something.
bool device_worker::launch_ready() noexcept {
  if (ready_.empty() && (gathered_.empty() || saturated())) return false;
  launching_.swap(gathered_); // what ends meanwhile may bring in more
  const std::size_t claimed = launching_.size();
  launching_.insert(launching_.end(), ready_.begin(), ready_.end());
  ready_.clear();
  for (std::size_t i = claimed; i < launching_.size(); ++i) claim(launching_[i]);
  if (fuser_) {
    launch_by_kind();
  } else {
    std::array<argument, arguments_most> arguments;
    for (task_record* t : launching_) {
      launch_request what;
      if (describe(t, what, arguments.data())) launch(t, what, nullptr);
    }
  }
  launching_.clear();
  return true; // what has failed at once may have released what others wait for
}

bool device_worker::saturated(std::size_t launches) const noexcept {
  const std::size_t kernels = launches * static_cast<std::size_t>(device_->streams() - 2);
  if (ahead_ == 0 || running_.size() < kernels) return running_.size() >= kernels;
  // relaxed: it is brought down here
  const auto first = [](const launched& l) { return l.task->pending.load(std::memory_order_relaxed) == 0; };
  return static_cast<std::size_t>(std::count_if(running_.begin(), running_.end(), first)) >= kernels;
}

// What does not run after all is completed here. \pre it has been claimed.
bool device_worker::describe(task_record* t, launch_request& what, argument* arguments) noexcept {
  if (t->sound() && lost_)
    fail(t, std::make_exception_ptr(
                error(errc::device_lost, std::string("task '") + t->text_name() + "' was about to run on " +
                                             home_.devices().info(number_).id + ", which was lost")));
  if (t->sound() && t->work && t->work->describe) {
    try {
      t->work->describe(*t, what, arguments);
      what.task = t;
      return true;
    } catch (...) {
      fail(t, std::current_exception());
    }
  }
  finish(t);
  return false;
}

// The next one; where there is more than one task in a stream, that with the fewest.
int device_worker::next_stream() noexcept {
  const auto kernels = static_cast<unsigned>(device_->streams() - 2);
  unsigned next = next_stream_ % kernels;
  if (ahead_ > 0) {
    std::array<unsigned, 64> tasks{};
    for (const launched& l : running_) ++tasks[static_cast<std::size_t>(l.stream - 2)];
    for (unsigned i = 0; i < kernels; ++i)
      if (const unsigned other = (next_stream_ + i) % kernels; tasks[other] < tasks[next]) next = other;
  }
  next_stream_ = next + 1;
  return 2 + static_cast<int>(next);
}

// `next` goes into a stream. What is last there may have its end waited for: on the host, or in
// another stream.
void device_worker::mark_last(int stream, const task_record* next) {
  const auto last =
      std::find_if(running_.rbegin(), running_.rend(), [stream](const launched& l) { return l.stream == stream; });
  if (last == running_.rend()) return;
  const auto may_run_here = [this, kind = home_.devices().info(number_).kind](const task_record& t) {
    const std::int64_t devices = t.flags & task_record::extended ? t.device_mask : -1;
    return (t.flags & task_record::placed) && (t.kinds & kinds_of(kind)) && (devices >> number_ & 1);
  };
  const auto wanted = [&](const task_record* t) { return followers_.is_end_wanted(*t, next, may_run_here); };
  if (wanted(last->task) || std::any_of(last->rest.begin(), last->rest.end(), wanted)) device_->mark(stream);
}

// It is in a stream. What is over there is not known yet: kernels of two streams that follow each
// other closely count as being there together.
void device_worker::has_begun(launched&& l) {
  if (device_->streams_compete())
    for (launched& other : running_)
      if (other.stream != l.stream) l.beside = other.beside = true;
  running_.push_back(std::move(l));
  gave(running_.back());
}

sampled_kernel* device_worker::to_sample(task_record& t, const launch_request& what) noexcept {
  if (!device_->measures() || what.sequence) return nullptr;
  kernel_at timed{what.code, &what.shape};
  if (what.call)
    timed = device_->measures_functions() && t.work->function ? t.work->function(t, home_.devices().info(number_).kind)
                                                              : kernel_at();
  return timed.code ? home_.sampler().to_sample(t, *timed.code, *timed.shape) : nullptr;
}

void device_worker::launch(task_record* t, launch_request what, fused_kind* kind) noexcept {
  launched l{t, kind, {}};
  l.sampled = to_sample(*t, what);
  what.timed = l.sampled != nullptr;
  try {
    l.stream = next_stream();
    mark_last(l.stream, t);
    if (trace::on() && what.code) [[unlikely]]
      device_->prepare(*what.code);
    tracks_.begins(l.stream, *t, 1, [&] { return home_.sampler().expected_time(*t, number_); });
    will_charge(l, what);
    l.running = put(t, l.stream, what);
    if (l.running == 0) return end(std::move(l), nullptr);
    has_begun(std::move(l));
  } catch (...) {
    const std::exception_ptr why = std::current_exception();
    end(std::move(l), why);
    if (is_loss(why)) handle_loss(why);
  }
}

// A device's error does not name the task, which is what the user knows: the name is added. An
// exception of another type comes from a function of the user's and stays as it is.
std::exception_ptr device_worker::with_name(const task_record& t, const std::exception_ptr& why) noexcept {
  try {
    std::rethrow_exception(why);
  } catch (const error& e) {
    const std::string begin = std::string("task '") + t.text_name() + "'";
    if (!t.work || e.message().find(begin) != std::string::npos) return why;
    return std::make_exception_ptr(error(e.code(), begin + ": " + e.message(), e.hint(), e.place()));
  } catch (...) {
    return why;
  }
}

void device_worker::end(launched&& l, const std::exception_ptr& why) noexcept {
  if (l.kind) l.kind->ended(home_.core().now(), 1 + l.rest.size());
  if (!l.rest.empty()) home_.placement().add_slots(number_, -slots_of_fused(1 + l.rest.size()));
  if (!why) charge(l);
  const auto finish_one = [&](task_record* t) {
    if (why) fail(t, with_name(*t, why));
    finish(t);
  };
  finish_one(l.task);
  for (task_record* t : l.rest) finish_one(t);
}

// Charging the submitters of tasks
// -----------------------------------------------------------------------------------------

namespace {

bool is_counted(const task_record& t) noexcept { return (t.flags & task_record::on_account) != 0; }

void charge_one(const task_record& t, double seconds, double items) noexcept {
  if (!is_counted(t)) return;
  if (auto* const account = dynamic_cast<tern::detail::charged_context*>(t.causal)) account->charge(seconds, items);
}

double items_of(const launch_request& what) noexcept {
  if (what.sequence) {
    double all = 0;
    for (const launch_request& one : what.sequence->launches) all += items_of(one);
    return all;
  }
  if (!what.code || what.call) return 0; // a function's own work
  double items = static_cast<double>(what.shape.count());
  for (const int n : what.shape.items) items *= n;
  return items;
}

} // namespace

int device_worker::busy_streams() const noexcept {
  std::uint64_t streams = 0;
  for (const launched& l : running_) streams |= bit_of(l.stream);
  return std::popcount(streams);
}

// \param what it launches: of several in one launch the first, which the others equal.
void device_worker::will_charge(launched& l, const launch_request& what) noexcept {
  const auto counted = [](const task_record* t) { return is_counted(*t); };
  if (!is_counted(*l.task) && std::none_of(l.rest.begin(), l.rest.end(), counted)) return;
  l.began = home_.core().now();
  l.items = items_of(what) * static_cast<double>(1 + l.rest.size());
  l.shared_by =
      busy_streams() +
      (std::any_of(running_.begin(), running_.end(), [&](const launched& o) { return o.stream == l.stream; }) ? 0 : 1);
}

// It is the last one of which `done` has said that it is over.
void device_worker::note_took(launched& l) noexcept {
  if (l.began != 0 && device_->measures()) l.took = device_->took();
}

// Where the device does not say how long it took: since it was launched, or since what was before
// it in its stream has ended. Kernels that are under way together share the device equally. \pre
// its tasks have not been completed.
void device_worker::charge(const launched& l) noexcept {
  if (l.began == 0) return;
  std::int64_t took = l.took;
  if (took == 0) {
    const std::int64_t now = home_.core().now();
    charged_to_.resize(static_cast<std::size_t>(device_->streams()));
    std::int64_t& upto = charged_to_[static_cast<std::size_t>(l.stream)];
    took = std::max<std::int64_t>(now - std::max(l.began, upto), 0);
    upto = now;
  }
  const int shared_by = std::max({l.shared_by, busy_streams(), 1});
  const auto tasks = static_cast<double>(1 + l.rest.size());
  const double seconds = static_cast<double>(took) * 1e-9 / shared_by / tasks, items = l.items / tasks;
  charge_one(*l.task, seconds, items);
  for (const task_record* t : l.rest) charge_one(*t, seconds, items);
}

// Several as one ------------------------------------------------------------------------------------------------------

void device_worker::launch_by_kind() noexcept {
  described_.clear();
  arguments_.clear();
  std::array<argument, arguments_most> given;
  for (task_record* t : launching_) {
    described d{t, {}, arguments_.size(), false};
    if (!describe(t, d.what, given.data())) continue;
    arguments_.insert(arguments_.end(), d.what.arguments.begin(), d.what.arguments.end());
    described_.push_back(d);
  }
  for (described& d : described_) // where they stay
    d.what.arguments = {arguments_.data() + d.arguments, d.what.arguments.size()};
  for (std::size_t i = 0; i < described_.size(); ++i) {
    described& first = described_[i];
    if (first.launched) continue;
    const bool plain = first.what.code && !first.what.call && !first.what.sequence;
    const std::size_t most = plain ? fuser_->fuses(first.what) : 0;
    if (most < 2) {
      launch(first.task, first.what, nullptr);
      continue;
    }
    equal_.clear();
    for (std::size_t k = i; k < described_.size() && equal_.size() < most; ++k) {
      described& other = described_[k];
      if (other.launched || other.what.call || other.what.sequence || !fusion::equal(first.what, other.what)) continue;
      other.launched = true;
      equal_.push_back(other.what);
    }
    fused_kind& kind = fusion_.of(first.what);
    // There will be more of them when the device has time for them. A full launch stands behind the
    // one that runs, so that the device goes on while the host ends that one's tasks.
    const bool full = equal_.size() == most && !saturated(2);
    if (kind.together() && saturated() && !full) {
      for (const launch_request& one : equal_) gathered_.push_back(one.task);
      continue;
    }
    kind.began(home_.core().now(), equal_.size());
    if (equal_.size() > 1 && kind.together() && launch_equal(kind)) continue;
    for (const launch_request& one : equal_) launch(one.task, one, &kind);
  }
}

// It is one launch that the device has to do; and while it does, as many more may gather for the
// next, which is larger then by what the device has slots for anyway: launches grow until all that
// are ready are in one.
int device_worker::slots_of_fused(std::size_t tasks) noexcept { return 2 * static_cast<int>(tasks) - 1; }

// Those of `equal_`. \return false if that cannot be.
bool device_worker::launch_equal(fused_kind& kind) noexcept {
  launched l{equal_.front().task, &kind, {}};
  for (std::size_t i = 1; i < equal_.size(); ++i) l.rest.push_back(equal_[i].task);
  const int more = slots_of_fused(equal_.size());
  home_.placement().add_slots(number_, more);
  try {
    if (!fuser_->prepare_fused(equal_.front())) {
      home_.placement().add_slots(number_, -more);
      kind.never();
      return false;
    }
    l.stream = next_stream();
    mark_last(l.stream, nullptr);
    tracks_.begins(l.stream, *l.task, equal_.size(), [] { return std::optional<double>(); });
    will_charge(l, equal_.front());
    l.running = fuser_->launch_fused(l.stream, equal_);
    home_.placement().launched_together(equal_.size());
    has_begun(std::move(l));
  } catch (...) {
    const std::exception_ptr why = std::current_exception();
    end(std::move(l), why);
    if (is_loss(why)) handle_loss(why);
  }
  return true;
}

// One as several ------------------------------------------------------------------------------------------------------

ticket device_worker::put(task_record* t, int stream, const launch_request& what) {
  if (!what.sequence && !what.call) [[likely]]
    return device_->launch(stream, what);
  const tern::detail::leave_watch watch;
  const ticket last = what.sequence && !device_->takes_sequences() ? put_each(t, stream, *what.sequence, what.after)
                                                                   : device_->launch(stream, what);
  if (watch.left()) // what is in the queue goes on; then the task ends
    fail(t, std::make_exception_ptr(error(errc::invalid_state,
                                          std::string("the function of task '") + t->text_name() +
                                              "' waited while it had the queue of " + home_.devices().info(number_).id,
                                          "it must only put work into the queue; wait in another task")));
  return last;
}

// The last is done when all are, as they are in one stream.
ticket device_worker::put_each(task_record* t, int stream, const launch_sequence& all, std::span<const ticket> after) {
  std::vector<ticket> tickets;
  try {
    for (launch_request one : all.launches) {
      one.after = after;
      if (const ticket made = device_->launch(stream, one)) tickets.push_back(made);
    }
  } catch (...) {
    if (tickets.empty()) throw;
    fail(t, std::current_exception()); // when what has been begun is over
  }
  if (tickets.empty()) return 0;
  const ticket last = tickets.back();
  tickets.pop_back();
  if (!tickets.empty()) steps_.emplace(t, std::move(tickets));
  return last;
}

void device_worker::end_steps(task_record* t) noexcept {
  const auto found = steps_.find(t);
  if (found == steps_.end()) return;
  const std::vector<ticket> tickets = std::move(found->second);
  steps_.erase(found);
  for (const ticket one : tickets) {
    try {
      device_->done(one);
    } catch (const predecessor_failed&) { // as the last one
    } catch (...) {
      fail(t, std::current_exception());
    }
  }
}

} // namespace tern::hetero::detail
