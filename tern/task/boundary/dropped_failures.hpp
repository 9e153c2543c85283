// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What a scheduler reports at its end of futures that were dropped.

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <tern/task/wait/wait_list.hpp>

namespace tern::detail {

/// Exceptions in futures that were dropped before they were retrieved. Any thread.
class dropped_failures {
public:
  static constexpr std::size_t most_kept = 3; ///< texts
  void note(std::string text) {
    const std::lock_guard hold(lock_);
    ++count_;
    if (first_.size() < most_kept) first_.push_back(std::move(text));
  }
  /// A sentence with the first of them; empty if there were none.
  std::string text();

private:
  spin_lock lock_;
  std::uint64_t count_ = 0;
  std::vector<std::string> first_;
};

} // namespace tern::detail
