// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Steps that are repeated when a rank has died. Internal; programs use protect.hpp.

#include <cstdint>
#include <string>
#include <vector>

#include <tern/mobile/protect.hpp>
#include <tern/mobile/protect/copy_shelf.hpp>
#include <tern/net/node.hpp>
#include <tern/task/fiber.hpp>

namespace tern::mobile::detail {

/// Thrown by the step of each rank: all go back to the last copy, as if a rank had died. For tests
/// of that alone.
struct roll_back_request {};

/// Runs the steps of one call of `protect` on one rank. One fiber.
class protected_run {
public:
  protected_run(net::node& here, const every& interval, protected_steps& what);
  ~protected_run();
  protected_run(const protected_run&) = delete;
  protected_run& operator=(const protected_run&) = delete;

  protection run();
  /// Without copies.
  protection run_alone();

private:
  /// \return whether there is another step.
  bool go_on();
  void find_hosts();
  bool next_step();
  void take_copy();
  void send_copy(job_copy& copy);
  /// \return whether there is another step.
  bool recover();
  [[noreturn]] void give_up(const std::string& what) const;
  void go_back(const std::vector<std::int32_t>& living);

  net::node& here_;
  const every interval_;
  protected_steps& what_;
  protection done_;
  std::vector<std::int32_t> hosts_; ///< by rank
  std::int64_t copy_ = -1;          ///< that counts; below 0: none
  bool due_ = true;                 ///< a copy is, before the next step
  bool alone_ = false;              ///< no other rank is left
  bool over_ = false;               ///< another rank has gone on behind the last step
  fiber_clock::time_point last_{};  ///< copy
};

} // namespace tern::mobile::detail
