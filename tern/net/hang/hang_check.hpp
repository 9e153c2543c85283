// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Notices that no rank of this process can ever go on. Internal.
///
/// It asks for no time that has passed but for a state: all workers of all ranks sleep, no fiber or
/// tasklet is ready, no message is under way, no timer is set, no device is at work, and no other
/// thread could bring anything. Schedulers are held (`worker_parking::freeze`) while that is looked
/// at, so all of it is true at one moment; and nothing in it can change by itself. Only where the
/// counts of progress have stood still before is any worker held.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <tern/base/options.hpp>
#include <tern/net/report/reporter.hpp>

namespace tern::net {

class node;

/// What the options `hang` and `hang-notice` say. Used by the reporter's thread alone.
class standstill_watch final : public watch {
public:
  explicit standstill_watch(const options& opts);
  /// Seconds from one look to the next; 0: it does not look.
  double every() const noexcept override { return off_ ? 0 : tick; }
  /// Ends the job, or says that it stands still, if it does.
  void look_if_due() override;
  /// The job is about to end by signal `number`. \return what its fibers wait for, in at most 20
  /// lines, if nothing goes on.
  std::string before_end(int number, bool by_launcher) override;

private:
  static constexpr double tick = 1;

  void look(const std::vector<node*>& ranks, double now);
  void look_at_process(node& here, double now);
  void found(const std::vector<node*>& ranks);
  void say(double seconds, const std::string& who, const std::string& doubt);

  const bool off_, ends_;
  const double notice_; // seconds
  double last_look_, still_since_;
  std::uint64_t progress_ = 0;
  std::size_t ranks_ = 0;
  bool told_ = false; // of this standstill
  bool said_ = false; // once in a job, where it is not known whether it is one
};

} // namespace tern::net
