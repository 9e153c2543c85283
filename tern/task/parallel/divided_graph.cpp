// SPDX-License-Identifier: Apache-2.0
#include <tern/task/parallel/divided_graph.hpp>

#include <algorithm>
#include <limits>
#include <mutex>
#include <span>

#include <tern/task/fiber/ticks.hpp>
#include <tern/task/scheduler/scheduler_core.hpp>

namespace tern::detail {
namespace {

constexpr double patience = 5e-6; // seconds for which a strand looks for what another part sends
constexpr int looks_at_once = 32;
// Nodes between two looks at an inbox: each look takes the line from the part that writes it.
constexpr unsigned look_every = 8;
constexpr std::uint32_t no_node = std::numeric_limits<std::uint32_t>::max();

/// Lists of numbers, one after the other.
struct lists {
  std::vector<std::uint32_t> begin, all;
  std::span<const std::uint32_t> operator[](std::size_t i) const noexcept {
    return std::span(all).subspan(begin[i], begin[i + 1] - begin[i]);
  }
};

/// For each of `n` keys the values that go with it, in their order. `pairs(f)` calls `f(key,
/// value)` for all.
template <class Pairs> lists sorted_into(std::size_t n, Pairs&& pairs) {
  lists made;
  made.begin.assign(n + 1, 0);
  pairs([&](std::uint32_t key, std::uint32_t) { ++made.begin[key + 1]; });
  for (std::size_t i = 0; i < n; ++i) made.begin[i + 1] += made.begin[i];
  made.all.resize(made.begin[n]);
  std::vector<std::uint32_t> at(made.begin.begin(), made.begin.end() - 1);
  pairs([&](std::uint32_t key, std::uint32_t value) { made.all[at[key]++] = value; });
  return made;
}

/// The nodes of each level: the first has no predecessors, each other one has them in levels
/// before.
lists levels_of(const lists& successors, const lists& predecessors) {
  const std::size_t n = predecessors.begin.size() - 1;
  std::vector<std::uint32_t> level(n, 0), pending(n), order;
  order.reserve(n);
  for (std::uint32_t i = 0; i < n; ++i) {
    pending[i] = static_cast<std::uint32_t>(predecessors[i].size());
    if (pending[i] == 0) order.push_back(i);
  }
  std::uint32_t last = 0;
  for (std::size_t i = 0; i < order.size(); ++i)
    for (const std::uint32_t s : successors[order[i]]) {
      level[s] = std::max(level[s], level[order[i]] + 1);
      last = std::max(last, level[s]);
      if (--pending[s] == 0) order.push_back(s);
    }
  return sorted_into(last + 1, [&](auto&& f) {
    for (std::uint32_t i = 0; i < n; ++i) f(level[i], i);
  });
}

} // namespace

struct divided_graph::node {
  graph_node* f = nullptr;
  std::uint32_t pending = 0; // predecessors that have not returned in this run
  std::uint32_t predecessors = 0;
  std::uint32_t first = 0, last = 0; // in part::successors
  bool awaited = false;              // another part has successors of it
};

struct divided_graph::part : tasklet {
  enum state_of : std::uint32_t { running, queued, idle, leaving, mailed };

  /// What another part has sent: the number of a run and of a node, which has one predecessor less
  /// to wait for.
  struct inbox {
    std::unique_ptr<std::atomic<std::uint64_t>[]> entries; // one more than are sent in a run
    std::uint32_t read = 0;
  };

  divided_graph* of = nullptr;
  // The strand's.
  std::vector<node> nodes;
  std::vector<std::uint32_t> successors; // places
  std::vector<std::uint32_t> sources;
  std::vector<std::uint32_t> ready[2]; // rows, each as long as there are nodes for it; [1]: those that others await
  std::size_t begin[2] = {}, end[2] = {};
  std::uint32_t left = 0; // nodes that are not done
  std::uint32_t run = 0;
  std::vector<inbox> inboxes; // from each part
  // To each part: the next entry of its inbox. Looked up there, it would come in a line that the
  // reader writes.
  std::vector<std::atomic<std::uint64_t>*> outboxes;
  std::size_t looked_at = 0; // the inbox
  int last_worker = -1;
  // Others'.
  alignas(64) std::atomic<std::uint32_t> state{idle};
  std::atomic<bool> any_returned{false};
  spin_lock returned_lock;
  std::vector<std::uint32_t> returned; // nodes whose function had waited; under the lock

  void count_down(std::uint32_t i) noexcept {
    node& n = nodes[i];
    if (--n.pending > 0) return;
    ready[n.awaited][end[n.awaited]++] = i;
  }
  std::uint32_t next() noexcept {
    for (const std::size_t row : {std::size_t{1}, std::size_t{0}})
      if (begin[row] < end[row]) return ready[row][begin[row]++];
    return no_node;
  }
  // acquire: what the node before wrote is visible to the one that is counted down.
  std::uint64_t entry(const inbox& from) const noexcept {
    return from.entries[from.read].load(std::memory_order_acquire);
  }
  bool is_mail(std::uint64_t entry) const noexcept { return entry >> 32 == run; }
  bool has_mail() const noexcept {
    return any_returned.load(std::memory_order_acquire) ||
           std::any_of(inboxes.begin(), inboxes.end(), [&](const inbox& from) { return is_mail(entry(from)); });
  }
  void receive() noexcept {
    if (++looked_at >= inboxes.size()) looked_at = 0;
    inbox& from = inboxes[looked_at];
    for (std::uint64_t e; is_mail(e = entry(from)); ++from.read) count_down(static_cast<std::uint32_t>(e));
  }
};

/// A part while a tasklet runs it. If its fiber waits, the part goes on without it.
class divided_graph::strand : public leave_hook {
public:
  strand(divided_graph& graph, part& p) noexcept : leave_hook{on_leave}, graph_(graph), part_(p) {
    add_leave_hook(*this);
  }
  ~strand() { remove_leave_hook(*this); }
  strand(const strand&) = delete;
  strand& operator=(const strand&) = delete;
  bool left() const noexcept { return left_; }

private:
  static void on_leave(leave_hook& h) noexcept {
    auto& self = static_cast<strand&>(h);
    if (!std::exchange(self.left_, true)) self.graph_.queue(self.part_);
  }
  divided_graph& graph_;
  part& part_;
  bool left_ = false;
};

bool divided_graph::possible(const scheduler_core& home, std::size_t nodes) noexcept {
  const std::size_t parts = home.workers.size();
  return parts > 1 && parts <= most_parts && !home.executor && nodes >= parts * least_nodes && nodes < most_nodes;
}

divided_graph::divided_graph(scheduler_core& home, group_state& group, const graph_store& graph)
    : core_(home), group_(group), parts_(new part[home.workers.size()]), part_count_(home.workers.size()) {
  const lists after = sorted_into(graph.nodes().size(), [&](auto&& f) { graph.each_edge(f); });
  const std::vector<std::uint32_t> order = divide(graph);
  for (std::size_t p = 0; p < part_count_; ++p) {
    part& one = parts_[p];
    one.of = this;
    one.run = no_node; // none has been
    tasklet& strand_of_it = one;
    strand_of_it.run = run_part;
    strand_of_it.group = &group_;
    one.inboxes.resize(part_count_);
    one.outboxes.resize(part_count_);
  }
  std::vector<std::vector<std::uint32_t>> crossing(part_count_, std::vector<std::uint32_t>(part_count_, 0));
  for (const std::uint32_t i : order) { // in each part in the order of its places
    const std::size_t mine = part_of(i);
    part& p = parts_[mine];
    node& made = p.nodes.emplace_back();
    made.f = &graph.nodes()[i];
    made.predecessors = made.f->predecessors;
    made.first = static_cast<std::uint32_t>(p.successors.size());
    for (const std::uint32_t s : after[i]) {
      p.successors.push_back(place_[s]);
      if (part_of(s) == mine) continue;
      made.awaited = true;
      ++crossing[mine][part_of(s)];
    }
    made.last = static_cast<std::uint32_t>(p.successors.size());
  }
  for (std::size_t p = 0; p < part_count_; ++p) {
    part& one = parts_[p];
    std::size_t awaited = 0;
    for (std::uint32_t i = 0; i < one.nodes.size(); ++i) {
      one.nodes[i].pending = one.nodes[i].predecessors;
      awaited += one.nodes[i].awaited ? 1 : 0;
      if (one.nodes[i].predecessors == 0) one.sources.push_back(i);
    }
    one.ready[0].resize(one.nodes.size() - awaited);
    one.ready[1].resize(awaited);
    one.returned.reserve(one.nodes.size());
    for (std::size_t from = 0; from < part_count_; ++from) {
      const std::size_t entries = crossing[from][p] + std::size_t{1};
      one.inboxes[from].entries = std::make_unique<std::atomic<std::uint64_t>[]>(entries);
    }
  }
}

divided_graph::~divided_graph() = default;

// Level by level: so all parts have something to do at any time. Nodes without predecessors are
// divided in the order in which they were added.
std::vector<std::uint32_t> divided_graph::divide(const graph_store& graph) {
  const std::size_t n = graph.nodes().size();
  const lists after = sorted_into(n, [&](auto&&f) { graph.each_edge(f); }),
              before = sorted_into(
                  n, [&](auto&&f) { graph.each_edge([&](std::uint32_t from, std::uint32_t to) { f(to, from); }); });
  const lists level = levels_of(after, before);
  std::vector<std::uint32_t> home(n), votes(part_count_), room(part_count_), order;
  for (std::size_t l = 0; l + 1 < level.begin.size(); ++l) {
    const auto nodes = level[l];
    std::fill(room.begin(), room.end(), static_cast<std::uint32_t>((nodes.size() + part_count_ - 1) / part_count_));
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      for (const std::uint32_t p : before[nodes[i]]) ++votes[home[p]];
      std::size_t best = i * part_count_ / nodes.size();
      while (room[best] == 0) best = best + 1 == part_count_ ? 0 : best + 1;
      for (const std::uint32_t p : before[nodes[i]])
        if (room[home[p]] > 0 && votes[home[p]] > votes[best]) best = home[p];
      for (const std::uint32_t p : before[nodes[i]]) votes[home[p]] = 0;
      home[nodes[i]] = static_cast<std::uint32_t>(best);
      --room[best];
    }
  }
  // Places follow the levels, so that what runs soon lies together.
  place_.resize(n);
  order.reserve(n);
  std::vector<std::uint32_t> next(part_count_, 0);
  for (const std::uint32_t i : level.all) {
    place_[i] = (home[i] << part_shift) | next[home[i]]++;
    order.push_back(i);
  }
  return order;
}

void divided_graph::begin() {
  worker& w = *this_worker();
  ++run_;
  std::int64_t all = 0;
  for (std::size_t i = 0; i < part_count_; ++i) {
    part& p = parts_[i];
    p.run = run_;
    p.left = static_cast<std::uint32_t>(p.nodes.size());
    for (const int row : {0, 1}) p.begin[row] = p.end[row] = 0;
    for (part::inbox& from : p.inboxes) from.read = 0;
    for (std::size_t to = 0; to < part_count_; ++to) p.outboxes[to] = parts_[to].inboxes[i].entries.get();
    for (const std::uint32_t s : p.sources) p.ready[p.nodes[s].awaited][p.end[p.nodes[s].awaited]++] = s;
    p.state.store(part::queued, std::memory_order_relaxed);
    all += p.left;
  }
  // The strands count, too. A part's memory is in the caches of the worker that had it last: own
  // ones come last, to be popped first.
  group_.remote.store(-all - static_cast<std::int64_t>(part_count_), std::memory_order_relaxed);
  std::vector<part*> own;
  const int index = w.index;
  for (std::size_t i = 0; i < part_count_; ++i)
    if (parts_[i].last_worker == index)
      own.push_back(&parts_[i]);
    else
      static_cast<worker_base*>(this_worker_head())->push(&parts_[i]); // may move to another worker
  for (part* const p : own) static_cast<worker_base*>(this_worker_head())->push(p);
}

worker_base* divided_graph::run_part(tasklet* t) noexcept {
  part& p = *static_cast<part*>(t);
  divided_graph& g = *p.of;
  group_state& group = g.group_;
  worker* w = this_worker();
  p.state.store(part::running, std::memory_order_relaxed); // what the part has came with the tasklet
  p.last_worker = w->index;
  std::int64_t ran = 0;
  unsigned turn = 0;
  for (strand here(g, p);;) {
    if (++turn % look_every == 0) p.receive();
    if (p.any_returned.load(std::memory_order_relaxed)) [[unlikely]]
      g.take_returned(p);
    if (const std::uint32_t i = p.next(); i != no_node) {
      run_closure(group, *p.nodes[i].f);
      ++ran;
      w = this_worker(); // the function may have moved
      if (here.left()) [[unlikely]] {
        g.give_back(p, i);
        break;
      }
      g.finish(p, i);
      w->home->stealing.share(*w); // it neither pushes nor pops
      if (w->budget_exhausted()) [[unlikely]] {
        g.queue(p);
        break;
      }
    } else if (p.has_mail()) { // of any
      p.receive();
    } else if (p.left == 0) {
      p.state.store(part::idle, std::memory_order_release);
      break;
    } else if (!g.wait_for_more(p) && !g.stays(p)) {
      break;
    }
  }
  // The worker that runs tasklets counts this one. The nodes must be counted first: the group ends
  // with the last.
  if (ran > 0) group.complete(ran);
  return this_worker();
}

void divided_graph::finish(part& mine, std::uint32_t i) noexcept {
  node& n = mine.nodes[i];
  n.pending = n.predecessors; // for the next run
  --mine.left;
  const auto me = static_cast<std::uint32_t>(&mine - parts_.get());
  for (std::uint32_t k = n.first; k < n.last; ++k) {
    const std::uint32_t place = mine.successors[k], of = place >> part_shift, there = place & place_mask;
    if (of == me) {
      mine.count_down(there);
      continue;
    }
    part& to = parts_[of];
    // release: what the function wrote.
    mine.outboxes[of]++->store((std::uint64_t{mine.run} << 32) | there, std::memory_order_release);
    core_.order_with_barrier(); // the other half is in `stays`
    if (to.state.load(std::memory_order_relaxed) >= part::idle) [[unlikely]]
      wake(to);
  }
}

// Something has been put where the strand of `to` finds it, and it was about to end.
void divided_graph::wake(part& to) noexcept {
  std::uint32_t seen = to.state.load(std::memory_order_relaxed);
  for (;;) {
    if (seen == part::leaving) {
      // release: what the strand finds.
      if (to.state.compare_exchange_weak(seen, part::mailed, std::memory_order_acq_rel, std::memory_order_relaxed))
        return;
    } else if (seen == part::idle) {
      // acquire: what the last strand left.
      if (to.state.compare_exchange_weak(seen, part::queued, std::memory_order_acq_rel, std::memory_order_relaxed))
        return queue(to);
    } else {
      return;
    }
  }
}

// By the strand, or by the thread that has changed `idle` to `queued`. In a function that has not
// been counted: so the group does not end meanwhile.
void divided_graph::queue(part& p) noexcept {
  group_.remote.fetch_sub(1, std::memory_order_relaxed);
  p.state.store(part::queued, std::memory_order_release);
  worker* const w = this_worker();
  if (w->deque.push(&p) && w->deque.wanted() && w->deque.publish()) core_.parking.notify(); // without a pause
}

// While another part is run there may be an entry in a moment, and to end and begin again takes
// longer.
bool divided_graph::wait_for_more(const part& mine) const noexcept {
  static const std::int64_t patience_ticks = ticks_in(patience);
  const std::int64_t until = ticks() + patience_ticks;
  for (;;) {
    bool others = false;
    for (std::size_t i = 0; i < part_count_; ++i) {
      const std::uint32_t state = parts_[i].state.load(std::memory_order_relaxed);
      if (state == part::queued) return false; // perhaps here, and it waits for this worker
      others = others || (&parts_[i] != &mine && state == part::running);
    }
    if (!others) return false;
    for (int i = 0; i < looks_at_once; ++i) {
      if (mine.has_mail()) return true;
      relax();
    }
    if (ticks() > until) return false;
  }
}

// The strand would end. \return false: it does, and the part is not its own any more.
bool divided_graph::stays(part& mine) noexcept {
  mine.state.store(part::leaving, std::memory_order_seq_cst);
  if (core_.barrier.usable())
    core_.barrier();
  else
    std::atomic_thread_fence(std::memory_order_seq_cst);
  std::uint32_t expected = part::leaving;
  // release: the part, for the next strand.
  if (!mine.has_mail() && mine.state.compare_exchange_strong(expected, part::idle, std::memory_order_acq_rel))
    return false;
  mine.state.store(part::running, std::memory_order_relaxed);
  return true;
}

// The function of a node waited, and another strand has the part.
void divided_graph::give_back(part& p, std::uint32_t i) noexcept {
  {
    const std::lock_guard hold(p.returned_lock);
    p.returned.push_back(i); // there is room for all
  }
  p.any_returned.store(true, std::memory_order_release);
  std::atomic_thread_fence(std::memory_order_seq_cst); // as `order_with_barrier`; not only for `stays` with one
  if (p.state.load(std::memory_order_relaxed) >= part::idle) wake(p);
}

void divided_graph::take_returned(part& mine) noexcept {
  // Those that come from now on say so again.
  mine.any_returned.exchange(false, std::memory_order_acquire);
  for (;;) {
    std::uint32_t i = no_node;
    {
      const std::lock_guard hold(mine.returned_lock);
      if (mine.returned.empty()) return;
      i = mine.returned.back();
      mine.returned.pop_back();
    }
    finish(mine, i);
  }
}

} // namespace tern::detail
