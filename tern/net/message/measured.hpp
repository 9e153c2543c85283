// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// How handler_runner measures handlers: a template that two source files use. Internal.

#include <algorithm>
#include <cstdint>
#include <utility>

#include <tern/net/message/run_handler.hpp>
#include <tern/task/polling/polling_fiber.hpp>
#include <tern/task/scheduler/scheduler_core.hpp>

namespace tern::net {

template <class F> inline void handler_runner::measured(const wire_header& header, F&& body) {
  if (single_worker_ || (tern::detail::polling_fiber::may_continue() && ++since_measured_ % 16 != 0)) return body();
  const std::int64_t begun = tern::detail::ticks();
  body();
  auto& cost = handler_costs_[header.handler];
  const std::int64_t took = std::clamp<std::int64_t>(tern::detail::ticks() - begun, 1, 1 << 30);
  const std::int64_t before = cost.load(std::memory_order_relaxed);
  cost.store(static_cast<std::uint32_t>(before == 0 ? took : (3 * before + took + 3) / 4), std::memory_order_relaxed);
}

} // namespace tern::net
