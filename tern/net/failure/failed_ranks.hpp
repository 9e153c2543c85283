// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What a rank knows of others that have failed, and the program's handlers. Internal.

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <tern/task/wait/waiting.hpp>

namespace tern {
struct rank_failure;
}

namespace tern::net {

class node;

namespace detail {

/// Thread-safe.
class failed_ranks {
public:
  using handler = std::function<void(const rank_failure&)>;
  failed_ranks();
  ~failed_ranks();
  failed_ranks(const failed_ranks&) = delete;
  failed_ranks& operator=(const failed_ranks&) = delete;

  /// In a fiber.
  void add(node& here, handler f);
  /// The transport tells of failures from now on. In a fiber. Twice does no harm.
  void listen(node& here);
  /// A rank has failed; only the first time is one. Any context.
  void tell(node& here, const rank_failure& what);
  /// Handlers that have not returned.
  int running() const noexcept { return running_.load(std::memory_order_acquire); }

  // Ranks of other hosts, which answer or do not ----------------------------------------------------------------------
  /// Asks a rank whether it is there, by a message that nothing counts.
  static void ask(node& here, int rank);
  struct answer {
    double at = -1;   ///< steady seconds; negative: none yet
    std::string from; ///< "process 812 on host vm"
  };
  void answered(int rank, double at, std::string from);
  answer last_answer(int rank) const;

private:
  void call(node& here, handler f, rank_failure what);
  mutable tern::detail::spin_lock guard_; // of what follows
  std::vector<handler> handlers_;
  std::vector<rank_failure> known_;
  std::vector<std::pair<int, answer>> answers_;
  std::atomic<int> running_{0};
  bool listens_ = false;
};

} // namespace detail
} // namespace tern::net
