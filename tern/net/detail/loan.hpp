// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Memory that is lent to messages by whoever waits until it has come back. Internal.

#include <cstddef>

#include <tern/base/bytes.hpp>
#include <tern/task/semaphore.hpp>

namespace tern::net::detail {

/// Lends memory, and knows when it comes back.
class loan final : public byte_lender {
public:
  void take_back(std::byte*) noexcept override { returned_.release(1); }
  bool read_only() const noexcept override { return true; }
  void wait() noexcept { returned_.acquire(); } ///< for one that has been lent

private:
  semaphore returned_{0};
};

} // namespace tern::net::detail
