// SPDX-License-Identifier: Apache-2.0
#include <tern/hetero/passage/combining.hpp>

#include <cstring>
#include <memory>
#include <utility>

#include <tern/hetero/graph/runtime.hpp>
#include <tern/hetero/graph/task_arguments.hpp>

namespace tern::hetero::detail {
namespace {

/// The closure. Use 0: the target; 1: the data; 2: where the old ones go.
struct combine_closure {
  combine_function combine;
};
/// Lives until its task has ended.
struct combine_end final : completion_hook {
  explicit combine_end(unique_function<void(std::exception_ptr)> f)
      : completion_hook{[](completion_hook& h, task_record& of) noexcept {
          const std::unique_ptr<combine_end> self(static_cast<combine_end*>(&h));
          self->over(of.has_failed() ? of.failure : nullptr);
        }},
        over(std::move(f)) {}
  unique_function<void(std::exception_ptr)> over;
};

void run_combine(task_record& t) {
  const use& to = t.use_at(0);
  const object_state& o = *to.object;
  const auto combine = t.work_as<combine_closure>().combine;
  auto* const base = static_cast<std::byte*>(host_address(to));
  const auto* from = static_cast<const std::byte*>(host_address(t.use_at(1)));
  auto* old = t.use_count > 2 ? static_cast<std::byte*>(host_address(t.use_at(2))) : nullptr;
  const std::int64_t row = to.part.extent(2);
  const std::size_t bytes = static_cast<std::size_t>(row) * o.element;
  for (std::int64_t z = 0; z < to.part.extent(0); ++z)
    for (std::int64_t y = 0; y < to.part.extent(1); ++y) {
      std::byte* const into =
          base + static_cast<std::size_t>(z) * o.host_layout.slice + static_cast<std::size_t>(y) * o.host_layout.pitch;
      if (old) {
        std::memcpy(old, into, bytes);
        old += bytes;
      }
      combine(into, from, row);
      from += bytes;
    }
}

const work_type combine_work{kinds_of(device_kind::host), &run_combine, nullptr, nullptr,
                             [](const task_record&) noexcept -> const char* { return "accumulate"; }};

void add_whole(task_record* t, object_state* o, access_mode how) {
  t->home->records().add_use(t) = {
      o,      o->all, how, 0, true, true, false, false, static_cast<std::int32_t>(o->host_layout.pitch / o->element),
      nullptr};
}

} // namespace

void submit_combine(combine_request what) {
  object_state& o = *what.target;
  runtime& r = o.home;
  auto over = std::make_unique<combine_end>(std::move(what.over));
  task_record* const t = r.records().allocate();
  ::new (static_cast<void*>(t->closure)) combine_closure{what.combine};
  t->home = &r;
  t->work = &combine_work;
  t->kinds = combine_work.kinds;
  t->flags = task_record::hidden;
  const bool commutes = !what.in_order && !what.old;
  r.records().add_use(t) = {
      &o,    what.part, commutes ? access_mode::commute : access_mode::read_write,  0,      what.part == o.all, true,
      false, false,     static_cast<std::int32_t>(o.host_layout.pitch / o.element), nullptr};
  add_whole(t, what.data, access_mode::read);
  if (what.old) add_whole(t, what.old, access_mode::write);
  t->marks.fetch_or(task_record::failure_seen, std::memory_order_relaxed); // its initiator is told
  dependencies::hook(t, *over.release());
  bool wide = false;
  if (r.give_place(t, wide)) static_cast<void>(r.execution().make_ready(t, false));
}

object_state* new_object_like(const object_state& o, const box& part) {
  box all;
  for (std::size_t d = 0; d < 3; ++d) all.high[d] = static_cast<std::int32_t>(part.extent(d));
  return new object_state(o.home, o.copies, all, o.element, o.type);
}

std::size_t element_bytes(const object_state& o) noexcept { return o.element; }

bool is_reducing(const object_state& o) noexcept { return o.reducing.load(std::memory_order_acquire); }

} // namespace tern::hetero::detail
