// SPDX-License-Identifier: Apache-2.0
/// \file
/// What users hold: how many items a kernel is for, and tasks with handles.
#include <algorithm>
#include <array>
#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <tern/base/error.hpp>
#include <tern/base/log.hpp>
#include <tern/hetero/graph/runtime.hpp>
#include <tern/hetero/hetero_task.hpp>
#include <tern/hetero/record/failure.hpp>

namespace tern {

namespace hetero {

const option<int> hetero_window{
    "hetero-window", 0,
    "how many tasks on heterogeneous objects may be left when a fiber submits more: beyond that it waits until fewer "
    "are, for a millisecond at most; 0: as many as a quarter of a level-2 cache holds, and more while workers are idle",
    between<int>(0, 1 << 20)};

} // namespace hetero

using hetero::detail::runtime;
using hetero::detail::task_record;

items::items(std::int64_t x, std::int64_t y, std::int64_t z) : count_{x, y, z} {
  for (std::size_t d = 0; d < 3; ++d)
    if (count_[d] < 1 || count_[d] >= std::int64_t{1} << 31)
      throw error(errc::invalid_argument,
                  "items: " + std::to_string(count_[d]) + " in dimension " + std::string(1, "xyz"[d]),
                  "a kernel runs for at least one item in each dimension, and at most 2147483647");
}

items& items::group(int x, int y, int z) {
  if (x < 1 || y < 1 || z < 1 || std::int64_t{x} * y * z > 1024)
    throw error(errc::invalid_argument,
                "items::group: groups of " + std::to_string(x) + " x " + std::to_string(y) + " x " + std::to_string(z),
                "a group has from 1 to 1024 items");
  group_ = {x, y, z};
  return *this;
}

hetero::detail::grid items::inside(const hetero::detail::kernel_code& k) const {
  hetero::detail::grid g;
  g.items = group_;
  if (k.fixed_size[0] != 0) {
    if (group_[0] != 0 && group_ != k.fixed_size)
      throw error(errc::invalid_argument,
                  std::string("kernel '") + k.name + "' has groups of " + std::to_string(k.fixed_size[0]) + " x " +
                      std::to_string(k.fixed_size[1]) + " x " + std::to_string(k.fixed_size[2]) + ", not of " +
                      std::to_string(group_[0]) + " x " + std::to_string(group_[1]) + " x " + std::to_string(group_[2]),
                  "leave group() out: the kernel says its size");
    g.items = k.fixed_size;
  } else if (group_[0] == 0) { // long in x, where loops are vectorised and rows lie
    constexpr std::array<int, 3> good{256, 1, 1}, flat{64, 4, 1};
    g.automatic = true;
    g.items = count_[1] > 1 ? flat : good;
    for (std::size_t d = 0; d < 3; ++d) g.items[d] = static_cast<int>(std::min<std::int64_t>(g.items[d], count_[d]));
  }
  std::int64_t all = 1;
  for (std::size_t d = 0; d < 3; ++d) {
    // A division takes as long as a tenth of a small task's submission.
    const std::int64_t groups = count_[d] <= g.items[d] ? 1 : (count_[d] + g.items[d] - 1) / g.items[d];
    if (groups * g.items[d] >= std::int64_t{1} << 31 || __builtin_mul_overflow(all, groups * g.items[d], &all))
      throw error(errc::invalid_argument,
                  std::string("kernel '") + k.name + "' for " + std::to_string(count_[0]) + " x " +
                      std::to_string(count_[1]) + " x " + std::to_string(count_[2]) + " items, in groups of " +
                      std::to_string(g.items[0]) + " x " + std::to_string(g.items[1]) + " x " +
                      std::to_string(g.items[2]),
                  "whole groups have at most 2147483647 items in a dimension, and 9223372036854775807 in all");
    g.groups[d] = static_cast<int>(groups);
  }
  return g;
}

// Handles -------------------------------------------------------------------------------------------------------------

task_record* hetero_task::begin() {
  task_record* const t = hetero::detail::make_task();
  t->flags |= task_record::handled;
  t->references.store(2, std::memory_order_relaxed); // the handle, and the task itself
  t->home->add_reference();
  return t;
}

hetero_task::~hetero_task() {
  if (!task_) return;
  task_record* const t = task_;
  runtime& home = *t->home;
  if (t->state.load(std::memory_order_relaxed) == task_record::made) { // it will never run
    hetero::detail::fail(t, std::make_exception_ptr(error(
                                errc::broken_promise, std::string("task '") + t->text_name() + "' was never submitted",
                                "call submit()")));
    hetero::detail::drop_arguments(*t);
    home.execution().give_up(t);
  }
  home.records().unreference(t);
  home.release();
}

task_record& hetero_task::changed(const char* what) const {
  task_record& t = known(what);
  if (t.state.load(std::memory_order_relaxed) != task_record::made)
    throw error(errc::invalid_state,
                std::string("hetero_task::") + what + ": task '" + t.text_name() + "' has been submitted",
                "say so before submit()");
  return t;
}
task_record& hetero_task::known(const char* what) const {
  if (!task_)
    throw error(errc::invalid_state, std::string("hetero_task::") + what + ": there is no task in this handle",
                "it was moved from, or never filled");
  return *task_;
}

hetero_task& hetero_task::name(const char* text) {
  task_record& t = changed("name");
  t.flags |= task_record::extended;
  t.name.store(text, std::memory_order_release);
  return *this;
}
hetero_task& hetero_task::on(hetero::device_kind kind) {
  task_record& t = changed("on");
  const hetero::device_kinds wanted = hetero::kinds_of(kind);
  if ((t.kinds & wanted) == 0)
    throw error(errc::invalid_argument,
                std::string("task '") + t.text_name() + "' has nothing that runs on " + hetero::name_of(kind),
                "a function runs on the host only; a kernel on all");
  t.kinds &= wanted;
  t.flags |= task_record::extended;
  return *this;
}
hetero_task& hetero_task::on(std::string_view device) {
  task_record& t = changed("on");
  const std::size_t d = t.home->device_named(device);
  on(t.home->devices().info(d).kind);
  t.device_mask = std::int64_t{1} << d;
  return *this;
}
hetero_task& hetero_task::priority(int p) {
  task_record& t = changed("priority");
  t.flags |= task_record::extended;
  t.priority = p;
  return *this;
}
hetero_task& hetero_task::affinity(std::uint64_t key) {
  changed("affinity").set_key(key);
  return *this;
}
hetero_task& hetero_task::size_class(std::uint64_t number) {
  task_record& t = changed("size_class");
  t.home->records().set_size_number(t, number);
  return *this;
}
hetero_task& hetero_task::after(const hetero_task& other) {
  task_record& t = changed("after");
  task_record& before = other.known("after");
  if (&t == &before)
    throw error(errc::invalid_argument, std::string("task '") + t.text_name() + "' cannot come after itself");
  t.home->order().follow(&t, &before, hetero::detail::data_edge);
  return *this;
}
hetero_task& hetero_task::implicit(bool on) {
  task_record& t = changed("implicit");
  for (std::size_t i = 0; i < t.use_count; ++i) t.use_at(i).ordered = on;
  return *this;
}
hetero_task& hetero_task::submit() {
  task_record& t = changed("submit");
  std::vector<hetero::detail::object_state*> used; // the task has kept them until now
  for (std::size_t i = 0; i < t.use_count; ++i) used.push_back(t.use_at(i).object);
  submit_task(&t);
  for (hetero::detail::object_state* o : used) hetero::detail::drop_handle(o);
  return *this;
}

void hetero_task::wait() const {
  task_record& t = known("wait");
  if (t.state.load(std::memory_order_relaxed) == task_record::made)
    throw error(errc::invalid_state, std::string("hetero_task::wait: task '") + t.text_name() + "' was not submitted",
                "call submit() first");
  runtime::wait(&t);
}

namespace {
/// What `then` was given. Called on a worker, as it may submit tasks, while there are some; what it
/// throws is its own affair, and is logged.
struct callback {
  unique_function<void(std::exception_ptr)> call;
  void operator()(const char* task, const std::exception_ptr& failure) noexcept {
    try {
      call(failure);
    } catch (const std::exception& e) {
      log_error(std::string("what was to be called when task '") + task + "' had ended threw: " + e.what());
    } catch (...) {
      log_error(std::string("what was to be called when task '") + task + "' had ended threw something");
    }
  }
};
} // namespace

const hetero_task& hetero_task::then(unique_function<void(std::exception_ptr)> f) const {
  task_record& t = known("then");
  struct calling final : hetero::detail::completion_hook {
    explicit calling(callback g)
        : completion_hook{[](completion_hook& h, task_record& of) noexcept {
            const std::unique_ptr<calling> self(static_cast<calling*>(&h));
            const std::exception_ptr failure = of.has_failed() ? of.failure : nullptr;
            // When all is over there is no other place.
            if (tern::detail::this_worker_base() || of.home->is_over()) return self->call(of.text_name(), failure);
            // A device's own thread, or one that has released an access.
            of.home->core().owner->spawn([call = std::move(self->call), name = std::string(of.text_name()),
                                          failure]() mutable { call(name.c_str(), failure); });
          }},
          call(std::move(g)) {}
    callback call;
  };
  t.marks.fetch_or(task_record::failure_seen, std::memory_order_relaxed);
  auto h = std::make_unique<calling>(callback{std::move(f)});
  calling* const hook = h.get();
  if (hetero::detail::dependencies::hook(&t, *hook))
    static_cast<void>(h.release()); // it deletes itself
  else
    hook->call(t.text_name(), t.has_failed() ? t.failure : nullptr);
  return *this;
}

future<void> hetero_task::done() const {
  promise<void> p;
  future<void> f = p.get_future();
  then([p = std::move(p)](std::exception_ptr why) mutable {
    if (why)
      p.set_exception(std::move(why));
    else
      p.set_value();
  });
  return f;
}

bool hetero_task::cancel() const { return hetero::detail::task_execution::cancel(&known("cancel")); }

task_status hetero_task::status() const noexcept {
  if (!task_) return task_status::made;
  switch (task_->state.load(std::memory_order_acquire)) {
  case task_record::made:
    return task_status::made;
  case task_record::waiting:
    return task_status::waiting;
  case task_record::done:
    return task_->has_failed() ? task_status::failed : task_status::done;
  default:
    return task_status::running;
  }
}

void wait_all() { runtime::here("tern::wait_all").wait_all(); }
void implicit_dependencies(bool on) { runtime::here("tern::implicit_dependencies").set_implicit(on); }

} // namespace tern
