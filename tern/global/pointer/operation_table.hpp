// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What a rank has announced to others and not heard the end of, and its fences. Internal.

#include <atomic>
#include <cstdint>
#include <deque>
#include <exception>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <tern/global/pointer/operation.hpp>
#include <tern/net/call/id_table.hpp>
#include <tern/task/future.hpp>
#include <tern/task/wait/waiting.hpp>

namespace tern::global::detail {

/// Operations by number, and by *groups*: all that was announced to a rank between two fences. A
/// fence is over when its group is, and all before it.
///
/// Threads: any; nothing waits.
class operation_table {
public:
  /// In place of the owner's rank, where that may change: of a target that moves.
  static constexpr int anywhere = -1;

  operation_table() = default;
  /// Logs failures that the program has not asked about.
  ~operation_table();
  operation_table(const operation_table&) = delete;
  operation_table& operator=(const operation_table&) = delete;

  /// Of what is to be announced to `owner`.
  std::pair<std::uint64_t, std::shared_ptr<operation>> begin(int owner);
  /// It is over. \param why null: it went well. \return false if there is none of that number and
  /// owner.
  bool end(std::uint64_t number, int owner, const std::exception_ptr& why) noexcept;
  /// The call that began it has thrown: it never was.
  void forget(std::uint64_t number, int owner) noexcept;
  future<void> fence(int rank);
  future<void> fence();
  /// All end with `why`, also for the fences that wait now.
  void abandon(const std::exception_ptr& why) noexcept;

  std::uint64_t announced() const noexcept { return announced_.load(std::memory_order_relaxed); }
  std::uint64_t finished() const noexcept { return finished_.load(std::memory_order_relaxed); }
  std::uint64_t failed() const noexcept { return failed_.load(std::memory_order_relaxed); }

private:
  class fence_wait;
  struct entry {
    std::shared_ptr<operation> of;
    int owner = -1;
    std::uint64_t group = 0;
  };
  struct group {
    std::uint64_t left = 0;
    std::vector<std::shared_ptr<fence_wait>> waiters;
  };
  struct failure {
    std::shared_ptr<operation> of;
    std::uint64_t group = 0;
    std::exception_ptr why;
  };
  /// To one rank.
  struct line {
    std::deque<group> groups; ///< the last one is open
    std::uint64_t first = 0;  ///< the number of the first one
    std::vector<failure> unseen;
  };
  using finished_fences = std::vector<std::pair<std::shared_ptr<fence_wait>, std::exception_ptr>>;

  static void finish(finished_fences over) noexcept;
  static std::exception_ptr take_unseen(line& l, std::uint64_t up_to) noexcept;
  void leave(line& l, std::uint64_t of, finished_fences& over);
  void join(line& l, const std::shared_ptr<fence_wait>& w, finished_fences& over);
  entry take(std::uint64_t number, int owner) noexcept;

  tern::detail::spin_lock guard_;
  net::detail::id_table<entry> entries_;
  std::map<int, line> lines_;
  std::atomic<std::uint64_t> announced_{0}, finished_{0}, failed_{0};
};

} // namespace tern::global::detail
