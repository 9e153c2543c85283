// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What runs on an object in the calling fiber. Internal.

#include <cstdint>
#include <source_location>
#include <span>
#include <string>

#include <tern/mobile/access/claimed_object.hpp>
#include <tern/mobile/entry/entry_front.hpp>
#include <tern/task/fiber/causal_context.hpp>

namespace tern::mobile::detail {

class admission;
class object_keep;

/// On the stack of the fiber that runs an invocation.
class running_invocation : public tern::detail::work_frame {
  static int origin_of(const tern::detail::work_frame& f) noexcept;
  static tern::detail::causal_context* account_of(tern::detail::work_frame& f, tern::detail::causal_context* outer);

public:
  /// \param origin the rank that has sent it.
  running_invocation(admission& a, entry_front& e, action how, int origin) noexcept
      : work_frame(frames), admission_(a), entry_(e), how_(how), origin_(origin) {}

  ~running_invocation() {
    if (keep_ || device_ > 0) [[unlikely]]
      end_account();
  }

  object_id id() const noexcept { return entry_.id; }
  const type_record& type() const noexcept { return *entry_.type; }
  action how() const noexcept { return how_; }
  bool is_released() const noexcept { return released_ != 0; }
  /// Does an invocation that does `what` to object `id` wait for the end of this one?
  bool is_before(object_id id, action what) const noexcept {
    return (entry_.id == id && (how_ != action::share || what != action::share)) || (together_ && has(id, what));
  }
  /// Does it run on the object?
  bool is_of(object_id id) const noexcept { return entry_.id == id || (together_ && has(id, action::exclude)); }
  /// Seconds that a device has worked for it.
  void charge_device(double seconds) noexcept { device_ += seconds; }
  /// Lets others have the object. Scopes within each other release once.
  void release();
  void regain() noexcept;

  /// The calling fiber's; null: it runs none.
  static running_invocation* here() noexcept {
    return static_cast<running_invocation*>(tern::detail::work_frame::here(frames));
  }
  /// A layer above may set their key to `key_of`: what an invocation submits belongs to its object.
  inline static constinit tern::detail::frame_kind frames{.key = nullptr, .origin = &origin_of, .account = &account_of};
  static std::uint64_t key_of(const tern::detail::work_frame& f) noexcept;
  /// \throws error(invalid_state) outside an invocation, naming `what` was wanted.
  static running_invocation& required(const char* what);
  /// Does the calling fiber run an invocation that what is done to the object waits for?
  static bool is_of_own(object_id id, action what) noexcept {
    const auto* const frame = here();
    return frame && frame->is_before(id, what);
  }
  /// The calling fiber is about to wait for the end of that, which is called `name`.
  /// \throws error(deadlock) if it waits for the caller in its turn.
  static void expect_admission(object_id id, action what, const std::string& name, const std::source_location& made);
  /// \throws error(invalid_argument) if the object that it runs on is no `wanted`.
  void check_type(const type_record& wanted) const;

protected:
  /// Of a together_frame.
  running_invocation(admission& a, entry_front& e, action how, int origin, bool together) noexcept
      : work_frame(frames), admission_(a), entry_(e), how_(how), origin_(origin), together_(together) {}

private:
  bool has(object_id id, action what) const noexcept;
  void begin_keep(tern::detail::causal_context* outer);
  void end_account() noexcept;

  admission& admission_;
  entry_front& entry_; // of an `entry`
  const action how_;
  const int origin_;
  const bool together_ = false;
  int released_ = 0;
  double device_ = 0;
  object_keep* keep_ = nullptr; ///< of what it has submitted; null: nothing yet
};

/// The same for a function over several objects. It is an invocation of the main one.
class together_frame final : public running_invocation {
public:
  /// \param all claimed and here, in the order of their ids; outlive this. \param origin the rank
  /// that has called it.
  together_frame(admission& a, const claimed_object& main, std::span<const claimed_object> all, int origin) noexcept;

private:
  friend class running_invocation;
  const std::span<const claimed_object> all_;
};

} // namespace tern::mobile::detail
