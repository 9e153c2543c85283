// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What the calling fiber's handler knows of its message. Internal.

#include <tern/task/fiber/causal_context.hpp>

namespace tern::net::detail {

/// On the stack of the fiber that runs a handler, or several of one sender one after the other.
class handler_frame final : public tern::detail::work_frame {
public:
  explicit handler_frame(int sender) noexcept : work_frame(frames), sender_(sender) {}

private:
  static int sender_of(const tern::detail::work_frame& f) noexcept {
    return static_cast<const handler_frame&>(f).sender_;
  }
  inline static constinit tern::detail::frame_kind frames{.key = nullptr, .origin = &sender_of};
  const int sender_;
};

} // namespace tern::net::detail
