// SPDX-License-Identifier: Apache-2.0
#include <tern/net/node.hpp>

#include <mutex>
#include <utility>

#include <tern/base/error.hpp>
#include <tern/net/memory/bounded_lock.hpp>
#include <tern/net/rank/abandon_hook.hpp>
#include <tern/net/rank/ranges.hpp>
#include <tern/net/rank_local.hpp>

namespace tern::net {
namespace {

rank_stage* first_stage = nullptr;                // filled before `main`
const detail::abandon_hook* first_hook = nullptr; // likewise

} // namespace

rank_stage::rank_stage(function begins, function ends) : begins_(begins), ends_(ends), next_(first_stage) {
  first_stage = this;
}
void rank_stage::begin_all(node& here) {
  for (const rank_stage* s = first_stage; s; s = s->next_)
    if (s->begins_) s->begins_(here);
}
void rank_stage::end_all(node& here) {
  for (const rank_stage* s = first_stage; s; s = s->next_)
    if (s->ends_) s->ends_(here);
}

detail::abandon_hook::abandon_hook(function f) : function_(f), next_(first_hook) { first_hook = this; }
void detail::abandon_hook::call_all(node& here, const error& why) {
  for (const abandon_hook* h = first_hook; h; h = h->next_) h->function_(here, why);
}

node::node(node_settings s, const node_parts& parts)
    : node_receive(*this, std::move(s.rank), s.send, s.receive), opts_(s.opts), parts_(parts),
      stops_at_unhandled_(s.stops_at_unhandled), slots_(local_slot_count()) {}

node::~node() = default;

node& node::here_apart() {
  if (rank_base* const polled = current_apart()) return static_cast<node&>(*polled);
  throw error(errc::invalid_state, "this thread works for no rank",
              "call Tern's functions from inside tern::run, not from threads of your own");
}

// What a rank keeps for the layers above ------------------------------------------------------------------------------

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

// In a scheduler of its own, so that destructors know their rank.
void node::destroy_locals() {
  over_ = true;
  if (slot_order_.empty()) return;
  scheduler last({.name = "tern r" + std::to_string(rank_),
                  .context = static_cast<rank_base*>(this),
                  .simulation = world_,
                  .trace_rank = rank_});
  last.run([this] {
    while (!slot_order_.empty()) { // a destructor may use, and so make, another slot
      slot& s = slots_[slot_order_.back()];
      slot_order_.pop_back();
      s.destroy(s.object.exchange(nullptr, std::memory_order_relaxed));
    }
  });
}

void node::report_on(reported_part& part) {
  const std::lock_guard hold(reported_lock_);
  reported_.push_back(&part);
}
void node::forget_part(reported_part& part) noexcept {
  const std::lock_guard hold(reported_lock_);
  std::erase(reported_, &part);
}
bool node::for_each_part(const std::function<void(reported_part&)>& f) {
  const auto hold = try_for_a_while(reported_lock_);
  if (!hold) return false;
  for (reported_part* part : reported_) f(*part);
  return true;
}

std::string ranges(const std::vector<int>& numbers) {
  std::string text;
  for (std::size_t i = 0; i < numbers.size();) {
    std::size_t end = i + 1;
    while (end < numbers.size() && numbers[end] == numbers[end - 1] + 1) ++end;
    text += (text.empty() ? "" : ", ") + std::to_string(numbers[i]);
    if (end - i > 1) text += (end - i == 2 ? ", " : "-") + std::to_string(numbers[end - 1]);
    i = end;
  }
  return text;
}

} // namespace tern::net
