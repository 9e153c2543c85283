// SPDX-License-Identifier: Apache-2.0
#include <tern/hetero/device/worker/followers.hpp>

#include <algorithm>
#include <atomic>

#include <tern/hetero/graph/dependencies.hpp>

namespace tern::hetero::detail {

namespace {
/// Calls `f(task)` for those between two links of a list of successors.
template <class F> void each_task(link* from, const link* to, F&& f) {
  for (link* l = from; l != to; l = l->next)
    // address: of what the link was made for
    if ((l->target & edge_bits) != hook_edge) f(reinterpret_cast<task_record*>(l->target & ~edge_bits));
}
} // namespace

const link* followers::first(const task_record& t) noexcept {
  return first_link(t.successors.load(std::memory_order_acquire)); // acquire: the links
}

void followers::given(task_record* t, const place& at) {
  // release: with it goes the task's device, for `dependencies::follow`.
  t->successors.fetch_or(watched_list, std::memory_order_acq_rel);
  given_.push_back({t, {at.stream, at.number, at.end, t}, nullptr});
}

void followers::tell(task_record* to, const place& at) {
  const auto [found, fresh] = successors_.try_emplace(to);
  successor& s = found->second;
  s.after.push_back(at);
  if (fresh || s.is == state::watched) fresh_.push_back(to);
}

bool followers::look() {
  for (std::size_t i = 0; i < given_.size(); ++i) {
    one& g = given_[i];
    // acquire: the links
    link* const first = first_link(g.task->successors.load(std::memory_order_acquire));
    if (first == g.seen) continue;
    each_task(first, g.seen, [&](task_record* to) { tell(to, g.at); });
    g.seen = first;
  }
  return !fresh_.empty();
}

void followers::ended(task_record* t) noexcept {
  const auto found = std::find_if(given_.begin(), given_.end(), [t](const one& g) { return g.task == t; });
  if (found == given_.end()) return;
  each_task(found->seen, nullptr, [&](task_record* to) {
    const auto at = successors_.find(to);
    if (at == successors_.end()) return;
    successor& s = at->second;
    s.after.erase(
        std::find_if(s.after.begin(), s.after.end(), [&](const place& p) { return p.number == found->at.number; }));
    if (s.after.empty()) successors_.erase(at);
  });
  given_.erase(found);
}

followers::successor* followers::known(task_record* t, state in) noexcept {
  const auto found = successors_.find(t);
  return found != successors_.end() && found->second.is == in ? &found->second : nullptr;
}

// Others that they follow may have ended elsewhere, which is not told: a few are looked at each
// time, in turn.
void followers::find_offered() {
  const auto look_at = [this](task_record* t, successor& s) {
    if (waits_for(*t) != s.given()) return false;
    s.is = state::offered;
    offered_.push_back(t);
    return true;
  };
  for (std::size_t n = std::min(looked_at, watched_.size()); n > 0 && !watched_.empty(); --n) {
    if (next_watched_ >= watched_.size()) next_watched_ = 0;
    task_record* const t = watched_[next_watched_];
    if (successor* const s = known(t, state::watched); s && !look_at(t, *s)) {
      ++next_watched_;
      continue;
    }
    watched_[next_watched_] = watched_.back();
    watched_.pop_back();
  }
  for (task_record* const t : fresh_)
    if (successor* const s = known(t, state::watched); s && !look_at(t, *s) && !s->listed) {
      s->listed = true;
      watched_.push_back(t);
    }
  fresh_.clear();
}

} // namespace tern::hetero::detail
