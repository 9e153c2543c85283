// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Writes a report when no rank of this process has made progress for so long as the option
/// `watchdog` says. Internal.

#include <cstddef>
#include <cstdint>

#include <tern/base/options.hpp>
#include <tern/net/report/reporter.hpp>
#include <tern/task/report/fiber_report.hpp>

namespace tern::net {

/// Used by the reporter's thread alone.
class watchdog final : public watch {
public:
  explicit watchdog(const options& opts);
  bool wants_reports() const noexcept override { return limit_ > 0; }
  /// Seconds from one look to the next; 0: it does not look.
  double every() const noexcept override { return tick_; }
  void look_if_due() override;

private:
  const double limit_, tick_;
  const bool abort_;
  tern::detail::busy_watch busy_;
  std::uint64_t progress_ = 0;
  std::size_t ranks_ = 0;
  double watched_, last_look_, still_since_;
  bool told_ = false;
};

} // namespace tern::net
