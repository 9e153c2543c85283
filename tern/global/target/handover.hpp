// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The elements of an arriving object, on their way into a part of one that exists. Internal.

#include <exception>
#include <memory>
#include <optional>

#include <tern/base/unique_function.hpp>
#include <tern/global/pointer/operation.hpp>
#include <tern/global/pointer/service.hpp>
#include <tern/hetero/passage/landing.hpp>
#include <tern/hetero/passage/outgoing.hpp>

namespace tern::global::detail {

/// Two hidden tasks: one writes the target, and has its place there when `begin` returns. The other
/// one reads the data, once `take` has given them. Neither waits for the other where anything else
/// would wait: data that come before the target may be written are kept aside. Memory that is the
/// data's own becomes the target's, if that is a whole object.
///
/// Guarantees: `over` is called once, with what it failed with. Threads: `begin` or
/// `begin_anywhere` by one; then `take` or `fail` once, in any context.
class handover final : public std::enable_shared_from_this<handover>,
                       hetero::detail::outgoing::listener,
                       hetero::detail::landing::listener {
public:
  /// Called in any context. Must not wait.
  using over_function = unique_function<void(std::exception_ptr)>;
  handover(local_part into, over_function over, pointer_service::weak of);

  /// In a fiber. \throws as landing::begin; then `over` is not called.
  static void begin(const std::shared_ptr<handover>& self);
  /// The same where nothing may wait.
  static void begin_anywhere(const std::shared_ptr<handover>& self);
  /// \param data the last handle of an object of as many elements; taken over.
  void take(hetero::detail::object_state* data) noexcept;
  /// There are none.
  void fail(std::exception_ptr why) noexcept { target_.fail(std::move(why)); }

private:
  void answered(hetero::detail::outgoing&) noexcept override;
  void landed(std::exception_ptr why) noexcept override;

  over_function over_;
  const pointer_service::weak of_;
  std::shared_ptr<handover> self_; ///< until the target has been written
  hetero::detail::landing target_;
  std::optional<hetero::detail::outgoing> source_;
};

} // namespace tern::global::detail
