// SPDX-License-Identifier: Apache-2.0
/// \file
/// What runs on an object in the calling fiber.
#include <tern/mobile/access/running_invocation.hpp>

#include <utility>
#include <vector>

#include <tern/base/error.hpp>
#include <tern/mobile/access/admission.hpp>
#include <tern/mobile/access/object_keep.hpp>
#include <tern/mobile/entry/entry.hpp>

namespace tern::mobile::detail {

running_invocation& running_invocation::required(const char* what) {
  if (auto* const frame = here()) return *frame;
  throw error(errc::invalid_state, std::string(what) + " was used outside an invocation of a mobile object",
              "use it in the fiber that runs the invocation");
}

std::uint64_t running_invocation::key_of(const tern::detail::work_frame& f) noexcept {
  return static_cast<const running_invocation&>(f).id().bits;
}

int running_invocation::origin_of(const tern::detail::work_frame& f) noexcept {
  return static_cast<const running_invocation&>(f).origin_;
}

// A few nanoseconds for each task but the first.
tern::detail::causal_context* running_invocation::account_of(tern::detail::work_frame& f,
                                                             tern::detail::causal_context* outer) {
  auto& self = static_cast<running_invocation&>(f);
  if (!self.keep_ || self.keep_->outer() != outer) [[unlikely]]
    self.begin_keep(outer);
  self.keep_->count();
  return self.keep_;
}

void running_invocation::end_account() noexcept {
  if (!keep_) return admission_.charge(static_cast<entry&>(entry_), {device_, 0});
  if (device_ > 0) keep_->charge(device_, 0);
  keep_->leave();
}

void running_invocation::begin_keep(tern::detail::causal_context* outer) {
  std::vector<entry*> of{static_cast<entry*>(&entry_)};
  if (together_)
    for (const claimed_object& c : static_cast<const together_frame*>(this)->all_)
      if (c.of != of.front()) of.push_back(c.of);
  auto* const fresh = new object_keep(admission_, std::move(of), outer);
  if (object_keep* const before = std::exchange(keep_, fresh)) before->leave();
}

namespace {

action access_of(const claimed_object& c) noexcept { return c.with.shared ? action::share : action::exclude; }

} // namespace

bool running_invocation::has(object_id id, action what) const noexcept {
  for (const claimed_object& c : static_cast<const together_frame*>(this)->all_)
    if (c.id == id) return !c.with.shared || what != action::share;
  return false;
}

together_frame::together_frame(admission& a, const claimed_object& main, std::span<const claimed_object> all,
                               int origin) noexcept
    : running_invocation(a, *main.of, access_of(main), origin, true), all_(all) {}

void running_invocation::release() {
  if (released_++ != 0) return;
  if (!together_) return admission_.release(static_cast<entry&>(entry_), how_);
  for (const claimed_object& c : static_cast<const together_frame*>(this)->all_)
    admission_.release(*c.of, access_of(c));
}
// Of several objects in the order of claims: so these, too, wait for each other in no circle.
void running_invocation::regain() noexcept {
  if (--released_ != 0) return;
  if (!together_) return admission_.regain(static_cast<entry&>(entry_), how_);
  for (const claimed_object& c : static_cast<const together_frame*>(this)->all_) admission_.regain(*c.of, access_of(c));
}

void running_invocation::expect_admission(object_id id, action what, const std::string& name,
                                          const std::source_location& made) {
  const auto* const frame = here();
  if (!frame || frame->is_released() || !frame->is_before(id, what)) return;
  const std::string how = frame->how() == action::share ? "a shared" : "an exclusive";
  throw error(errc::deadlock,
              tern::detail::describe_context(tern::detail::this_context()) + " runs " + how + " invocation of object " +
                  to_string(id) + " (" + frame->type().name + ") and waits for '" + name +
                  "' of the same object, which begins only when that invocation has ended",
              "call the function directly, send it and do not wait, or wait while a tern::release_access lives", made);
}

void running_invocation::check_type(const type_record& wanted) const {
  if (derives_from(type(), wanted)) return;
  throw error(errc::invalid_argument,
              "the invocation runs on object " + to_string(id()) + ", a " + type().name + ", not a " + wanted.name);
}

} // namespace tern::mobile::detail
