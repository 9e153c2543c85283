// SPDX-License-Identifier: Apache-2.0
/// \file
/// Arguments of tasks: what task_arguments.hpp and variant_arguments.hpp need and is not inlined.
#include <cstring>
#include <limits>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <tern/base/error.hpp>
#include <tern/hetero/checked/checked.hpp>
#include <tern/hetero/graph/runtime.hpp>
#include <tern/hetero/hetero_task.hpp>
#include <tern/task/parallel_for.hpp>

namespace tern::hetero::detail {

task_record* make_task() {
  runtime& r = runtime::here("a task on heterogeneous objects");
  task_record* const t = r.records().allocate();
  t->home = &r;
  return t;
}

void submit_task(task_record* t) {
  if (!t->home->collected(t)) [[likely]]
    t->home->submit(t);
}

void drop_arguments(task_record& t) noexcept {
  for (std::size_t i = 0; i < t.use_count; ++i) {
    use& u = t.use_at(i);
    if (u.how == reducing_access) t.home->records().free_block(std::exchange(u.address, nullptr));
    if (t.flags & task_record::handled) drop_handle(u.object);
  }
  t.use_count = 0;
}

void unmake_task(task_record* t) noexcept {
  drop_arguments(*t);
  if (t->work && t->work->destroy) t->work->destroy(*t);
  t->home->records().unreference(t);
}

void prefetch(const object_state& o) noexcept { o.prefetch(); }

void add_use(task_record& t, object_state* o, const box& part, access_mode how) {
  o->prefetch();
  use& u = t.home->records().add_use(&t);
  if (t.flags & task_record::handled) add_handle(*o); // until it is submitted
  u.address = nullptr;
  u.object = o;
  u.part = part;
  u.how = how;
  u.instance = 0;
  u.whole = part == o->all;
  u.ordered = t.home->implicit();
  u.writing = u.noted = false;
  u.pitch = o->host_pitch();
}

std::string argument_name(const char* function, std::size_t number) {
  return "argument " + std::to_string(number) + " of " +
         (function ? "'" + std::string(function) + "'" : "a task's function");
}

void no_such_argument(const object_state& o, const box& part, asked what) {
  const char* const call = what == asked::pitch ? "pitch" : what == asked::slice ? "slice" : "own_layout";
  throw error(errc::invalid_argument, std::string(call) + "(): " + o.text(part) + " is no argument of the task",
              "give it the same view as read(), write() and the others");
}

void add_reduction(task_record& t, object_state* o, const box& part, const reducer& how) {
  auto* const block = ::new (t.home->records().allocate_block()) reduce_block;
  block->combine = how.combine;
  std::memcpy(block->identity, how.identity, o->element);
  add_use(t, o, part, reducing_access);
  use& u = t.use_at(t.use_count - 1u);
  u.address = block;
  u.ordered = true;
}

int resolve_number(task_record& t, std::uint8_t which, asked what) {
  const use& u = t.use_at(which);
  if (what == asked::layout)
    return u.instance != 0 && u.object->other_layout_on(t.home->devices().info(t.device).kind) != nullptr ? 1 : 0;
  const std::int64_t value = what == asked::slice ? slice_of(u) : u.pitch;
  if (value > std::numeric_limits<int>::max())
    throw error(errc::unsupported,
                (what == asked::slice ? "slices of " : "rows of ") + u.object->text(u.part) + " are " +
                    std::to_string(value) + " elements apart, which is no int",
                "use parts of fewer elements");
  return static_cast<int>(value);
}

void* host_address(const use& u) noexcept {
  if (u.whole) return u.object->host.load(std::memory_order_acquire);
  return u.object->host.load(std::memory_order_acquire) + u.object->host_layout.offset(u.object->all, u.part);
}

std::int64_t slice_of(const use& u) noexcept {
  const object_state& o = *u.object;
  if (u.instance == 0) return static_cast<std::int64_t>(o.host_layout.slice / o.element);
  const std::lock_guard hold(u.object->lock);
  return static_cast<std::int64_t>(o.instances[u.instance].how.slice / o.element);
}

argument device_argument(const use& u) noexcept {
  object_state& o = *u.object;
  if (u.instance == 0) return {nullptr, 0, host_address(u), 0};
  const std::lock_guard hold(o.lock);
  const instance& x = o.instances[u.instance];
  return {nullptr, 0, x.memory, x.how.offset(x.where, u.part)};
}

device_kind kind_of_device(const task_record& t) noexcept { return t.home->devices().info(t.device).kind; }

void describe_uses(task_record& t, launch_request& what, argument* arguments) {
  if (t.use_count > arguments_most)
    throw error(errc::unsupported,
                std::string("task '") + t.text_name() + "': a function for a queue gets at most " +
                    std::to_string(arguments_most) + " objects",
                "use views of fewer, larger ones");
  for (std::size_t i = 0; i < t.use_count; ++i) {
    const use& u = t.use_at(i);
    arguments[i] = device_argument(u);
    const auto pitch = static_cast<std::size_t>(u.pitch), slice = static_cast<std::size_t>(slice_of(u));
    const auto extent = [&](std::size_t d) { return static_cast<std::size_t>(u.part.extent(d)); };
    arguments[i].bytes =
        ((extent(0) - 1) * slice + (extent(1) - 1) * pitch + extent(2)) * u.object->element; // to the last element
  }
  what.arguments = {arguments, t.use_count};
  what.task = &t;
}

void no_native_queue(device_kind kind) {
  throw error(errc::invalid_argument, std::string("on_queue: devices of the kind ") + name_of(kind) + " have no queue",
              "opencl and cuda have");
}
void two_for_a_queue(device_kind kind) {
  throw error(errc::invalid_argument,
              std::string("variants() was given two functions for the queues of the kind ") + name_of(kind),
              "it takes one for each kind");
}

// Kernels on the host -------------------------------------------------------------------------------------------------

host_time::host_time(task_record& t, const kernel_at& what) noexcept
    : task_(t), sampled_(what.code && (t.flags & (task_record::placed | task_record::unsampled)) == task_record::placed
                             ? t.home->sampler().to_sample(t, *what.code, *what.shape)
                             : nullptr),
      begin_(sampled_ ? t.home->core().now() : 0) {}

void host_time::over() noexcept {
  if (sampled_) task_.home->sampler().ran(*sampled_, task_.home->core().now() - begin_);
}

namespace {
/// All that a task may need, beside the check of accesses.
void run_groups_of(task_record& t, const kernel_code& code, const grid& shape, std::size_t dynamic,
                   const void* const* values) {
  host_time time(t, {&code, &shape});
  const auto piece = [&](std::int64_t first, std::int64_t last) {
    if (dynamic == 0) return code.run(code.kernel, shape, first, last, nullptr, values);
    constexpr std::size_t line = 64;
    std::vector<char> buffer(dynamic + line);
    void* p = buffer.data();
    std::size_t size = buffer.size();
    code.run(code.kernel, shape, first, last, static_cast<char*>(std::align(line, dynamic, p, size)), values);
  };
  const std::int64_t n = shape.count();
  if (n == 1)
    piece(0, 1);
  else
    parallel_for(std::int64_t{0}, n, [&](const range<std::int64_t>& groups) { piece(groups.first(), groups.last()); });
  time.over();
}
} // namespace

void run_kernel(task_record& t, std::span<const source_of> sources, const kernel_code& code, const grid& shape,
                std::size_t dynamic, const void* const* values) {
  if (checked_kernels* const checked = t.home->checked()) [[unlikely]]
    return checked->run(t, sources, code, shape, dynamic, values);
  if (dynamic == 0 && !(t.flags & task_record::placed) && shape.count() == 1)
    return code.run(code.kernel, shape, 0, 1, nullptr, values);
  run_groups_of(t, code, shape, dynamic, values);
}

} // namespace tern::hetero::detail
