// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What a layer above contributes to a rank's reports. Internal.

#include <string>

#include <tern/net/rank/stats_table.hpp>

namespace tern::net {

/// What a layer above has to say in a rank's reports and in the job's statistics.
class reported_part {
public:
  /// Lines that begin with two blanks, each with its end; empty if there is nothing to say. Called
  /// by the reporter's thread, and when a rank has crashed: it must not wait long for a lock.
  virtual std::string describe() = 0;
  /// For the option `stats`; sums over all ranks are shown. Called in the main fiber when the job
  /// has closed.
  virtual stats_table statistics() { return {}; }

protected:
  ~reported_part() = default;
};

} // namespace tern::net
