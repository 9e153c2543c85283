// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The table of the option `stats`: what each rank did. Internal.

namespace tern::net {

class node;

/// One rank's part of it. Main fiber.
class job_stats {
public:
  explicit job_stats(node& here) noexcept : here_(here) {}
  /// Before the program's main function.
  void begin();
  /// Collective: rank 0 prints the table, if it wants one.
  void show();
  bool wanted() const noexcept { return wanted_; }
  /// What rank 0 wants, which is what is done.
  void set_wanted(bool by_rank_0) noexcept { wanted_ = by_rank_0; }

private:
  node& here_;
  bool wanted_ = false;
  double cpu_ = 0, since_ = 0; // seconds, when main began
};

} // namespace tern::net
