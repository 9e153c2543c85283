// SPDX-License-Identifier: Apache-2.0
#include <tern/hetero/passage/incoming.hpp>

#include <mutex>
#include <utility>

#include <tern/base/error.hpp>
#include <tern/hetero/graph/runtime.hpp>
#include <tern/hetero/record/failure.hpp>

namespace tern::hetero::detail {
namespace {

const work_type incoming_work{kinds_of(device_kind::host), nullptr, nullptr, nullptr,
                              [](const task_record&) noexcept -> const char* { return "incoming data"; }};

} // namespace

void land_at_once(object_state& o, byte_buffer memory) noexcept {
  const std::lock_guard hold(o.lock);
  if (o.paged) o.paged.reset(); // It is not the pager's to move. One that is used already has none.
  o.landed = std::move(memory);
  o.host.store(o.landed.data(), std::memory_order_release);
  o.each(o.all, [&](fragment& f) { o.set_valid(f, bit(0)); });
  o.update_on_host();
}

incoming::incoming(object_state& o) {
  runtime& r = o.home;
  o.paged.reset();
  task_record* const t = r.records().allocate();
  t->home = &r;
  t->work = &incoming_work;
  t->kinds = incoming_work.kinds;
  t->flags = task_record::hidden | task_record::waits_release | task_record::order_only;
  r.records().add_use(t) = {&o,     o.all, access_mode::write,
                            0,      true,  true,
                            false,  false, static_cast<std::int32_t>(o.host_layout.pitch / o.element),
                            nullptr};
  bool wide = false;
  static_cast<void>(r.give_place(t, wide)); // it follows nothing: nothing has used the object
  held_ = t;
}

incoming::~incoming() {
  if (held_)
    fail(std::make_exception_ptr(
        error(errc::invalid_state, "data that were announced did not come before the job ended")));
}

void incoming::land(byte_buffer memory) noexcept {
  land_at_once(*held_->use_at(0).object, std::move(memory));
  release_access(std::exchange(held_, nullptr));
}

void incoming::lands_on(std::uint8_t number) { place_ = landing_place::make(*held_->use_at(0).object, number); }

void incoming::put(const box& part, const std::byte* from, piece_request& tells) noexcept {
  place_->put(part, from, tells);
}

slices incoming::cut(std::size_t bytes) const noexcept {
  const object_state& o = *held_->use_at(0).object;
  return {o.all, o.element, bytes};
}

bool incoming::landed() noexcept {
  const bool on_device = place_->settle();
  release_access(std::exchange(held_, nullptr));
  return on_device;
}

void incoming::fail(std::exception_ptr why) noexcept {
  task_record* const held = std::exchange(held_, nullptr);
  if (place_) return place_->give_up(held, std::move(why));
  tern::hetero::detail::fail(held, std::move(why));
  release_access(held);
}

} // namespace tern::hetero::detail
