// SPDX-License-Identifier: Apache-2.0
#include <tern/hetero/graph/reduction.hpp>

#include <algorithm>
#include <cstring>
#include <mutex>
#include <utility>
#include <vector>

#include <tern/hetero/graph/runtime.hpp>
#include <tern/hetero/graph/task_arguments.hpp>

namespace tern::hetero::detail {

namespace {

constexpr std::size_t parts_most = 8;

const work_type fill_with_identity{
    kinds_of(device_kind::host),
    [](task_record& t) {
      const use& u = t.use_at(0);
      const auto& identity = *t.work_as<std::vector<std::byte>>().data();
      const std::size_t size = u.object->element;
      auto* p = static_cast<std::byte*>(host_address(u));
      for (std::int64_t i = 0, n = u.part.size(); i < n; ++i, p += size) std::memcpy(p, &identity, size);
    },
    [](task_record& t) noexcept { std::destroy_at(&t.work_as<std::vector<std::byte>>()); }, nullptr,
    [](const task_record&) noexcept -> const char* { return "begin of a reduction"; }};

// Use 0: the part of the object; the others: what is to be added.
struct combining {
  void (*combine)(std::byte* into, const std::byte* from, std::int64_t n);
};
const work_type combine_parts{kinds_of(device_kind::host),
                              [](task_record& t) {
                                const use& to = t.use_at(0);
                                const object_state& o = *to.object;
                                const auto combine = t.work_as<combining>().combine;
                                auto* const base = static_cast<std::byte*>(host_address(to));
                                const std::int64_t row = to.part.extent(2);
                                for (std::size_t i = 1; i < t.use_count; ++i) {
                                  const auto* from = static_cast<const std::byte*>(host_address(t.use_at(i)));
                                  for (std::int64_t z = 0; z < to.part.extent(0); ++z)
                                    for (std::int64_t y = 0; y < to.part.extent(1); ++y) {
                                      combine(base + static_cast<std::size_t>(z) * o.host_layout.slice +
                                                  static_cast<std::size_t>(y) * o.host_layout.pitch,
                                              from, row);
                                      from += static_cast<std::size_t>(row) * o.element;
                                    }
                                }
                              },
                              nullptr, nullptr,
                              [](const task_record&) noexcept -> const char* { return "end of a reduction"; }};

} // namespace

object_state* reductions::part_of(object_state& o, const box& part, const reducer& how) {
  bool other = false;
  {
    const std::lock_guard hold(o.lock);
    other = o.reduced && (!(o.reduced->part == part) || o.reduced->combine != how.combine ||
                          std::memcmp(o.reduced->identity.data(), how.identity, o.element) != 0);
  }
  if (other) end_now(o);
  object_state* fresh = nullptr;
  object_state* result = nullptr;
  {
    const std::lock_guard hold(o.lock);
    if (!o.reduced) {
      o.reduced = std::make_unique<reduction>();
      o.reduced->part = part;
      o.reduced->combine = how.combine;
      o.reduced->identity.assign(how.identity, how.identity + o.element);
      o.reducing.store(true, std::memory_order_release);
    }
    reduction& r = *o.reduced;
    const std::size_t i = r.next++ % std::min(parts_most, home_.runners());
    if (i < r.parts.size()) {
      result = r.parts[i];
    } else {
      box all;
      for (std::size_t d = 0; d < 3; ++d) all.high[d] = static_cast<std::int32_t>(part.extent(d));
      fresh = result = new object_state(home_, home_.copies(), all, o.element, o.type);
      fresh->name = "a part of a reduction" + (o.name.empty() ? std::string() : " of " + o.name);
      fresh->other = o.other; // then the part is all of it
      r.parts.push_back(result);
    }
  }
  if (fresh) {
    task_record* const t = home_.records().allocate();
    ::new (static_cast<void*>(t->closure)) std::vector<std::byte>(how.identity, how.identity + o.element);
    t->work = &fill_with_identity;
    t->flags = task_record::hidden;
    home_.records().add_use(t) = {fresh,  fresh->all, access_mode::write,
                                  0,      true,       true,
                                  false,  false,      static_cast<std::int32_t>(fresh->all.extent(2)),
                                  nullptr};
    home_.submit(t);
  }
  return result;
}

std::unique_lock<mutex> reductions::settle(task_record* t) {
  std::unique_lock hold(lock_);
  for (std::size_t i = 0; i < t->use_count; ++i)
    if (const use& u = t->use_at(i); u.how != reducing_access && u.object->reducing.load(std::memory_order_acquire))
      end_now(*u.object);
  for (std::size_t i = 0; i < t->use_count; ++i) {
    use& u = t->use_at(i);
    if (u.how != reducing_access) continue;
    auto* const how = static_cast<reduce_block*>(std::exchange(u.address, nullptr));
    object_state* const part = part_of(*u.object, u.part, {how->combine, how->identity});
    home_.records().free_block(how);
    t->flags |= task_record::reduces;
    u = {part,   part->all, access_mode::read_write,
         0,      true,      true,
         false,  false,     static_cast<std::int32_t>(part->all.extent(2)),
         nullptr};
  }
  return hold;
}

void reductions::end(object_state& o) {
  const std::lock_guard hold(lock_);
  if (home_.parts().ended()) { // they are not added any more
    for (object_state* part : o.reduced->parts) home_.abandon(part);
    o.reduced.reset();
    return;
  }
  end_now(o);
}

// Other threads see that it is under way until what ends it has its place in the order, and wait
// for that.
void reductions::end_now(object_state& o) {
  std::unique_ptr<reduction> r;
  {
    const std::lock_guard hold(o.lock);
    r = std::move(o.reduced);
  }
  if (!r) return;
  task_record* const t = home_.records().allocate();
  ::new (static_cast<void*>(t->closure)) combining{r->combine};
  t->work = &combine_parts;
  t->flags = task_record::hidden | task_record::of_reduction;
  home_.records().add_use(t) = {&o,
                                r->part,
                                access_mode::read_write,
                                0,
                                r->part == o.all,
                                true,
                                false,
                                false,
                                static_cast<std::int32_t>(o.host_layout.pitch / o.element),
                                nullptr};
  for (object_state* part : r->parts)
    home_.records().add_use(t) = {part,   part->all, access_mode::read,
                                  0,      true,      true,
                                  false,  false,     static_cast<std::int32_t>(part->all.extent(2)),
                                  nullptr};
  home_.submit(t);
  o.reducing.store(false, std::memory_order_release);
  for (object_state* part : r->parts) home_.abandon(part);
}

} // namespace tern::hetero::detail
