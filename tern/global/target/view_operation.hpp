// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Operations on views that functions of mobile objects name: what does not depend on the
/// function. Internal.

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include <tern/base/archive.hpp>
#include <tern/global/pointer/operation.hpp>
#include <tern/hetero/access.hpp>
#include <tern/mobile/object_id.hpp>
#include <tern/net/node.hpp>

namespace tern::global::detail {

enum class view_action : std::uint32_t { put = 1, get = 2, accumulate = 3, accumulate_in_order = 4, fetch = 5 };

/// What is to be done to the view. Stands behind the function's arguments in the invocation, and
/// before the data.
struct view_request {
  view_action what{};
  std::uint32_t how = 0;                       ///< an `accumulation`
  std::array<std::int32_t, 3> extent{0, 0, 0}; ///< of a get's target; 0: what the view has
};

/// Owns a handle.
class object_handle {
public:
  explicit object_handle(hetero::detail::object_state* counted) noexcept : handle_(counted) {}
  object_handle(object_handle&& other) noexcept : handle_(other.release()) {}
  object_handle& operator=(object_handle&&) = delete;
  ~object_handle() {
    if (handle_) hetero::detail::drop_handle(handle_);
  }
  hetero::detail::object_state* get() const noexcept { return handle_; }
  hetero::detail::object_state* release() noexcept { return std::exchange(handle_, nullptr); }

private:
  hetero::detail::object_state* handle_;
};

// The rank that asks ----------------------------------------------------------------------------------------------------

/// `post(number)` sends the invocation, which is answered under that number. \throws what it
/// throws; then there is no operation.
using post_function = std::function<void(std::uint64_t)>;
/// One whose answer says that it is done. \param on which object.
std::shared_ptr<operation> begin_on_view(mobile::object_id on, const post_function& post);
/// The answer has the elements. Their writer takes its place before `post` is called.
/// \param unpack gives the answer's object, with one handle.
std::shared_ptr<operation> begin_get_of_view(mobile::object_id on, local_part into,
                                             hetero::detail::object_state* (*unpack)(std::span<const std::byte>),
                                             const post_function& post);

// The rank where the object is, within the invocation -------------------------------------------------------------------

/// The rank that has asked, and how errors name the operation.
struct view_caller {
  net::node& here;
  int rank;
  std::uint64_t reply;
  mobile::object_id object;
  std::string (*describe)(mobile::object_id); ///< "'block::ghost' of object 1:3 (block)"
};
/// Throws what is said of a function that has named no object.
[[noreturn]] void unnamed_view();
/// \throws error(invalid_argument) if a get's target differs from the view in shape.
void check_get(const view_request& r, const hetero::detail::object_state& view, const hetero::detail::box& part,
               const element_type& of);
/// Puts or accumulates, and answers when that is done. \throws what is wrong; then it answers
/// nothing.
void change_view(const view_caller& by, const view_request& r, local_part target, object_handle data);
/// Combines. \return a handle of an object that gets what was there before.
hetero::detail::object_state* fetch_from_view(const view_request& r, local_part target, object_handle data);

} // namespace tern::global::detail

namespace tern {
template <> inline constexpr bool is_bitwise<global::detail::view_request> = true;
} // namespace tern
