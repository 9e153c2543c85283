// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The communicators of a rank, as what arrives finds them. Internal.

#include <atomic>
#include <cstdint>
#include <forward_list>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <tern/base/error.hpp>
#include <tern/net/collective/collective.hpp>
#include <tern/net/handler.hpp>
#include <tern/task/wait/waiting.hpp>

namespace tern::net::detail {

/// All contexts of a rank, by number.
class collective_table {
public:
  /// Its holders own it together. \throws error(internal) if the number is taken.
  std::shared_ptr<collective_context> make(node& here, std::uint64_t number, std::string name, std::vector<int> ranks,
                                           int place);
  /// One has gone.
  void remove(std::uint64_t number) noexcept;
  /// Makes the context of all ranks, or of the survivors, which has the number 0.
  void make_everyone(node& here, std::vector<int> ranks = {});
  /// All contexts fail with it, and no part that has come is for those that are made from now on.
  void abandon(const error& why);
  /// The context of all ranks. \pre make_everyone.
  const std::shared_ptr<collective_context>& everyone() const noexcept {
    return *everyone_.load(std::memory_order_acquire); // what it was made with is visible
  }
  /// A part has arrived; it is kept if its context is not known yet. \throws error(invalid_data).
  void take(int source, payload message);
  /// Rank `source` has waited long for a part, and enquires. \throws error(invalid_data).
  void answer(int source, const byte_buffer& message);
  /// For the numbers of new communicators: each is given out once.
  std::uint64_t next_number(int rank) noexcept {
    return std::uint64_t{static_cast<std::uint32_t>(rank) + 1} << 32 | given_.fetch_add(1, std::memory_order_relaxed);
  }
  /// Messages sent and received, and fibers entered, for enquiries alone. A watchdog does not count
  /// them as progress.
  std::uint64_t enquiries() const noexcept { return enquiries_.load(std::memory_order_relaxed); }
  void count_enquiry(std::uint64_t n) noexcept { enquiries_.fetch_add(n, std::memory_order_relaxed); }
  /// Which rank has sent what to communicators that this rank has not; empty if none has.
  std::string strangers();
  /// For reports. \pre `guard` is held.
  std::vector<std::shared_ptr<collective_context>> list() const;
  tern::detail::spin_lock& guard() noexcept { return guard_; }

private:
  tern::detail::spin_lock guard_;
  std::unordered_map<std::uint64_t, std::weak_ptr<collective_context>> contexts_;
  std::unordered_map<std::uint64_t, std::vector<std::pair<int, collective_part>>> unknown_;
  std::unordered_map<std::uint64_t, std::vector<std::pair<int, part_header>>> unknown_asked_;
  std::atomic<std::uint32_t> given_{0};
  std::atomic<std::uint64_t> enquiries_{0};
  std::atomic<const std::shared_ptr<collective_context>*> everyone_{nullptr};
  std::forward_list<std::shared_ptr<collective_context>> worlds_; // of each generation; last: they leave the table
};

} // namespace tern::net::detail
