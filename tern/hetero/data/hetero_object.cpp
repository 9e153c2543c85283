// SPDX-License-Identifier: Apache-2.0
/// \file
/// What hetero_object.hpp needs, is not inlined and makes no tasks.
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include <tern/base/error.hpp>
#include <tern/hetero/data/object_state.hpp>
#include <tern/hetero/hetero_object.hpp>

namespace tern::hetero::detail {

void add_handle(object_state& o) noexcept { o.handles.fetch_add(1, std::memory_order_relaxed); }
void moved_from() {
  throw error(errc::invalid_state, "there is no object in this handle",
              "it was moved from: use the one it was moved to");
}
const box& all_of(const object_state& o) noexcept { return o.all; }

std::byte* fill_memory(object_state& o) {
  std::byte* const paged = o.paged ? o.copies.paging()->hold(o) : nullptr;
  const std::lock_guard hold(o.lock);
  std::byte* const p = paged ? paged : o.host_memory();
  o.set_valid(o.first, 1);
  o.update_on_host();
  return p;
}

void filled(object_state& o) noexcept {
  if (o.paged) o.copies.paging()->let_go(o);
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

} // namespace tern::hetero::detail
