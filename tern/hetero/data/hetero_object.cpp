// SPDX-License-Identifier: Apache-2.0
/// \file
/// What hetero_object.hpp and hetero_task.hpp need and is not inlined.
#include <algorithm>
#include <cstring>
#include <limits>
#include <mutex>
#include <utility>
#include <vector>

#include <tern/base/error.hpp>
#include <tern/hetero/device/device_worker.hpp>
#include <tern/hetero/graph/runtime.hpp>
#include <tern/hetero/hetero_task.hpp>
#include <tern/hetero/kernel/checked.hpp>
#include <tern/task/parallel_for.hpp>

namespace tern::hetero::detail {

// Objects -------------------------------------------------------------------------------------------------------------

object_state* new_object(const box& all, std::size_t element, const char* type, void* adopted) {
  constexpr std::int64_t most = std::int64_t{1} << 62;
  const std::int64_t rows = all.extent(0) * all.extent(1), row = all.extent(2) * static_cast<std::int64_t>(element);
  if (rows > most / row)
    throw error(errc::invalid_argument,
                std::string("hetero_object<") + type + "> of " + std::to_string(all.extent(0)) + " x " +
                    std::to_string(all.extent(1)) + " x " + std::to_string(all.extent(2)) + " elements is too large",
                "no machine has that many bytes");
  auto* const o = new object_state(runtime::here("hetero_object"), all, element, type);
  if (adopted) {
    o->adopted = true;
    o->host.store(static_cast<std::byte*>(adopted), std::memory_order_relaxed);
    o->set_valid(o->first, 1);
    o->update_on_host();
  }
  return o;
}

void add_handle(object_state& o) noexcept { o.handles.fetch_add(1, std::memory_order_relaxed); }
void drop_handle(object_state* o) noexcept {
  if (o->handles.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  // Its memory may be freed next: nothing must still be on its way there but by tasks. (The last handle may also go
  // with a task's closure, in the device worker that does what would be waited for: then wait_all says when the memory
  // is free.)
  if (o->adopted && !o->home.in_device_worker()) {
    future<void> saved;
    {
      const std::lock_guard hold(o->lock);
      if (o->saving > 0) {
        o->saved = std::make_unique<promise<void>>();
        saved = o->saved->get_future();
      }
    }
    if (saved.valid()) saved.wait();
  }
  if (o->reducing.load(std::memory_order_acquire)) o->home.end_reduction(*o); // its parts have to go, too
  o->home.abandon(o);
}
void moved_from() {
  throw error(errc::invalid_state, "there is no object in this handle",
              "it was moved from: use the one it was moved to");
}
const box& all_of(const object_state& o) noexcept { return o.all; }

std::byte* fill_memory(object_state& o) {
  const std::lock_guard hold(o.lock);
  std::byte* const p = o.host_memory();
  o.set_valid(o.first, 1);
  o.update_on_host();
  return p;
}

void check_extent(const char* type, int dimension, std::int64_t extent) {
  if (extent >= 1 && extent < std::int64_t{1} << 31) return;
  throw error(errc::invalid_argument,
              std::string("hetero_object<") + type + ">: extent " + std::to_string(dimension) + " is " +
                  std::to_string(extent),
              "each extent is from 1 to 2147483647");
}

namespace {
void refuse_parts(const object_state& o) {
  if (o.other)
    throw error(errc::unsupported, "a part of " + o.text() + ", which has layouts of its own on devices",
                "all of it is used at a time; make several objects");
}
} // namespace

void check_part(const object_state& o, const box& of, int dimension, std::int64_t low, std::int64_t high,
                std::int64_t extent) {
  refuse_parts(o);
  if (low >= 0 && low < high && high <= extent) return;
  throw error(errc::invalid_argument,
              "there is no part [" + std::to_string(low) + ", " + std::to_string(high) + ") in dimension " +
                  std::to_string(dimension) + " of " + o.text(of),
              "a part has at least one element and lies in [0, " + std::to_string(extent) + ")");
}

void check_halo(const object_state& o, const box& of, std::int64_t width) {
  if (width >= 0) return;
  throw error(errc::invalid_argument, "a halo of " + std::to_string(width) + " around " + o.text(of),
              "a halo adds elements; part() takes some away");
}

void cut_tiles(object_state& o, const std::array<std::int32_t, 3>& size) {
  refuse_parts(o);
  const std::lock_guard hold(o.lock);
  o.cut_tiles(size);
}

void set_name(object_state& o, std::string_view text) {
  const std::lock_guard hold(o.lock);
  o.name = text;
}
std::string text_of(const object_state& o, const box& part) { return o.text(part); }

host_place place_on_host(const object_state& o, const box& part) noexcept {
  return {o.host.load(std::memory_order_acquire) + o.host_layout.offset(o.all, part),
          static_cast<std::int64_t>(o.host_layout.pitch / o.element),
          static_cast<std::int64_t>(o.host_layout.slice / o.element)};
}

void* host_address(const use& u) noexcept {
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

device_kind kind_of_device(const task_record& t) noexcept { return t.home->info(t.device).kind; }

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

// Devices' memory ----------------------------------------------------------------------------------------------------

namespace {

const work_type nothing{any_device, nullptr, nullptr, nullptr,
                        [](const task_record&) noexcept -> const char* { return "prefetch"; }};

use use_of(object_state* o, const box& part, access_mode how) noexcept {
  return {
      o,      part, how, 0, part == o->all, true, false, static_cast<std::int32_t>(o->host_layout.pitch / o->element),
      nullptr};
}

} // namespace

void set_layout(object_state& o, device_kind kind, other_layout how) {
  const std::lock_guard hold(o.lock);
  if (kind == device_kind::host)
    throw error(errc::invalid_argument, o.text() + ": layout_on(host)", "the layout of the host is that of the object");
  if (o.elsewhere > 0 || !o.uncut() || o.handles.load(std::memory_order_relaxed) > 1)
    throw error(errc::invalid_state, o.text() + ": layout_on comes too late",
                "say it before the object is used, or has parts");
  auto all = o.other ? std::make_shared<other_layouts>(*o.other) : std::make_shared<other_layouts>();
  (*all)[static_cast<std::size_t>(kind)] = std::move(how);
  o.other = std::move(all);
}

void prefetch(object_state* o, const box& part, std::string_view device, bool pinned) {
  runtime& r = o->home;
  const std::size_t d = r.device_called(device);
  task_record* const t = r.allocate();
  t->home = &r;
  t->work = &nothing;
  t->flags = task_record::hidden | task_record::extended;
  r.add_use(t) = use_of(o, part, access_mode::read);
  if (r.space_of(d) != 0) {
    t->flags |= task_record::placed;
    t->kinds = kinds_of(r.info(d).kind);
    t->device_mask = std::int64_t{1} << d;
    if (pinned) t->flags |= task_record::pins;
  }
  r.request(t);
}

void unpin(object_state* o, const box& part, std::string_view device) {
  runtime& r = o->home;
  struct unpinning {
    std::uint8_t space;
  };
  static const work_type type{kinds_of(device_kind::host),
                              [](task_record& t) {
                                object_state& x = *t.use_at(0).object;
                                const std::lock_guard hold(x.lock);
                                for (std::size_t i = 1; i < x.instances.size(); ++i)
                                  if (instance& y = x.instances[i]; y.exists &&
                                                                    y.space == t.work_as<unpinning>().space &&
                                                                    y.where.meets(t.use_at(0).part))
                                    y.pinned = 0;
                              },
                              nullptr, nullptr, [](const task_record&) noexcept -> const char* { return "unpin"; }};
  task_record* const t = r.allocate();
  ::new (static_cast<void*>(t->closure)) unpinning{r.space_of(r.device_called(device))};
  t->home = &r;
  t->work = &type;
  t->flags = task_record::hidden | task_record::order_only;
  r.add_use(t) = use_of(o, part, access_mode::read_write); // after all that pin
  r.request(t);
}

void drop(object_state* o, const box& part, std::string_view device) {
  runtime& r = o->home;
  const std::uint8_t space = r.space_of(r.device_called(device));
  if (space == 0) return; // what lies in the host's memory stays
  struct dropping {
    std::uint8_t space;
  };
  static const work_type type{kinds_of(device_kind::host),
                              [](task_record& t) {
                                const use& u = t.use_at(0);
                                object_state& x = *u.object;
                                const std::uint8_t where = t.work_as<dropping>().space;
                                const std::lock_guard hold(x.lock); // all of the part is valid on the host
                                for (std::size_t i = 1; i < x.instances.size(); ++i) {
                                  const instance& y = x.instances[i];
                                  if (!y.exists || y.space != where || y.users > 0 || !y.where.meets(u.part)) continue;
                                  bool alone = false;
                                  x.each(y.where,
                                         [&](fragment& f) { alone = alone || f.valid == std::uint64_t{1} << i; });
                                  if (!alone) x.home.forget(x, i);
                                }
                              },
                              nullptr, nullptr, [](const task_record&) noexcept -> const char* { return "drop"; }};
  task_record* const t = r.allocate();
  ::new (static_cast<void*>(t->closure)) dropping{space};
  t->home = &r;
  t->work = &type;
  t->flags = task_record::hidden;
  r.add_use(t) = use_of(o, part, access_mode::read);
  r.request(t);
}

// Arguments -----------------------------------------------------------------------------------------------------------

task_record* make_task() {
  runtime& r = runtime::here("a task on heterogeneous objects");
  task_record* const t = r.allocate();
  t->home = &r;
  return t;
}

void submit_task(task_record* t) {
  if (!t->home->collected(t)) [[likely]]
    t->home->submit(t);
}

void runtime::request(task_record* t) {
  try {
    if (!collected(t)) submit(t);
  } catch (...) {
    t->failure = std::current_exception(); // for who waits for its end
    unmake_task(t);
    throw;
  }
}

void drop_arguments(task_record& t) noexcept {
  for (std::size_t i = 0; i < t.use_count; ++i) {
    use& u = t.use_at(i);
    if (u.how == reducing_access) t.home->free(::new (std::exchange(u.address, nullptr)) task_record);
    if (t.flags & task_record::handled) drop_handle(u.object);
  }
  t.use_count = 0;
}

void unmake_task(task_record* t) noexcept {
  drop_arguments(*t);
  if (t->work && t->work->destroy) t->work->destroy(*t);
  t->home->unreference(t);
}

void add_use(task_record& t, object_state* o, const box& part, access_mode how) {
  use& u = t.home->add_use(&t);
  if (t.flags & task_record::handled) add_handle(*o); // until it is submitted
  u.address = nullptr;
  u.object = o;
  u.part = part;
  u.how = how;
  u.instance = 0;
  u.whole = part == o->all;
  u.ordered = t.home->implicit();
  u.writing = false;
  u.pitch = static_cast<std::int32_t>(o->host_layout.pitch / o->element);
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
  auto* const block = ::new (t.home->allocate_block()) reduce_block;
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
    return u.instance != 0 && u.object->other_layout_on(t.home->info(t.device).kind) != nullptr ? 1 : 0;
  const std::int64_t value = what == asked::slice ? slice_of(u) : u.pitch;
  if (value > std::numeric_limits<int>::max())
    throw error(errc::unsupported,
                (what == asked::slice ? "slices of " : "rows of ") + u.object->text(u.part) + " are " +
                    std::to_string(value) + " elements apart, which is no int",
                "use parts of fewer elements");
  return static_cast<int>(value);
}

// Kernels on the host -------------------------------------------------------------------------------------------------

void run_kernel(task_record& t, std::span<const source_of> sources, const kernel_code& code, const grid& shape,
                std::size_t dynamic, const void* const* values) {
  if (checked_kernels* const checked = t.home->checked()) [[unlikely]]
    return checked->run(t, sources, code, shape, dynamic, values);
  const auto piece = [&](std::int64_t first, std::int64_t last) {
    if (dynamic == 0) return code.run(code.kernel, shape, first, last, nullptr, values);
    constexpr std::size_t line = 64;
    std::vector<char> buffer(dynamic + line);
    void* p = buffer.data();
    std::size_t size = buffer.size();
    code.run(code.kernel, shape, first, last, static_cast<char*>(std::align(line, dynamic, p, size)), values);
  };
  const std::int64_t n = shape.count();
  if (n == 1) return piece(0, 1);
  parallel_for(std::int64_t{0}, n, [&](const range<std::int64_t>& groups) { piece(groups.first(), groups.last()); });
}

} // namespace tern::hetero::detail
