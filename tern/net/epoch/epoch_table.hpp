// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// How it is known that all that an epoch caused has ended. Internal; users see epoch.hpp.
///
/// Credit (Mattern, "Global quiescence detection based on credit distribution and recovery", 1989),
/// with banks that stand in a tree. Each rank has an account of each epoch that it works for. An
/// account counts what goes on here (`holds`), and has units of credit that came with messages,
/// each of some rank, its bank. A message of the epoch takes half of the units of one bank along; a
/// rank that has none to halve makes new ones and is their bank. When nothing goes on here any more
/// the units go back to their banks, in one message for each.
///
/// What an account keeps longer: the units of the bank from which it had its first ones, as long as
/// not all of its own have come back. So banks form a tree, as ranks do in Dijkstra and Scholten,
/// "Termination detection for diffusing computations" (1980), whose root is the epoch's own rank,
/// the origin: a bank stays as long as any unit of it is somewhere else, and its parent stays as
/// long as it does.
///
/// Never early: a message on its way has units of some bank, and so has every account on which
/// something goes on but the origin's. So while anything goes on anywhere, some bank misses units;
/// it is the origin, or has units of its parent, which misses those; and so on up to the origin.
/// Never late for ever: when nothing goes on, each account has sent back all units but those of its
/// parent; so the leaves of the tree have all their own back, go, and the next are leaves. A unit
/// is back after one message, or after one for each level of banks: there is more than the origin
/// only where a chain of messages halved a credit 63 times, or where a rank answered one message
/// with more than 62.

#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <source_location>
#include <string>
#include <unordered_map>
#include <vector>

#include <tern/net/handler.hpp>
#include <tern/net/message/epoch_messages.hpp>
#include <tern/task/fiber/causal_context.hpp>
#include <tern/task/future.hpp>
#include <tern/task/wait/waiting.hpp>

namespace tern::net {

class node;

namespace detail {

__extension__ typedef unsigned __int128 credit_units; // NOLINT(modernize-use-using): g++ -Wpedantic allows this only

/// At the end of the head of a message that belongs to an epoch.
struct epoch_mark {
  std::uint64_t epoch = 0; ///< the origin's rank << 40 | its number there
  std::uint64_t units = 0;
  std::uint32_t bank = 0; ///< a rank
  std::uint32_t unused = 0;
};
static_assert(sizeof(epoch_mark) == epoch_messages::mark_bytes && std::is_trivially_copyable_v<epoch_mark>);

class epoch_table;

/// What a rank does for an epoch.
class epoch_account final : public tern::detail::causal_context {
public:
  epoch_account(epoch_table& table, std::uint64_t number) noexcept : table_(&table), number_(number) {}
  void retain() noexcept override { holds_.fetch_add(1, std::memory_order_relaxed); } // the caller is counted already
  void release() noexcept override;
  /// For a caller that is not counted. \return whether something goes on here.
  bool hold_unless_over() noexcept;
  std::uint64_t number() const noexcept { return number_; }
  node* here() const noexcept; ///< null once the rank has gone

  // The origin's, set before it is known elsewhere.
  std::string name;
  std::source_location made{};
  tern::detail::held_context outer; ///< the account of the epoch that this one was made in
  std::atomic<bool> open{true};     ///< held for the fiber that made it

private:
  friend class epoch_table;
  struct deposit {
    int bank;
    credit_units units;
  };
  std::atomic<epoch_table*> table_;     // null once the rank has gone
  std::shared_ptr<epoch_account> self_; // from then on
  const std::uint64_t number_;
  std::atomic<std::int64_t> holds_{0};
  // Under the table's guard.
  std::vector<deposit> deposits_;       // the first one is the parent's
  credit_units issued_ = 0;             // own units that have not come back
  std::unique_ptr<promise<void>> over_; // the origin's
};

/// The accounts of a rank, and the messages that belong to them. Each such message counts twice for
/// `quiesce`: it is handled, and its account is settled, which may send a message in turn.
/// Thread-safe but for what epoch_messages says.
class epoch_table final : public epoch_messages {
public:
  /// \param simulated so few units are made at a time that there are many banks.
  epoch_table(node& here, bool simulated) noexcept;
  /// Accounts that something still holds live on by themselves.
  ~epoch_table();
  epoch_table(const epoch_table&) = delete;
  epoch_table& operator=(const epoch_table&) = delete;

  /// A new epoch, of which this rank is the origin. It is held once. \return it and a future that
  /// is ready when it is over.
  /// \throws error(invalid_state) when the job has ended.
  std::pair<std::shared_ptr<epoch_account>, shared_future<void>> open(std::string name,
                                                                      const std::source_location& made);
  /// For a message that is about to be sent. \pre the caller is counted in `on`.
  epoch_mark depart(epoch_account& on);
  /// It was not sent after all.
  void stay(epoch_account& on, const epoch_mark& mark);
  /// A message has arrived. \return its account, held. \throws error(invalid_data).
  tern::detail::held_context arrive(int source, const epoch_mark& mark);
  /// Units come home. \throws error(invalid_data).
  void take_back(int source, std::uint64_t epoch, credit_units units);

  // epoch_messages
  void send(tern::detail::causal_context& on, int destination, std::span<const std::byte> head, byte_buffer& body,
            std::size_t bytes, posting how) override;
  tern::detail::held_context arrive(int source, wire_header& h, byte_buffer& head) override;
  void delivered(tern::detail::held_context on) noexcept override;
  void settle() noexcept override;

  void end() noexcept override { ended_.store(true, std::memory_order_release); }
  /// All epochs are over, with this error: what still belongs to one sends no more. Where messages
  /// arrive.
  void abandon(const std::exception_ptr& why);
  /// For reports, a line each. \pre `guard` is held.
  std::string describe() const;
  tern::detail::spin_lock& guard() noexcept { return guard_; }

  node& here() const noexcept { return here_; }

private:
  friend class epoch_account;
  struct ending; // what is to be done when the guard has been given back
  void settle(std::uint64_t number) noexcept;
  void cut_off(const std::shared_ptr<epoch_account>& a) noexcept;
  void settle_late() noexcept;
  void look_at(epoch_account& a, ending& then);
  void conclude(ending& then) noexcept;

  node& here_;
  const std::uint64_t new_units_; // that a bank makes for a message
  tern::detail::spin_lock guard_;
  std::unordered_map<std::uint64_t, std::shared_ptr<epoch_account>> accounts_;
  std::uint64_t given_ = 0;
  std::vector<std::uint64_t> late_numbers_; // that `late_` tells of; under the guard
  std::atomic<bool> ended_{false};
  // Of messages that have been handled since the rank last polled, so that many of one epoch are
  // settled together; the polling context's.
  std::vector<tern::detail::held_context> handled_;
};

inline node* epoch_account::here() const noexcept {
  const epoch_table* const t = table_.load(std::memory_order_relaxed);
  return t ? &t->here() : nullptr;
}

} // namespace detail
} // namespace tern::net
