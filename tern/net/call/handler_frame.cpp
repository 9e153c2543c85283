// SPDX-License-Identifier: Apache-2.0
/// \file
/// Which rank has sent what runs in the calling fiber.
#include <tern/net/call/handler_frame.hpp>

#include <tern/base/error.hpp>
#include <tern/net/message.hpp>

namespace tern {

int caller() {
  if (const auto rank = detail::work_frame::origin_here()) return *rank;
  throw error(errc::invalid_state, "tern::caller() was used outside a handler and outside an invocation",
              "ask in the fiber that runs the handler, and pass the rank to fibers and tasks that it starts");
}

} // namespace tern
