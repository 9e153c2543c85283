// SPDX-License-Identifier: Apache-2.0
/// \file
/// Tasks that are submitted together as one.
#include <tern/hetero/graph/recorded_tasks.hpp>

#include <algorithm>
#include <atomic>
#include <functional>
#include <mutex>
#include <utility>

#include <tern/base/error.hpp>
#include <tern/hetero/graph/runtime.hpp>
#include <tern/hetero/graph/task_arguments.hpp>
#include <tern/hetero/recorded.hpp>
#include <tern/hetero/submission/task_key.hpp>
#include <tern/task/scheduler/scheduler_core.hpp>
#include <tern/task/task_graph.hpp>

namespace tern::hetero::detail {
namespace {

box around(const box& a, const box& b) noexcept {
  box c;
  for (std::size_t d = 0; d < 3; ++d) {
    c.low[d] = std::min(a.low[d], b.low[d]);
    c.high[d] = std::max(a.high[d], b.high[d]);
  }
  return c;
}

using together = sequence_plan::together;

/// Boxes that do not meet, each of which contains what some tasks use of an object; one for all of
/// them if they are more than devices should have copies of. (With what the object has already they
/// must be fewer than `instances_most`.)
std::vector<together> boxes_of(const std::vector<task_record*>& tasks) {
  constexpr std::size_t most_of_one = instances_most / 2;
  std::vector<together> all;
  for (task_record* t : tasks)
    for (std::size_t i = 0; i < t->use_count; ++i) {
      const use& u = t->use_at(i);
      box b = u.part;
      for (;;) { // what it meets becomes one with it, which may then meet more
        const auto met = std::find_if(all.begin(), all.end(),
                                      [&](const together& x) { return x.object == u.object && x.part.meets(b); });
        if (met == all.end()) break;
        b = around(b, met->part);
        all.erase(met);
      }
      all.push_back({u.object, b, access_mode::read});
      const auto same = [&](const together& x) { return x.object == u.object; };
      if (static_cast<std::size_t>(std::count_if(all.begin(), all.end(), same)) <= most_of_one) continue;
      for (const together& x : all)
        if (same(x)) b = around(b, x.part);
      std::erase_if(all, same);
      all.push_back({u.object, b, access_mode::read});
    }
  return all;
}

/// What is left of the boxes without `b`.
std::vector<box> rest_of(const std::vector<box>& all, const box& b) {
  std::vector<box> rest;
  for (const box& a : all) {
    if (a.meets(b))
      a.without(b, [&](const box& piece) { rest.push_back(piece); });
    else
      rest.push_back(a);
  }
  return rest;
}

/// Whether the sequence needs what is there before, and whether it changes it.
access_mode how_used(const together& x, const sequence_plan& plan, std::size_t number) {
  bool needs = false, changes = false;
  std::vector<box> old{x.part}; // what has not been written anew
  for (std::size_t i = 0; i < plan.which.size(); ++i) {
    if (plan.which[i] != number) continue;
    const sequence_shape::used& u = plan.shape.uses[i];
    if (reads(u.how) && std::any_of(old.begin(), old.end(), [&](const box& b) { return b.meets(u.part); }))
      needs = true;
    if (!writes(u.how)) continue;
    changes = true;
    constexpr std::size_t most = 1000; // pieces that are told apart: with more, it is assumed to be needed
    if (!reads(u.how) && old.size() < most) old = rest_of(old, u.part);
  }
  if (!old.empty()) needs = true; // stays what it was
  return !changes ? access_mode::read : needs ? access_mode::read_write : access_mode::write;
}

/// The tasks of a sequence on the host: those that have nothing to do with each other run at once.
/// One round at a time.
class host_graph {
public:
  explicit host_graph(const sequence_plan& p) {
    std::vector<task_graph::node> nodes;
    for (std::size_t i = 0; i + 1 < p.begins.size(); ++i) {
      nodes.push_back(graph_.add([this, i] { run_one(*(*tasks_)[i]); }));
      for (std::uint32_t k = p.begins[i]; k < p.begins[i + 1]; ++k) graph_.precede(nodes[p.before[k]], nodes[i]);
    }
  }
  void run(const std::vector<task_record*>& tasks, task_record& all) {
    tasks_ = &tasks;
    all_ = &all;
    graph_.run();
  }

private:
  void run_one(task_record& t) {
    struct in_sequence { // for `task_here`
      tern::detail::fiber* at = tern::detail::this_worker()->running;
      const void* outer;
      explicit in_sequence(const task_record* all) noexcept : outer(std::exchange(at->task, all)) {}
      ~in_sequence() { at->task = outer; }
    } const in(all_);
    t.work->run(t);
  }

  task_graph graph_;
  const std::vector<task_record*>* tasks_ = nullptr;
  task_record* all_ = nullptr;
};

} // namespace

/// As many as rounds have been at work at once. Any thread.
class host_graphs {
public:
  void run(const sequence_plan& p, const std::vector<task_record*>& tasks, task_record& all) {
    std::unique_ptr<host_graph> one;
    {
      const std::lock_guard hold(lock_);
      if (!idle_.empty()) {
        one = std::move(idle_.back());
        idle_.pop_back();
      }
    }
    if (!one) one = std::make_unique<host_graph>(p);
    one->run(tasks, all); // if it throws, the graph goes
    const std::lock_guard hold(lock_);
    idle_.push_back(std::move(one));
  }

private:
  tern::detail::spin_lock lock_;
  std::vector<std::unique_ptr<host_graph>> idle_;
};

namespace {

struct sequence_work {
  std::vector<task_record*> tasks;
  std::shared_ptr<const sequence_plan> plan;
  std::uint64_t number;
  std::unique_ptr<launch_sequence> launches;

  /// What the sequence holds becomes what its tasks hold. Calls `f` for each of them then.
  template <class F> void each(task_record& all, F&& f) {
    std::size_t n = 0;
    for (task_record* t : tasks) {
      t->device = all.device;
      for (std::size_t i = 0; i < t->use_count; ++i) {
        const use& from = all.use_at(plan->which[n++]);
        use& to = t->use_at(i);
        to.instance = from.instance;
        to.pitch = from.pitch;
      }
      f(*t);
    }
  }
};

const work_type sequence_type{
    any_device,
    [](task_record& s) {
      auto& w = s.work_as<sequence_work>();
      if (!w.plan->on_host) return w.each(s, [](task_record& t) { t.work->run(t); });
      w.each(s, [](task_record&) {});
      w.plan->on_host->run(*w.plan, w.tasks, s);
    },
    [](task_record& s) noexcept {
      auto& w = s.work_as<sequence_work>();
      for (task_record* t : w.tasks) unmake_task(t);
      destroy_work<sequence_work>(s);
    },
    [](task_record& s, launch_request& what, argument*) {
      auto& w = s.work_as<sequence_work>();
      w.launches = std::make_unique<launch_sequence>(launch_sequence{w.number, {}, w.plan->before, w.plan->begins, {}});
      launch_sequence& all = *w.launches;
      std::array<argument, arguments_most> given;
      std::vector<std::size_t> ends;
      w.each(s, [&](task_record& t) {
        launch_request& one = all.launches.emplace_back();
        t.work->describe(t, one, given.data());
        one.task = &t;
        all.arguments.insert(all.arguments.end(), one.arguments.begin(), one.arguments.end());
        ends.push_back(all.arguments.size());
      });
      std::size_t begin = 0;
      for (std::size_t i = 0; i < ends.size(); ++i) { // where they stay
        all.launches[i].arguments = {all.arguments.data() + begin, ends[i] - begin};
        begin = ends[i];
      }
      what.sequence = &all;
    },
    nullptr,
    nullptr,
    [](task_record& s, device_kind kind, bool (*f)(void*, const kernel_code&), void* of) {
      const auto& tasks = s.work_as<sequence_work>().tasks;
      return std::all_of(tasks.begin(), tasks.end(), [&](task_record* t) {
        return all_kernels(*t, kind, [&](const kernel_code& code) { return f(of, code); });
      });
    }};

sequence_shape shape_of(const std::vector<task_record*>& tasks) {
  sequence_shape s;
  for (task_record* t : tasks) {
    s.works.push_back(t->work);
    s.counts.push_back(t->use_count);
    for (std::size_t i = 0; i < t->use_count; ++i) {
      const use& u = t->use_at(i);
      s.uses.push_back({u.object->number, u.part, u.how});
    }
  }
  return s;
}

} // namespace

std::shared_ptr<const sequence_plan> plan_of(sequence_shape shape, const std::vector<task_record*>& tasks,
                                             const char* name) {
  auto p = std::make_shared<sequence_plan>();
  p->shape = std::move(shape);
  p->uses = boxes_of(tasks);
  constexpr std::size_t most = 255; // of a task
  if (p->uses.size() > most)
    throw error(errc::invalid_argument,
                std::string("the tasks of '") + name + "' use " + std::to_string(p->uses.size()) +
                    " objects or parts of them together, which is more than " + std::to_string(most),
                "submit fewer tasks at a time, or use fewer, larger objects");
  for (task_record* t : tasks)
    for (std::size_t i = 0; i < t->use_count; ++i) {
      const use& u = t->use_at(i);
      const auto in = std::find_if(p->uses.begin(), p->uses.end(),
                                   [&](const together& x) { return x.object == u.object && x.part.contains(u.part); });
      p->which.push_back(static_cast<std::uint8_t>(in - p->uses.begin()));
    }
  for (std::size_t n = 0; n < p->uses.size(); ++n) p->uses[n].how = how_used(p->uses[n], *p, n);

  // Which tasks come after which: those that use the same, where one of them writes; but none that
  // comes before another of them anyway. `comes_after[i]`, a bit for each task: all that come
  // before task i.
  const std::size_t words = (tasks.size() + 63) / 64;
  std::vector<std::vector<std::uint64_t>> comes_after(tasks.size(), std::vector<std::uint64_t>(words));
  std::vector<std::pair<std::uint32_t, std::size_t>> seen; // task, use
  std::size_t n = 0;
  for (std::uint32_t i = 0; i < tasks.size(); ++i) {
    p->begins.push_back(static_cast<std::uint32_t>(p->before.size()));
    std::vector<std::uint32_t> before;
    const std::size_t first = n;
    for (std::size_t k = 0; k < tasks[i]->use_count; ++k, ++n) {
      const sequence_shape::used& u = p->shape.uses[n];
      for (const auto& [task, other] : seen) {
        const sequence_shape::used& v = p->shape.uses[other];
        if (v.object == u.object && v.part.meets(u.part) && (writes(u.how) || writes(v.how))) before.push_back(task);
      }
    }
    std::sort(before.begin(), before.end(), std::greater<>()); // the latest says most
    std::vector<std::uint64_t>& mine = comes_after[i];
    for (const std::uint32_t b : before) {
      if (mine[b / 64] >> (b % 64) & 1) continue;
      p->before.push_back(b);
      mine[b / 64] |= std::uint64_t{1} << (b % 64);
      for (std::size_t w = 0; w < words; ++w) mine[w] |= comes_after[b][w];
    }
    for (std::size_t k = first; k < n; ++k) seen.emplace_back(i, k);
  }
  p->begins.push_back(static_cast<std::uint32_t>(p->before.size()));
  for (std::uint32_t i = 1; i < tasks.size() && !p->on_host; ++i) // the latest of those before comes first
    if (p->begins[i] == p->begins[i + 1] || p->before[p->begins[i]] != i - 1)
      p->on_host = std::make_shared<host_graphs>();
  return p;
}

// Collecting ----------------------------------------------------------------------------------------------------------

collector::collector(runtime& home, const char* what, const char* name)
    : home_(home), what_(what), name_(name), place_(home.records().parts().here().collects),
      of_(static_cast<tern::detail::fiber*>(tern::detail::this_worker()->running)) {
  collector* other = nullptr;
  // No other fiber of this worker collects: none may wait meanwhile.
  if (!place_.compare_exchange_strong(other, this, std::memory_order_relaxed))
    throw error(errc::invalid_state,
                std::string(what) + " of '" + name + "' was called within " +
                    (std::string_view(what) == other->what_ ? "that" : other->what_) + " of '" + other->name_ + "'",
                "one after the other: all tasks of one belong together");
}

collector::~collector() {
  collector* self = this;
  place_.compare_exchange_strong(self, nullptr, std::memory_order_relaxed);
  for (std::size_t n = next_; n < tasks_.size(); ++n) {
    for (std::size_t i = 0; i < tasks_[n]->use_count; ++i) drop_handle(tasks_[n]->use_at(i).object);
    unmake_task(tasks_[n]);
  }
}

bool collector::take(task_record* t) {
  if (tern::detail::this_worker()->running != of_) return false;
  const auto refuse = [&](errc code, const std::string& why, const char* hint) {
    throw error(code, std::string("within ") + what_ + " of '" + name_ + "' " + why, hint);
  };
  if (t->flags & task_record::hidden)
    refuse(errc::invalid_state, "an object was to be accessed, fetched or dropped", "do that before or after it");
  if (t->flags & task_record::handled)
    refuse(errc::invalid_state, std::string("task '") + t->text_name() + "' has a handle, but is part of a larger one",
           "submit it by tern::submit; tern::recorded::on says on which device");
  for (std::size_t i = 0; i < t->use_count; ++i)
    if (t->use_at(i).how == reducing_access)
      refuse(errc::unsupported, std::string("task '") + t->text_name() + "' takes part in a reduction",
             "submit it by itself");
  set_key_of_scope(*t);
  tasks_.push_back(t);
  for (std::size_t i = 0; i < t->use_count; ++i) add_handle(*t->use_at(i).object); // until all have been submitted
  return true;
}

void collector::end() {
  place_.store(nullptr, std::memory_order_relaxed);
  if (watch_.left())
    throw error(errc::invalid_state, std::string("the function given to ") + what_ + " of '" + name_ + "' has waited",
                "it must only submit tasks");
}

void collector::submit_next() {
  task_record* const t = tasks_[next_];
  std::vector<object_state*> used;
  for (std::size_t i = 0; i < t->use_count; ++i) used.push_back(t->use_at(i).object);
  home_.submit(t); // if it throws, it is still ours
  ++next_;
  for (object_state* o : used) drop_handle(o);
}

bool runtime::taken_by(collector& c, task_record* t) { return c.take(t); }

namespace {
/// Does `part` begin at a multiple of so many bytes in whatever memory contains `in`?
bool begins_well(const object_state& o, const box& in, const box& part, std::size_t alignment) noexcept {
  if (part.low == in.low) return true; // as what they have together, for which memory is chosen
  // That memory may be of a larger box: its rows, or slices, are as long as these only if these are
  // all that there is.
  const bool rows_known = in.extent(2) == o.all.extent(2), slices_known = rows_known && in.extent(1) == o.all.extent(1);
  if ((part.low[1] != in.low[1] && !rows_known) || (part.low[0] != in.low[0] && !slices_known)) return false;
  return layout::packed(in, o.element).offset(in, part) % alignment == 0;
}
} // namespace

sequence_collector::sequence_collector(runtime& home, std::shared_ptr<sequence_memo> memo)
    : collector(home, "recorded::submit", memo->name), memo_(std::move(memo)) {}

bool sequence_collector::fit_together(device_kinds kinds) const noexcept {
  const sequence_plan& p = *memo_->plan;
  for (const together& x : p.uses)
    if (&x.object->home != &home_) return true; // and is refused
  for (std::size_t d = 1; d < home_.devices().count(); ++d) {
    const device_info& info = home_.devices().info(d);
    if (home_.devices().space_of(d) == 0 || (kinds & kinds_of(info.kind)) == 0) continue;
    if (!memo_->device.empty() && memo_->device != info.id) continue;
    const std::size_t alignment = home_.devices().queue(d)->of().alignment();
    if (alignment == 1) continue;
    for (std::size_t n = 0; n < p.which.size(); ++n) {
      const together& x = p.uses[p.which[n]];
      if (!begins_well(*x.object, x.part, p.shape.uses[n].part, alignment)) return false;
    }
  }
  return true;
}

void sequence_collector::submit() {
  sequence_memo& m = *memo_;
  end();
  if (tasks_.empty()) return;
  sequence_shape shape = shape_of(tasks_);
  if (!m.plan || m.plan->shape != shape) m.plan = plan_of(std::move(shape), tasks_, m.name);
  device_kinds kinds = m.kind ? kinds_of(*m.kind) : any_device;
  for (const task_record* t : tasks_) kinds &= t->kinds;
  if (!m.device.empty()) kinds &= kinds_of(home_.devices().info(home_.device_named(m.device)).kind);
  if (kinds == 0)
    throw error(errc::invalid_argument,
                std::string("the tasks of '") + m.name + "' have no kind of device in common on which they can run",
                "functions run on the host only; kernels on all devices");

  home_.look_for_devices(kinds); // they say what fits
  if (!fit_together(kinds))      // each gets memory that suits what it uses then
    return submit_each([&](task_record& t) {
      t.kinds &= kinds;
      if (m.device.empty()) return;
      t.device_mask = std::int64_t{1} << home_.device_named(m.device);
      t.flags |= task_record::extended;
    });
  new_task all;
  (*all).name.store(m.name, std::memory_order_relaxed); // no other thread knows it
  (*all).flags |= task_record::extended;
  for (const together& x : m.plan->uses) {
    // The plan may be of an earlier round: the object is the same, as no other ever had its number.
    add_use(*all, x.object, x.part, x.how);
  }
  (*all).kinds = kinds;
  if (!m.device.empty()) (*all).device_mask = std::int64_t{1} << home_.device_named(m.device);
  std::vector<object_state*> used;
  for (task_record* t : tasks_)
    for (std::size_t i = 0; i < t->use_count; ++i) used.push_back(t->use_at(i).object);
  put_work(*all, sequence_work{std::move(tasks_), m.plan, m.number, nullptr});
  tasks_.clear();
  (*all).work = &sequence_type;
  const auto drop_handles = [&] {
    for (object_state* o : used) drop_handle(o);
  };
  try {
    all.submit();
  } catch (...) {
    drop_handles();
    throw;
  }
  drop_handles();
}

// The user's side -----------------------------------------------------------------------------------------------------

collecting::collecting(std::shared_ptr<sequence_memo> of)
    : made_(std::make_unique<sequence_collector>(runtime::here("tern::recorded::submit"), std::move(of))) {}
collecting::~collecting() = default;
void collecting::submit() { made_->submit(); }

} // namespace tern::hetero::detail

namespace tern {

recorded::recorded(const char* name) : memo_(std::make_shared<hetero::detail::sequence_memo>()) {
  static std::atomic<std::uint64_t> numbers{0};
  memo_->name = name;
  memo_->number = numbers.fetch_add(1, std::memory_order_relaxed);
}
recorded& recorded::on(hetero::device_kind kind) {
  memo_->kind = kind;
  return *this;
}
recorded& recorded::on(std::string_view device) {
  memo_->device = device;
  return *this;
}

} // namespace tern
