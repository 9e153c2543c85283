// SPDX-License-Identifier: Apache-2.0
/// \file
/// Objects begin and end, and are fetched to and dropped from devices: what the runtime does by
/// tasks of its own.
#include <cstdint>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <utility>

#include <tern/base/error.hpp>
#include <tern/hetero/graph/runtime.hpp>
#include <tern/hetero/hetero_object.hpp>

namespace tern::hetero::detail {

object_state* new_object(const box& all, std::size_t element, const char* type, void* adopted) {
  constexpr std::int64_t most = std::int64_t{1} << 62;
  const std::int64_t rows = all.extent(0) * all.extent(1), row = all.extent(2) * static_cast<std::int64_t>(element);
  if (rows > most / row)
    throw error(errc::invalid_argument,
                std::string("hetero_object<") + type + "> of " + std::to_string(all.extent(0)) + " x " +
                    std::to_string(all.extent(1)) + " x " + std::to_string(all.extent(2)) + " elements is too large",
                "no machine has that many bytes");
  runtime& r = runtime::here("hetero_object");
  auto* const o = new object_state(r, r.copies(), all, element, type);
  if (adopted) {
    o->adopted = true;
    o->paged.reset(); // it is not ours to move
    o->host.store(static_cast<std::byte*>(adopted), std::memory_order_relaxed);
    o->set_valid(o->first, 1);
    o->update_on_host();
  }
  return o;
}

void drop_handle(object_state* o) noexcept {
  if (o->handles.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  // Its memory may be freed next: nothing must still be on its way there but by tasks. (The last
  // handle may also go with a task's closure, in the device worker that does what would be waited
  // for: then wait_all says when the memory is free.)
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
  if (o->reducing.load(std::memory_order_acquire)) o->home.reducing().end(*o); // its parts have to go, too
  o->home.abandon(o);
}
// Devices' memory ----------------------------------------------------------------------------------------------------

namespace {

const work_type nothing{any_device, nullptr, nullptr, nullptr,
                        [](const task_record&) noexcept -> const char* { return "prefetch"; }};

use use_of(object_state* o, const box& part, access_mode how) noexcept {
  const auto pitch = static_cast<std::int32_t>(o->host_layout.pitch / o->element);
  return {o, part, how, 0, part == o->all, true, false, false, pitch, nullptr};
}

} // namespace

void prefetch(object_state* o, const box& part, std::string_view device, bool pinned) {
  runtime& r = o->home;
  const std::size_t d = r.device_named(device);
  task_record* const t = r.records().allocate();
  t->home = &r;
  t->work = &nothing;
  t->flags = task_record::hidden | task_record::extended;
  r.records().add_use(t) = use_of(o, part, access_mode::read);
  if (r.devices().space_of(d) != 0) {
    t->flags |= task_record::placed;
    t->kinds = kinds_of(r.devices().info(d).kind);
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
  task_record* const t = r.records().allocate();
  ::new (static_cast<void*>(t->closure)) unpinning{r.devices().space_of(r.device_named(device))};
  t->home = &r;
  t->work = &type;
  t->flags = task_record::hidden | task_record::order_only;
  r.records().add_use(t) = use_of(o, part, access_mode::read_write); // after all that pin
  r.request(t);
}

void drop(object_state* o, const box& part, std::string_view device) {
  runtime& r = o->home;
  constexpr std::uint8_t everywhere = 0;
  const std::uint8_t space = device.empty() ? everywhere : r.devices().space_of(r.device_named(device));
  if (space == 0 && !device.empty()) return; // what lies in the host's memory stays
  if (r.devices().count() == 1) return;
  struct dropping {
    std::uint8_t space;
  };
  static const work_type type{
      kinds_of(device_kind::host),
      [](task_record& t) {
        const use& u = t.use_at(0);
        object_state& x = *u.object;
        const std::uint8_t where = t.work_as<dropping>().space;
        const std::lock_guard hold(x.lock); // all of the part is valid on the host
        for (std::size_t i = 1; i < x.instances.size(); ++i) {
          const instance& y = x.instances[i];
          if (!y.exists || (where != everywhere && y.space != where) || y.users > 0 || !y.where.meets(u.part)) continue;
          bool alone = false;
          x.each(y.where, [&](fragment& f) { alone = alone || f.valid == std::uint64_t{1} << i; });
          if (!alone) x.copies.forget(x, i);
        }
      },
      nullptr, nullptr, [](const task_record&) noexcept -> const char* { return "drop"; }};
  task_record* const t = r.records().allocate();
  ::new (static_cast<void*>(t->closure)) dropping{space};
  t->home = &r;
  t->work = &type;
  t->flags = task_record::hidden;
  r.records().add_use(t) = use_of(o, part, access_mode::read);
  r.request(t);
}

void wont_use(object_state* o, const box& part) {
  runtime& r = o->home;
  static const work_type type{kinds_of(device_kind::host),
                              [](task_record& t) {
                                const use& u = t.use_at(0);
                                u.object->copies.let_go(*u.object, u.part);
                              },
                              nullptr, nullptr, [](const task_record&) noexcept -> const char* { return "wont_use"; }};
  if (r.devices().count() == 1 && !o->paged) return; // all is the host's, and stays
  task_record* const t = r.records().allocate();
  t->home = &r;
  t->work = &type;
  t->flags = task_record::hidden | task_record::order_only;
  r.records().add_use(t) = use_of(o, part, access_mode::read_write); // after all that use it
  r.request(t);
}

} // namespace tern::hetero::detail
