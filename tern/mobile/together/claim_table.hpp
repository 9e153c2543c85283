// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The calls of one rank that wait for their objects, for reports. Internal.

#include <string>

#include <tern/net/node.hpp>
#include <tern/task/wait/waiting.hpp>

namespace tern::mobile::detail {

class together_call;

/// Thread-safe. A call is entered before it first waits.
class claim_table final : net::reported_part {
public:
  claim_table();
  ~claim_table();
  claim_table(const claim_table&) = delete;
  claim_table& operator=(const claim_table&) = delete;
  static claim_table& of(net::node& here);
  /// Null if there is none, or no longer.
  static claim_table* if_made(net::node& here) noexcept;

  void add(together_call& one) noexcept;
  void remove(together_call& one) noexcept;
  /// Of what reports see of a call: a few instructions at a time.
  tern::detail::spin_lock& lock() noexcept { return lock_; }

private:
  std::string describe() override;

  net::node& node_;
  tern::detail::spin_lock lock_;
  together_call* first_ = nullptr;
};

} // namespace tern::mobile::detail
