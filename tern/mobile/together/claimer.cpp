// SPDX-License-Identifier: Apache-2.0
/// \file
/// How the objects of one function are claimed, brought together and let go.
#include <tern/mobile/together/claimer.hpp>

#include <algorithm>
#include <mutex>
#include <utility>

#include <tern/base/error.hpp>
#include <tern/mobile/message/control.hpp>
#include <tern/mobile/object.hpp>
#include <tern/mobile/together/claim_table.hpp>
#include <tern/net/call/remote_exception.hpp>
#include <tern/net/message.hpp>

namespace tern::mobile::detail {
namespace {

const net::handler_record& handler_for(action how) {
  return how == action::share ? claim_shared_handler : claim_handler;
}

std::string unmoved(const claimed_object& c) {
  const std::string text = "object " + to_string(c.id);
  if (c.with.bound == claim_grant::bond::pinned) return text + " is pinned on rank " + std::to_string(c.with.rank);
  return text + " is on rank " + std::to_string(c.with.rank) + " and of a class that cannot move";
}

} // namespace

claimer::claimer(together_call& call) noexcept
    : call_(call), node_(call.node_), all_(directory::of(node_)), objects_(call.first_, call.count_) {}

void claimer::prepare() {
  std::sort(objects_.begin(), objects_.end(), [](const auto& a, const auto& b) { return a.id < b.id; });
  for (std::size_t i = 1; i < objects_.size(); ++i)
    if (objects_[i].id == objects_[i - 1].id)
      throw error(errc::invalid_argument,
                  "object " + to_string(objects_[i].id) + " is claimed together with itself, for '" + call_.name() +
                      "'",
                  "name each object once: the function has access to it anyway");
  const auto* const frame = running_invocation::here();
  for (claimed_object& c : objects_) {
    c.own = frame && frame->is_of(c.id);
    // It will probably have to move.
    c.must_move = c.shared && !c.own && c.place != 0 && all_.last_known(c.id) != all_.last_known(call_.main().id);
  }
}

// Claiming ------------------------------------------------------------------------------------------------------------

bool claimer::claim_free() {
  std::size_t next = call_.next_;
  while (next < objects_.size() && all_.access().try_claim(objects_[next])) ++next;
  if (call_.entered_ && next != call_.next_) {
    const std::lock_guard hold(claim_table::of(node_).lock());
    call_.next_ = next;
  } else {
    call_.next_ = next;
  }
  return next == objects_.size();
}

void claimer::begin() {
  prepare();
  if (claim_free()) return;
  try {
    ask_next();
  } catch (...) {
    let_go();
    throw;
  }
}

// After what this rank has sent to the object before.
void claimer::ask_next() {
  const claimed_object& c = objects_[call_.next_];
  const net::handler_record& handler = handler_for(c.how());
  call_.asked_ =
      net::detail::post_call<claim_grant>(node_, directory::of(node_).home_of(c.id),
                                          [&](std::uint64_t reply) { post_control(node_, handler, c.id, reply); });
}

void claimer::claim_all() {
  while (call_.asked_.valid() || !claim_free()) {
    if (!call_.asked_.valid()) ask_next();
    if (!std::exchange(call_.entered_, true)) claim_table::of(node_).add(call_);
    const claim_grant with = call_.asked_.get();
    const std::lock_guard hold(claim_table::of(node_).lock());
    claimed_object& c = objects_[call_.next_++];
    c.with = with;
    c.granted = true;
  }
}

// The rank where the function runs.
int claimer::choose() const {
  const claimed_object* bound = nullptr;
  int where = call_.main().with.rank;
  for (const claimed_object& c : objects_) {
    if (c.with.bound == claim_grant::bond::none) continue;
    if (bound && bound->with.rank != c.with.rank)
      throw error(errc::invalid_state, "its objects cannot come together: " + unmoved(*bound) + ", and " + unmoved(c),
                  "unpin one of them, or give its class a serialize function");
    bound = &c;
    where = c.with.rank;
  }
  return where;
}

// Has one to move that cannot as it was claimed?
bool claimer::must_claim_anew(int where) {
  bool again = false;
  for (claimed_object& c : objects_) {
    if (c.with.rank == where || (!c.with.shared && !c.with.unfinished)) continue;
    if (c.own && c.with.unfinished)
      throw error(errc::deadlock,
                  "object " + to_string(c.id) + " would have to move from rank " + std::to_string(c.with.rank) +
                      " to rank " + std::to_string(where) +
                      ", but the invocation of it that waits for this has not ended",
                  "make it the main object, or call from outside its invocations");
    again = c.must_move = true;
  }
  return again;
}

// With nothing claimed: what an unfinished invocation waits for may need one of the others.
void claimer::wait_until_settled() {
  for (const claimed_object& c : objects_)
    if (c.must_move && c.with.unfinished) ask(settle_handler, c.id).get();
}

// Moving --------------------------------------------------------------------------------------------------------------

future<void> claimer::carry(const claimed_object& one, int where) {
  const int from = one.with.rank;
  return net::detail::post_call<void>(node_, from, [&](std::uint64_t reply) {
    if (from == node_.rank())
      all_.access().carry(carry_request(node_, one.id, where, reply));
    else
      net::detail::post_packed(node_, from, {carry_handler.id(), 0, reply}, {}, address(one.id, node_.rank()),
                               static_cast<std::int32_t>(where));
  });
}

void claimer::bring_to(int where) {
  std::vector<std::pair<claimed_object*, future<void>>> moving;
  std::exception_ptr first;
  {
    const std::lock_guard hold(claim_table::of(node_).lock());
    call_.at_ = stage::moving;
  }
  try {
    for (claimed_object& c : objects_)
      if (c.with.rank != where) moving.emplace_back(&c, carry(c, where));
  } catch (...) {
    first = std::current_exception();
  }
  for (auto& [c, moved] : moving) {
    try {
      moved.get();
      c->with.rank = where;
      c->of = nullptr;
      c->object = nullptr;
    } catch (...) {
      if (!first) first = std::current_exception();
    }
  }
  if (first) std::rethrow_exception(first);
}

// Running -------------------------------------------------------------------------------------------------------------

void claimer::run() noexcept {
  int where = 0;
  try {
    claim_all();
    where = choose();
    while (must_claim_anew(where)) {
      let_go();
      wait_until_settled();
      claim_all();
      where = choose();
    }
    if (std::any_of(objects_.begin(), objects_.end(), [&](const auto& c) { return c.with.rank != where; }))
      bring_to(where);
  } catch (...) {
    net::detail::failure f = net::detail::describe(std::current_exception());
    f.message = call_.describe() + " did not run: " + f.message;
    let_go();
    call_.failed(std::make_exception_ptr(f.as_error()));
    return call_.publish();
  }
  if (where == node_.rank())
    run_here();
  else
    run_on(where);
  call_.publish();
}

void claimer::run_here() {
  struct function final : claimed_body {
    explicit function(together_call& c) noexcept : call(c) {}
    void run(std::span<void* const> objects) override { call.run(objects); }
    together_call& call;
  } body(call_);
  try {
    all_.access().run_claimed(objects_, body);
  } catch (...) {
    net::detail::failure f = net::detail::describe(std::current_exception());
    f.message += " (in " + call_.describe() + " on rank " + std::to_string(node_.rank()) + ")";
    call_.failed(std::make_exception_ptr(f.as_error()));
  }
  let_go();
}

void claimer::run_on(int where) {
  std::vector<claim_name> names;
  for (const claimed_object& c : objects_) names.push_back({c.id, c.place, c.with.shared});
  try {
    call_.post_to(where, names);
  } catch (...) {
    call_.failed(std::current_exception());
    return let_go();
  }
  {
    const std::lock_guard hold(claim_table::of(node_).lock());
    call_.at_ = stage::running;
    for (claimed_object& c : objects_) c.granted = false; // they are let go there
  }
  try {
    call_.wait();
  } catch (...) {
    call_.failed(std::current_exception());
  }
}

// Letting go ----------------------------------------------------------------------------------------------------------

void claimer::let_go() noexcept {
  try {
    for (auto c = objects_.rbegin(); c != objects_.rend(); ++c)
      if (std::exchange(c->granted, false)) let_go(*c);
    if (call_.entered_) claim_table::of(node_).lock().lock();
    call_.next_ = 0;
    if (call_.entered_) claim_table::of(node_).lock().unlock();
  } catch (const error& e) {
    if (e.code() != errc::invalid_state) node_.fatal(e.what()); // but for the job's end
  } catch (const std::exception& e) {
    node_.fatal(e.what());
  }
}

void claimer::let_go(claimed_object& one) {
  if (one.with.rank == node_.rank()) {
    if (one.of)
      all_.access().end_claim(*one.of, one.with.shared);
    else
      all_.access().end_claim(one.id, one.with.shared);
  } else {
    net::detail::post_packed(node_, one.with.rank, {let_go_handler.id(), 0, 0}, {}, address(one.id, node_.rank()),
                             static_cast<std::uint32_t>(one.with.shared));
  }
  one.of = nullptr;
  one.object = nullptr;
}

// Under the table's lock.
std::string together_call::report() const {
  std::string has;
  for (std::size_t i = 0; i < next_; ++i) has += (has.empty() ? "" : ", ") + to_string(first_[i].id);
  std::string text = "    " + describe();
  if (at_ == stage::running) return text + " runs on rank " + std::to_string(main().with.rank) + "\n";
  if (!has.empty()) text += " has " + has + (next_ < count_ ? " and" : "");
  if (at_ == stage::moving) return text + ", which come together\n";
  return text + (next_ < count_ ? " waits for " + to_string(first_[next_].id) : "") + "\n";
}

} // namespace tern::mobile::detail
