// SPDX-License-Identifier: Apache-2.0
#include <tern/balance/runtime/balancer.hpp>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <iterator>
#include <mutex>
#include <utility>

#include <tern/base/error.hpp>
#include <tern/base/log.hpp>
#include <tern/net/failure/generation.hpp>
#include <tern/net/message.hpp>
#include <tern/task/fiber.hpp>
#include <tern/task/fiber/causal_context.hpp>
#include <tern/task/future.hpp>
#include <tern/task/wait/waiting.hpp>

namespace tern::balance::detail {
namespace {

/// The generation of the policy that started this fiber of `balancer::fiber`; 0 in other fibers.
const fiber_local<std::uint32_t> generation_of_fiber;

struct balance_tag {};
void take_message(net::node& here, int source, const net::wire_header& header, net::payload& message) {
  balancer* const b = balancer::if_made(here);
  if (!b) throw error(errc::invalid_data, "a balancing message has come to a rank without balancing");
  b->message(source, net::detail::body_of(message.bytes));
  here.message_done(header);
}
const net::handler_record message_handler{typeid(balance_tag), "tern balancing", __FILE__, &take_message, true};

} // namespace

std::string text_of(const std::exception_ptr& e) {
  try {
    std::rethrow_exception(e);
  } catch (const error& x) {
    return x.message();
  } catch (const std::exception& x) {
    return x.what();
  } catch (...) {
    return "something that is no exception of the standard library";
  }
}

/// A function that is to be called later. Belongs to the balancer until it has been.
struct balancer::alarm final : tern::detail::timed_function {
  alarm(balancer& b, std::function<void()> f) : timed_function(&ring), of(b), what(std::move(f)) {}
  static void ring(timed_function& f) noexcept {
    auto& self = static_cast<alarm&>(f);
    self.of.rings(self);
  }
  balancer& of;
  std::function<void()> what;
};

balancer::balancer()
    : node_(net::node::here()), objects_(mobile::directory::of(node_)),
      queue_(make_node_queue(node_.opts()[order_option], node_.computing_workers())),
      first_worker_(node_.fibers().workers() - node_.computing_workers()), period_(node_.opts()[period_option]),
      trend_(node_.opts()[load_option] == "trend"), may_stand_aside_(node_.opts()[aside_option]),
      random_(node_.seed() + 0x9e3779b97f4a7c15u * (static_cast<std::uint64_t>(node_.rank()) + 1)) {
  const std::string& counts = node_.opts()[load_option];
  objects_.count_as(counts == "constant"   ? mobile::load_model::constant
                    : counts == "measured" ? mobile::load_model::measured
                                           : mobile::load_model::declared);
  objects_.set_balancer(*this);
  node_.plug_in(*this);
  node_.report_on(*this);
}

balancer::~balancer() { node_.forget_part(*this); }

void balancer::send_bytes(int to, message_head::kind is, std::span<const std::byte> bytes) {
  const tern::detail::causal_scope no_context(nullptr); // what a policy sends does not belong to what has called it
  const net::wire_header header{message_handler.id(), 0, 0};
  message_head head{generation_.load(std::memory_order_relaxed), is, -1, -1};
  tell_shares(head);
  byte_buffer whole(sizeof header + sizeof head + bytes.size());
  std::memcpy(whole.data(), &header, sizeof header);
  std::memcpy(whole.data() + sizeof header, &head, sizeof head);
  if (!bytes.empty()) std::memcpy(whole.data() + sizeof header + sizeof head, bytes.data(), bytes.size());
  node_.post(to, std::move(whole), {.counted = true, .urgent = true});
}

// The policy and its rank ---------------------------------------------------------------------------------------------

void balancer::happen(event e) {
  // Another thread may deal with it, later: until then the job is not at rest.
  if (e.counted) node_.parked({});
  {
    std::unique_lock hold(guard_);
    if (closed_) {
      hold.unlock();
      if (e.counted) node_.message_done({});
      return;
    }
    if (std::exchange(inside_, true)) {
      events_.push_back(std::move(e));
      return;
    }
  } // else none waits
  const tern::detail::causal_scope nobodys(nullptr);
  for (;;) {
    const bool counted = e.counted;
    try {
      deal_with(e);
      ask_policy_again();
    } catch (...) {
      if (net::detail::abandoned(node_))
        drop_policy();              // as it will be anyway
      else if (!node_.has_closed()) // else it could send nothing any more
        fail(text_of(std::current_exception()));
    }
    if (counted || e.call) e = {}; // before it counts as done
    if (counted) node_.message_done({});
    const std::lock_guard hold(guard_);
    if (events_.empty()) {
      inside_ = false;
      return;
    }
    e = std::move(events_.front());
    events_.pop_front();
  }
}

// It may let go of what it has kept in its queue.
void balancer::ask_policy_again() noexcept {
  if (policy_count_.load(std::memory_order_relaxed) == 0) return;
  {
    const std::lock_guard hold(queue_guard_);
    if (policy_has_.empty()) return;
    if (policy_ready_.load(std::memory_order_relaxed) > 0 && refused_.empty()) return;
    refused_.clear();
    policy_ready_.store(policy_has_.size(), std::memory_order_seq_cst);
  }
  node_.fibers().notify();
}

void balancer::deal_with(event& e) {
  switch (e.is) {
  case event::kind::trigger:
    if (!policy_ || !enabled_) return;
    {
      const std::lock_guard hold(guard_);
      ++counted_.calls;
    }
    return policy_->dist_balance(e.why);
  case event::kind::notify:
    if (policy_ && enabled_) policy_->notify(e.object);
    return;
  case event::kind::message:
    if (e.generation > generation_.load(std::memory_order_relaxed)) {
      early_.push_back(std::move(e)); // done when this policy comes
      early_.back().counted = false;
      return;
    }
    if (e.generation == generation_.load(std::memory_order_relaxed) && policy_)
      policy_->receive(living_.empty() ? e.source : place_of(e.source), e.bytes);
    break;
  case event::kind::call:
    if (e.generation != 0 && (e.generation != generation_.load(std::memory_order_relaxed) || !policy_))
      return; // it was another policy's
    e.call();
    if (e.generation == 0) return; // the balancer's own
    break;
  case event::kind::done: // each belongs to a move, of which there is an end
    if (e.generation == generation_.load(std::memory_order_relaxed) && policy_) e.call();
    return;
  }
  // A guard against policies that talk without end, which would keep the job from ending; not
  // against one that now and then asks whether something that takes long is over. relaxed: it need
  // not be exact
  const double since = active_since_.load(std::memory_order_relaxed);
  const double quiet = std::max(0.0, now() - since); // clocks of simulated workers differ
  // While this rank waits or computes others may have ever so much to tell it.
  const double most = 10'000 + 100.0 * size() + (100 + 10.0 * size()) * quiet / period_;
  if (restless_.fetch_add(1, std::memory_order_relaxed) > most && policy_) {
    const std::uint32_t events = restless_.exchange(0, std::memory_order_relaxed);
    throw error(errc::invalid_state, "it does not come to rest: " + std::to_string(events) +
                                         " messages and alarms since any invocation began or ended");
  }
}

// Workers may be about to ask it. What it has in a queue of its own goes to the rank's.
void balancer::drop_policy() noexcept {
  std::shared_ptr<policy> old, others; // gone when this returns, or the last of its fibers
  {
    const std::lock_guard hold(queue_guard_);
    old = std::move(policy_);
    for (const object_id o : policy_has_) queue_->push(-1, {o, 0, priority::normal});
    policy_has_.clear();
    refused_.clear();
    strangers_ = 0;
    policy_ready_.store(0, std::memory_order_relaxed);
    policy_count_.store(0, std::memory_order_relaxed);
  }
  {
    const std::lock_guard hold(guard_);
    others = std::move(alive_);
    wants_.clear(); // which that policy wanted
    places_.store(false, std::memory_order_relaxed);
  }
  node_.fibers().notify();
}

void balancer::fails_later(const std::string& why) {
  happen_in_fiber({.is = event::kind::call,
                   .call = [this, why] { fail(why); },
                   .generation = generation_.load(std::memory_order_relaxed)});
}

// The program goes on without.
void balancer::fail(const std::string& why) noexcept {
  const std::string name = name_;
  drop_policy();
  name_ = "none";
  on_.store(false, std::memory_order_relaxed);
  {
    const std::lock_guard hold(guard_);
    shown_ = name_;
    begin_trial();
  }
  log_error("balancing policy '" + name + "' has failed on rank " + std::to_string(node_.rank()) + ": " + why +
            "; the program goes on without balancing");
  objects_.count_contacts(recorder_ != nullptr);
  objects_.defer(false);
  try {
    tell_of_failure(generation_.load(std::memory_order_relaxed));
  } catch (const error& e) { // the job has just ended, or goes back: no rank need know any more
    if (!node_.has_closed() && e.code() != errc::rank_lost)
      node_.fatal("the first rank cannot be told that a balancing policy has failed: " + e.message());
  }
}

void balancer::use(std::uint32_t generation, const std::string& text) {
  // Made and unmade in its turn, as it may be in use just now.
  happen({.is = event::kind::call, .call = [this, generation, text] {
            if (generation <= generation_.load(std::memory_order_relaxed)) return; // another was chosen since
            drop_policy();
            name_ = text;
            is_active(now());
            generation_.store(generation, std::memory_order_relaxed);
            const bool any = split_policy(text).name != "none";
            if (any) {
              std::shared_ptr<policy> fresh = make_policy(text, *this);
              const std::lock_guard hold(queue_guard_);
              policy_ = std::move(fresh);
            }
            std::vector<event> early = std::exchange(early_, {});
            {
              const std::lock_guard hold(guard_);
              shown_ = text;
              alive_ = policy_;
              if (any) named_ = text;
              begin_trial();
              events_.insert(events_.begin(), std::make_move_iterator(early.begin()),
                             std::make_move_iterator(early.end()));
            }
            on_.store(any, std::memory_order_relaxed);
            objects_.count_contacts(recorder_ || (any && policy_->wants_contacts()));
            objects_.defer(any);
            if (!policy_ || !enabled_) return;
            policy_->dist_balance(trigger::start);
            arm_period();
            idle_told_.store(false, std::memory_order_relaxed);
            look_for_idle();
          }});
}

void balancer::enable(bool on) {
  happen({.is = event::kind::call, .call = [this, on] {
            if (enabled_.exchange(on) == on) return;
            {
              const std::lock_guard hold(guard_);
              begin_trial();
            }
            if (!on || !policy_) return;
            policy_->dist_balance(trigger::start);
            arm_period();
          }});
}

void balancer::catch_up() {
  {
    const std::lock_guard hold(guard_);
    if (closed_) return;
  }
  // Shared: the thread that sets it may not have left it yet when this fiber goes on.
  const auto reached = std::make_shared<promise<void>>();
  future<void> then = reached->get_future();
  happen({.is = event::kind::call, .call = [reached] { reached->set_value(); }});
  then.get();
}

std::string balancer::in_use() {
  const std::lock_guard hold(guard_);
  return shown_;
}

counters balancer::count() const {
  const std::lock_guard hold(guard_);
  return counted_;
}

void balancer::message(int source, std::span<const std::byte> bytes) {
  message_head head{};
  if (bytes.size() < sizeof head)
    throw error(errc::invalid_data, "a balancing message of " + std::to_string(bytes.size()) +
                                        " bytes has come from rank " + std::to_string(source));
  std::memcpy(&head, bytes.data(), sizeof head);
  bytes = bytes.subspan(sizeof head);
  if (hears_shares(head)) tell_whether_it_acts();
  if (head.is == message_head::kind::of_policy) {
    {
      const std::lock_guard hold(guard_);
      ++counted_.messages;
    }
    return happen({.is = event::kind::message,
                   .source = source,
                   .bytes = byte_buffer::copy_of(bytes),
                   .generation = head.generation,
                   .counted = true});
  }
  if (head.is != message_head::kind::history || bytes.size() != sizeof(carried))
    throw error(errc::invalid_data,
                "a balancing message of no known kind has come from rank " + std::to_string(source));
  carried now;
  std::memcpy(&now, bytes.data(), sizeof now);
  is_active(this->now());
  const std::lock_guard hold(guard_);
  ++counted_.arrived; // or will have
  ++window_.came;
  carried& here = histories_[now.id.bits];
  now.seconds += here.seconds; // it has been here before in this phase
  now.device += here.device;
  here = now;
  keeps_history_.store(true, std::memory_order_relaxed);
}

void balancer::close() {
  std::vector<std::unique_ptr<alarm>> all;
  std::deque<event> events;
  std::string name;
  {
    const std::lock_guard hold(guard_);
    closed_ = true;
    all.swap(alarms_);
    events.swap(events_);
    name = shown_;
  }
  for (const event& e : events)
    if (e.counted) node_.message_done({});
  on_.store(false, std::memory_order_relaxed);
  if (recorder_) recorder_->store(node_.opts()[record_option], name, node_.opts()[order_option]);
  for (auto& a : all)
    if (!a->cancel()) late_.push_back(std::move(a)); // it may ring just now, or was to be set yet
}

void balancer::record() {
  recorder_ = std::make_unique<recorder>(node_, objects_);
  objects_.watch_loads(true);
  objects_.count_contacts(true);
}

void balancer::note(std::string_view what, double value) {
  if (recorder_) recorder_->noted(what, value);
}

void balancer::post(int to, byte_buffer message) {
  if (net::detail::abandoned(node_)) return; // the policies begin anew
  send_bytes(job_rank(to), message_head::kind::of_policy, message);
}

// Time ----------------------------------------------------------------------------------------------------------------

double balancer::now() const noexcept {
  return std::chrono::duration<double>(fiber_clock::now().time_since_epoch()).count();
}

void balancer::set_alarm(double seconds, std::function<void()> what) {
  auto a = std::make_unique<alarm>(*this, std::move(what));
  alarm* const set = a.get();
  const auto deadline = tern::detail::deadline_after(std::chrono::duration_cast<std::chrono::nanoseconds>(
      std::chrono::duration<double>(seconds > 0 ? std::min(seconds, 1e9) : 0)));
  const bool here = scheduler::current() == &node_.fibers();
  {
    // Set under the lock, so that `close` calls off all that are set, and none is afterwards.
    const std::lock_guard hold(guard_);
    if (closed_) return;
    alarms_.push_back(std::move(a));
    if (here) return set->set(deadline);
  }
  // The thread that looks after messages has no timers.
  node_.fibers().spawn(
      [this, set, deadline] {
        const std::lock_guard hold(guard_);
        if (!closed_) set->set(deadline);
      },
      {.name = "balancing", .priority = priority::high});
}

void balancer::rings(alarm& a) noexcept {
  std::unique_ptr<alarm> done; // goes when this returns: no thread looks at it any more
  std::function<void()> what = std::move(a.what);
  {
    const std::lock_guard hold(guard_);
    const auto at = std::find_if(alarms_.begin(), alarms_.end(), [&](const auto& p) { return p.get() == &a; });
    if (at == alarms_.end()) return; // closed
    done = std::move(*at);
    alarms_.erase(at);
  }
  // In a fiber, since the job may be about to end: a fiber that sends then must be able to wait
  // until that is decided.
  happen_in_fiber({.is = event::kind::call, .call = std::move(what)});
}

void balancer::happen_in_fiber(event e) {
  node_.fibers().spawn([this, e = std::move(e)]() mutable { happen(std::move(e)); },
                       {.name = "balancing", .priority = priority::high, .worker = node_.server()});
}

void balancer::after(double seconds, std::function<void()> what) {
  set_alarm(seconds,
            [this, generation = generation_.load(std::memory_order_relaxed), what = std::move(what)]() mutable {
              happen({.is = event::kind::call, .call = std::move(what), .generation = generation});
            });
}

// Counts for `quiesce`, as the messages do that it may be about to send.
void balancer::fiber(std::function<void()> what) {
  std::shared_ptr<policy> whose; // keeps the policy alive for `what`, also if it is replaced here
  {
    const std::lock_guard hold(guard_);
    whose = alive_;
  }
  node_.parked({});
  node_.fibers().spawn(
      [this, whose = std::move(whose), generation = generation_.load(std::memory_order_relaxed),
       what = std::move(what)]() mutable {
        *generation_of_fiber = generation;
        try {
          what();
        } catch (...) {
          happen({.is = event::kind::call,
                  .call = [this, why = text_of(std::current_exception())] { fail(why); },
                  .generation = generation});
        }
        what = nullptr;
        whose.reset();
        node_.message_done({});
      },
      {.name = "balancing", .priority = priority::high});
}

// \throws error(broken_promise) in the fiber of a policy that is no more: it ends there.
void balancer::enter(const std::function<void()>& what) {
  const std::uint32_t own = scheduler::in_fiber() ? *generation_of_fiber : 0;
  if (own == 0)
    throw error(errc::invalid_state, "policy_context::enter was called outside the fibers of policy_context::fiber",
                "a policy's own functions are entered already: call directly what is to be done");
  promise<void> called;
  auto done = called.get_future();
  happen({.is = event::kind::call,
          .call =
              [&what, answer = std::make_shared<promise<void>>(std::move(called))] {
                try {
                  what();
                } catch (...) {
                  answer->set_exception(std::current_exception());
                  return;
                }
                answer->set_value();
              },
          .generation = own});
  done.get();
}

std::uint64_t balancer::random(std::uint64_t n) noexcept { // splitmix64 (Steele, Lea, Flood 2014)
  std::uint64_t z = random_ += 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return n > 0 ? (z ^ (z >> 31)) % n : 0;
}

} // namespace tern::balance::detail
