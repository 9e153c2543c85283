// SPDX-License-Identifier: Apache-2.0
#include <tern/balance/node_queue.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <tern/balance/policies/shared/list_schedule.hpp>
#include <tern/base/error.hpp>
#include <tern/task/wait/waiting.hpp>

namespace tern::balance {
namespace {

constexpr std::size_t levels = 3; // priority::high, normal, low

struct waiting_object {
  object_id id;
  double load = 0;
  std::uint64_t number = 0; ///< which came first
};

bool lighter(const waiting_object& a, const waiting_object& b) {
  return a.load != b.load ? a.load < b.load : a.number > b.number;
}

/// A ring: what has once been the most is room for ever, so that pushing costs no memory.
class ring {
public:
  bool empty() const noexcept { return first_ == end_; }
  std::size_t size() const noexcept { return end_ - first_; }
  void push(const waiting_object& x) {
    if (size() == slots_.size()) grow();
    slots_[end_++ & (slots_.size() - 1)] = x.id;
  }
  object_id oldest() { return slots_[first_++ & (slots_.size() - 1)]; }
  object_id newest() { return slots_[--end_ & (slots_.size() - 1)]; }

private:
  void grow() {
    std::vector<object_id> larger(std::max<std::size_t>(16, 2 * slots_.size()));
    for (std::size_t i = first_; i != end_; ++i) larger[i - first_] = slots_[i & (slots_.size() - 1)];
    end_ -= first_;
    first_ = 0;
    slots_.swap(larger);
  }
  std::vector<object_id> slots_; ///< a power of two of them
  std::size_t first_ = 0, end_ = 0;
};

struct oldest_first : ring {
  object_id pop() { return oldest(); }
};

struct newest_first : ring {
  object_id pop() { return newest(); }
};

class heaviest_first {
public:
  bool empty() const noexcept { return heap_.empty(); }
  std::size_t size() const noexcept { return heap_.size(); }
  void push(const waiting_object& x) {
    heap_.push_back(x);
    std::push_heap(heap_.begin(), heap_.end(), lighter);
  }
  object_id pop() {
    std::pop_heap(heap_.begin(), heap_.end(), lighter);
    const object_id id = heap_.back().id;
    heap_.pop_back();
    return id;
  }
  std::vector<waiting_object> take_all() { return std::exchange(heap_, {}); }

private:
  std::vector<waiting_object> heap_;
};

/// What waits, by urgency, and what of it should run on which worker. A worker takes its own first,
/// then what may run anywhere, then what another should have run: it would idle otherwise.
template <class Bag> class shelf {
public:
  explicit shelf(int workers) {
    for (level& l : levels_) l.own.resize(static_cast<std::size_t>(workers));
  }

  std::size_t size() const noexcept { return size_; }

  void push(const waiting_object& x, priority urgent, int worker) {
    level& l = levels_[static_cast<std::size_t>(urgent)];
    if (worker < 0) {
      l.any.push(x);
    } else {
      l.own[static_cast<std::size_t>(worker)].push(x);
      ++l.owned;
    }
    ++size_;
  }

  object_id pop(int worker) {
    for (level& l : levels_) {
      if (Bag* const bag = next(l, worker)) {
        l.owned -= bag != &l.any;
        --size_;
        return bag->pop();
      }
    }
    return {};
  }

  /// \param take is called with all that is there, and it is not there any more.
  template <class F> void take_all(F take) {
    for (std::size_t k = 0; k < levels; ++k) {
      const auto each = [&](Bag& bag, int wants) {
        for (const waiting_object& x : bag.take_all()) take(x, static_cast<priority>(k), wants);
      };
      each(levels_[k].any, -1);
      for (std::size_t w = 0; w < levels_[k].own.size(); ++w) each(levels_[k].own[w], static_cast<int>(w));
      levels_[k].owned = 0;
    }
    size_ = 0;
  }

private:
  struct level {
    Bag any;
    std::vector<Bag> own; ///< by worker
    std::size_t owned = 0;
  };

  Bag* next(level& l, int worker) {
    if (l.owned > 0 && worker >= 0) {
      Bag& own = l.own[static_cast<std::size_t>(worker)];
      if (!own.empty()) return &own;
    }
    if (!l.any.empty()) return &l.any;
    if (l.owned == 0) return nullptr;
    return &*std::max_element(l.own.begin(), l.own.end(),
                              [](const Bag& a, const Bag& b) { return a.size() < b.size(); });
  }

  std::array<level, levels> levels_;
  std::size_t size_ = 0;
};

/// What all orders have in common: which workers there are, and how many objects.
class checked_queue : public node_queue {
public:
  explicit checked_queue(int workers) : workers_(workers) {}
  std::size_t size() const noexcept final { return size_.load(std::memory_order_relaxed); } // relaxed: a number

protected:
  void check(const ready_object& x, int wants) const {
    if (wants >= workers_)
      throw error(errc::invalid_argument,
                  "object " + to_string(x.id) + " should run on worker " + std::to_string(wants) + " of " +
                      std::to_string(workers_),
                  "workers are numbered from 0; -1 is any");
  }
  // relaxed, both: a thread that has been told of a push sees it, and no other need
  void now_has(std::size_t n) noexcept { size_.store(n, std::memory_order_relaxed); }

  const int workers_;

private:
  std::atomic<std::size_t> size_ = 0;
};

template <class Bag, bool ByWorker> class simple_queue final : public checked_queue {
public:
  explicit simple_queue(int workers) : checked_queue(workers), waiting_(workers) {}

  void push(int worker, const ready_object& x, int wants) override {
    check(x, wants);
    const std::lock_guard hold(guard_);
    waiting_.push({x.id, x.load, pushed_++}, x.level, wants >= 0 || !ByWorker ? wants : worker);
    now_has(waiting_.size());
  }
  object_id pop(int worker) override {
    if (size() == 0) return {};
    const std::lock_guard hold(guard_);
    const object_id id = waiting_.pop(worker);
    now_has(waiting_.size());
    return id;
  }
  void begun(int, double) override {}

private:
  tern::detail::spin_lock guard_;
  shelf<Bag> waiting_;
  std::uint64_t pushed_ = 0;
};

/// Plans when few wait: else no plan is needed, because any order leaves enough small ones for the
/// end.
class planned_queue final : public checked_queue {
public:
  explicit planned_queue(int workers)
      : checked_queue(workers), many_(workers), workers_of_(static_cast<std::size_t>(workers)) {}

  void push(int, const ready_object& x, int wants) override {
    check(x, wants);
    const std::lock_guard hold(guard_);
    const item it{{x.id, x.load > 0 ? x.load : 0, pushed_++}, x.level, wants};
    if (planned_ + 1 > 2 * few()) pour_back();
    if (many_.size() > 0) {
      many_.push(it, it.level, wants);
    } else {
      if (wants < 0) unplanned_ += it.load;
      add(wants < 0 ? earliest() : static_cast<std::size_t>(wants), it);
    }
    now_has(planned_ + many_.size());
  }

  object_id pop(int worker) override {
    if (size() == 0) return {};
    const std::lock_guard hold(guard_);
    if (planned_ + many_.size() == 0) return {}; // another was quicker
    if (worker >= 0) ended(workers_of_[static_cast<std::size_t>(worker)]);
    if (many_.size() > 0 && many_.size() <= few()) pour_out();
    const object_id id = many_.size() > 0 ? many_.pop(worker) : pop_planned(worker);
    now_has(planned_ + many_.size());
    return id;
  }

  void gone(object_id object) override {
    const std::lock_guard hold(guard_);
    for (worker_state& w : workers_of_) {
      const auto x = std::find_if(w.plan.begin(), w.plan.end(), [&](const item& i) { return i.id == object; });
      if (x == w.plan.end()) continue;
      unplanned_ += x->load;
      take(w, x);
      return now_has(planned_ + many_.size());
    }
  }

  void begun(int worker, double load) override {
    if (worker < 0) return;
    const std::lock_guard hold(guard_);
    worker_state& w = workers_of_[static_cast<std::size_t>(worker)];
    ended(w);
    if (load > 0) w.free_at = clock_ + load;
  }

private:
  struct item : waiting_object {
    priority level = priority::normal;
    int wants = -1;
  };
  struct worker_state {
    std::vector<item> plan; ///< the next one is the last
    double left = 0;        ///< of the plan
    double free_at = 0;     ///< by `clock_`; 0: it runs nothing
  };

  static bool later(const item& a, const item& b) { return a.level != b.level ? a.level > b.level : lighter(a, b); }

  std::size_t few() const { return 64 * static_cast<std::size_t>(workers_); }
  double busy_for(const worker_state& w) const { return std::max(0.0, w.free_at - clock_); }
  double ends(const worker_state& w) const { return busy_for(w) + w.left; }

  // There is no clock but this: a worker that comes back has worked as long as was expected.
  void ended(worker_state& w) {
    clock_ = std::max(clock_, w.free_at);
    w.free_at = 0;
  }

  std::size_t earliest() const {
    std::size_t found = 0;
    for (std::size_t w = 1; w < workers_of_.size(); ++w)
      if (ends(workers_of_[w]) < ends(workers_of_[found])) found = w;
    return found;
  }

  void add(std::size_t worker, const item& x) {
    worker_state& w = workers_of_[worker];
    w.plan.insert(std::upper_bound(w.plan.begin(), w.plan.end(), x, later), x);
    w.left += x.load;
    waiting_ += x.load;
    ++planned_;
    ++of_level_[static_cast<std::size_t>(x.level)];
  }

  object_id pop_planned(int worker) {
    if (must_plan(worker)) plan();
    ++pops_;
    const auto urgent = static_cast<priority>(
        std::find_if(of_level_.begin(), of_level_.end(), [](std::size_t n) { return n > 0; }) - of_level_.begin());
    const auto has = [&](const worker_state& w) { return !w.plan.empty() && w.plan.back().level == urgent; };
    worker_state* from = worker >= 0 ? &workers_of_[static_cast<std::size_t>(worker)] : nullptr;
    if (!from || !has(*from)) {
      from = nullptr;
      for (worker_state& w : workers_of_)
        if (has(w) && (!from || ends(w) > ends(*from))) from = &w;
    }
    return take(*from, std::prev(from->plan.end())).id;
  }

  item take(worker_state& w, std::vector<item>::iterator at) {
    const item x = *at;
    w.plan.erase(at);
    w.left = w.plan.empty() ? 0 : w.left - x.load; // what rounding leaves would add up
    --planned_;
    --of_level_[static_cast<std::size_t>(x.level)];
    waiting_ = planned_ == 0 ? 0 : waiting_ - x.load;
    return x;
  }

  // Something has come that matters, or the plan was wrong; but not so often that planning costs
  // more than some microseconds for each object.
  bool must_plan(int worker) const {
    if (planned_ == 0 || pops_ * 2 * workers_of_.size() < planned_) return false;
    const bool has_none = worker >= 0 && workers_of_[static_cast<std::size_t>(worker)].plan.empty();
    return has_none || unplanned_ > 0.03 * waiting_ / workers_;
  }

  void plan() {
    ends_.clear();
    loose_.clear();
    for (worker_state& w : workers_of_) {
      auto kept = w.plan.begin(); // those that want this worker
      for (const item& x : w.plan) {
        if (x.wants >= 0)
          *kept++ = x;
        else
          loose_.push_back(x);
      }
      w.plan.erase(kept, w.plan.end());
      w.left = 0;
      for (const item& x : w.plan) w.left += x.load;
      ends_.push_back(ends(w));
    }
    std::sort(loose_.begin(), loose_.end(), [](const item& a, const item& b) { return later(b, a); });
    for (auto first = loose_.begin(); first != loose_.end();) {
      const auto last = std::find_if(first, loose_.end(), [&](const item& x) { return x.level != first->level; });
      loads_.clear();
      for (auto i = first; i != last; ++i) loads_.push_back(i->load);
      const std::span<const int> to = scheduler_.deal(loads_, ends_);
      for (std::size_t k = 0; k < to.size(); ++k, ++first) {
        worker_state& w = workers_of_[static_cast<std::size_t>(to[k])];
        w.plan.push_back(*first);
        w.left += first->load;
      }
    }
    for (worker_state& w : workers_of_) std::sort(w.plan.begin(), w.plan.end(), later);
    unplanned_ = 0;
    pops_ = 0;
  }

  // There are few: they are planned when one is wanted, which is now.
  void pour_out() {
    many_.take_all([&](const waiting_object& x, priority level, int wants) {
      add(wants < 0 ? 0 : static_cast<std::size_t>(wants), {{x.id, x.load, x.number}, level, wants});
    });
    plan();
  }

  void pour_back() {
    for (worker_state& w : workers_of_) {
      for (const item& x : w.plan) many_.push(x, x.level, x.wants);
      w.plan.clear();
      w.left = 0;
    }
    of_level_ = {};
    planned_ = 0;
    waiting_ = unplanned_ = 0;
    pops_ = never_planned;
  }

  static constexpr std::size_t never_planned = std::size_t{1} << 32;

  std::mutex guard_; // planning takes longer than one should spin
  shelf<heaviest_first> many_;
  std::vector<worker_state> workers_of_;
  std::array<std::size_t, levels> of_level_{};     ///< of those that are planned
  std::size_t planned_ = 0, pops_ = never_planned; ///< since the last plan
  double waiting_ = 0, unplanned_ = 0;             ///< loads of all that is planned; of what has come since
  double clock_ = 0;
  std::uint64_t pushed_ = 0;

  detail::lpt_scheduler scheduler_;
  std::vector<double> loads_, ends_; ///< for planning; their memory is kept
  std::vector<item> loose_;
};

} // namespace

const char* const node_orders = "fifo|lifo|heavy|locality|plan";

std::unique_ptr<node_queue> make_node_queue(std::string_view order, int workers) {
  if (workers < 1) throw error(errc::invalid_argument, "a node queue for " + std::to_string(workers) + " workers");
  // "priority": all of them look at priorities first.
  if (order == "fifo" || order == "priority") return std::make_unique<simple_queue<oldest_first, false>>(workers);
  if (order == "lifo") return std::make_unique<simple_queue<newest_first, false>>(workers);
  if (order == "heavy") return std::make_unique<simple_queue<heaviest_first, false>>(workers);
  if (order == "locality") return std::make_unique<simple_queue<oldest_first, true>>(workers);
  if (order == "plan") return std::make_unique<planned_queue>(workers);
  throw error(errc::invalid_option, "unknown order of objects '" + std::string(order) + "'",
              std::string("one of ") + node_orders);
}

} // namespace tern::balance
