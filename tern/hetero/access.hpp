// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// How tasks use objects, and what objects and tasks need of the runtime.

#include <tern/base/language/compiler.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <source_location>
#include <string>
#include <string_view>

#include <tern/hetero/devices.hpp>
#include <tern/hetero/record/box.hpp>

namespace tern {

/// What a task, or the host, does with an object.
enum class access_mode : std::uint8_t {
  read = 1,
  write = 2, ///< every element, without looking at what was there: nothing is fetched
  read_write = 3,
  commute = 7 ///< read and write, in any order with others that do the same, but never two at once
};

namespace hetero::detail {

struct object_state;
struct task_record;

object_state* new_object(const box& all, std::size_t element, const char* type, void* adopted);
void add_handle(object_state& o) noexcept;
[[noreturn]] void moved_from();
void drop_handle(object_state* o) noexcept;
const box& all_of(const object_state& o) noexcept;
/// Host memory of a new object, which from now on is valid.
std::byte* fill_memory(object_state& o);
/// That has been done.
void filled(object_state& o) noexcept;
void check_extent(const char* type, int dimension, std::int64_t extent);
void check_part(const object_state& o, const box& of, int dimension, std::int64_t low, std::int64_t high,
                std::int64_t extent);
void check_halo(const object_state& o, const box& of, std::int64_t width);
void cut_tiles(object_state& o, const std::array<std::int32_t, 3>& size);
void prefetch(object_state* o, const box& part, std::string_view device, bool pinned);
void unpin(object_state* o, const box& part, std::string_view device);
void drop(object_state* o, const box& part, std::string_view device); ///< "": everywhere
void wont_use(object_state* o, const box& part);
void set_name(object_state& o, std::string_view text);
std::string text_of(const object_state& o, const box& part);
void release_access(task_record* t) noexcept;
/// How all elements of an object lie on devices of a kind, in as many bytes. Null: as on the host.
struct other_layout {
  std::function<void(const std::byte* host, std::byte* device)> pack;
  std::function<void(const std::byte* device, std::byte* host)> unpack;
};
void set_layout(object_state& o, device_kind kind, other_layout how);

/// Where a part lies in the host's memory.
struct host_place {
  std::byte* address;
  std::int64_t pitch, slice; ///< elements
};
host_place place_on_host(const object_state& o, const box& part) noexcept;

/// Answered when the host has access.
struct access_request {
  virtual void granted(task_record* t, const host_place& where) noexcept = 0;
  virtual void refused(std::exception_ptr why) noexcept = 0;

protected:
  ~access_request() = default;
};
/// \param request lives until it is answered, which it also is if this throws.
/// \param at_once in a fiber: it is answered before this returns, if nothing is left that it waits
/// for.
void request_access(object_state* o, const box& part, access_mode how, access_request* request,
                    const std::source_location& where, bool at_once = false);
/// The same in any context, where nothing may wait: no window holds it up. It is answered before
/// this returns, if nothing is left that it waits for.
void request_access_anywhere(object_state* o, const box& part, access_mode how, access_request* request,
                             const std::source_location& where);

/// Answered when data have been copied out, or with the reason why they have not.
struct copy_out_request {
  virtual void over(std::exception_ptr failed) noexcept = 0;

protected:
  ~copy_out_request() = default;
};
/// Copies a part to `to`, packed, straight from where it is valid. \param request lives until it is
/// answered, which it also is if this throws.
void check_destination(const object_state& o, const box& part, const void* to);
void copy_out(object_state* o, const box& part, std::byte* to, copy_out_request* request);

} // namespace hetero::detail
} // namespace tern
