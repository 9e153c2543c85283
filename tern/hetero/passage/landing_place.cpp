// SPDX-License-Identifier: Apache-2.0
#include <tern/hetero/passage/landing_place.hpp>

#include <cstring>
#include <mutex>
#include <utility>

#include <tern/hetero/graph/runtime.hpp>

namespace tern::hetero::detail {
namespace {

const work_type reserving_work{any_device, nullptr, nullptr, nullptr,
                               [](const task_record&) noexcept -> const char* { return "room for incoming data"; }};

} // namespace

landing_place::landing_place(object_state& o, bool on_host) noexcept
    : completion_hook{[](completion_hook& h, task_record& t) noexcept { static_cast<landing_place&>(h).reserved(t); }},
      object_(o), known_(on_host) {}
landing_place::~landing_place() = default;

std::shared_ptr<landing_place> landing_place::make(object_state& o, std::uint8_t device) {
  std::shared_ptr<landing_place> p(new landing_place(o, device == 0));
  if (device != 0) {
    p->self_ = p;
    try {
      p->reserve(device);
    } catch (...) {
      p->self_.reset();
      throw;
    }
  }
  return p;
}

// A task that writes all, and so fetches nothing, gets an instance, which stays. It has no place in
// the order: the held task has that.
void landing_place::reserve(std::uint8_t device) {
  runtime& r = object_.home;
  task_record* const t = r.records().allocate();
  t->home = &r;
  t->work = &reserving_work;
  t->kinds = kinds_of(r.devices().info(device).kind);
  t->device_mask = std::int64_t{1} << device;
  t->flags = task_record::hidden | task_record::extended | task_record::placed | task_record::pins;
  r.records().add_use(t) = {&object_, object_.all, access_mode::write, 0, true, false, false, false, 0, nullptr};
  static_cast<void>(dependencies::hook(t, *this)); // it has not begun
  bool wide = false;
  try {
    if (r.give_place(t, wide)) r.execution().make_ready(t, false);
  } catch (...) {
    r.records().unreference(t);
    throw;
  }
}

void landing_place::reserved(task_record& of) noexcept {
  std::vector<piece> early;
  std::shared_ptr<landing_place> self; // goes last
  task_record* held = nullptr;
  const bool got = !of.has_failed();
  {
    const std::lock_guard hold(guard_);
    self = std::move(self_);
    known_ = true;
    if (got) instance_ = of.use_at(0).instance;
    early.swap(early_);
    held = std::exchange(given_up_, nullptr);
  }
  if (held) return leave(held, std::move(why_));
  for (const piece& p : early) put(p.part, p.from, *p.tells);
}

void landing_place::put(const box& part, const std::byte* from, piece_request& tells) noexcept {
  {
    const std::lock_guard hold(guard_);
    if (!known_) {
      early_.push_back({part, from, &tells});
      return;
    }
  }
  if (instance_ != 0) return copy_piece_in(object_, instance_, part, from, tells);
  put_on_host(part, from, tells);
}

void landing_place::put_on_host(const box& part, const std::byte* from, piece_request& tells) noexcept {
  std::exception_ptr failed;
  try {
    std::byte* memory = nullptr;
    {
      const std::lock_guard hold(object_.lock);
      memory = object_.host_memory();
    }
    std::memcpy(memory + object_.host_layout.offset(object_.all, part), from,
                static_cast<std::size_t>(part.size()) * object_.element);
  } catch (...) {
    failed = std::current_exception();
  }
  tells.over(std::move(failed));
}

bool landing_place::settle() noexcept {
  const std::lock_guard hold(object_.lock);
  instance& x = object_.instances[instance_];
  if (instance_ != 0) x.pinned = 0;
  object_.each(object_.all, [&](fragment& f) {
    object_.set_valid(f, x.exists ? bit(instance_) : 0);
    f.lost = !x.exists;
  });
  object_.update_on_host();
  return instance_ != 0;
}

void landing_place::give_up(task_record* held, std::exception_ptr why) noexcept {
  {
    const std::lock_guard hold(guard_);
    if (!known_) { // the reserving task will write as the object's next tasks do: they wait for it
      given_up_ = held;
      why_ = std::move(why);
      return;
    }
  }
  leave(held, std::move(why));
}

void landing_place::leave(task_record* held, std::exception_ptr why) noexcept {
  {
    const std::lock_guard hold(object_.lock);
    if (instance_ != 0) object_.instances[instance_].pinned = 0;
    object_.each(object_.all, [&](fragment& f) { object_.set_valid(f, 0); });
    object_.update_on_host();
  }
  fail(held, std::move(why));
  release_access(held);
}

std::uint8_t device_to_land_on(const object_state& o, device_kind kind) {
  if (kind == device_kind::host) return 0;
  runtime& r = o.home;
  r.look_for_devices(kinds_of(kind));
  std::uint8_t best = 0;
  for (std::size_t d = 1; d < r.devices().count(); ++d) {
    if (r.devices().info(d).kind != kind || r.devices().space_of(d) == 0) continue;
    if (best == 0 || r.devices().queue(d)->bytes_held() < r.devices().queue(best)->bytes_held())
      best = static_cast<std::uint8_t>(d);
  }
  return best;
}

int devices_found(const tern::detail::scheduler_core& by) noexcept {
  const auto* const all = static_cast<const runtime*>(by.extension.get());
  return all ? static_cast<int>(all->devices().count()) - 1 : 0;
}

device_kind kind_that_has(object_state& o, const box& part) noexcept {
  const device_table& all = o.home.devices();
  device_kind found = device_kind::host;
  const std::lock_guard hold(o.lock);
  o.each(part, [&](const fragment& f) {
    for (const task_record* w : f.writers) // one that has not ended says more than what is valid now
      if (!w->is_done())
        for (std::size_t d = 1; d < all.count(); ++d)
          if ((w->kinds & kinds_of(all.info(d).kind)) && all.space_of(d) != 0 && (w->device_mask >> d & 1) != 0 &&
              found == device_kind::host)
            found = all.info(d).kind;
    if (f.valid != 0 && !(f.valid & bit(0)))
      found = all.info(o.instances[static_cast<std::size_t>(__builtin_ctzll(f.valid))].space).kind;
  });
  return found;
}

} // namespace tern::hetero::detail
