// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What collective operations are made of: a context for each communicator, in which the ranks'
/// parts of an operation find each other. Internal.
///
/// A part names its context, the number of the operation there, what operation it is, and its
/// sender's place in the communicator. Parts of one sender arrive in the order in which they were
/// sent, and all ranks of a context do its operations in one order; so a fiber that waits for a
/// part takes the first one of that sender, and if it belongs to another operation, the ranks
/// disagree, which is said at once with both names. They may also disagree in such a way that each
/// waits for another and none has sent anything; so a rank that has waited for long asks, once, and
/// is sent a part of what that rank does instead, if or as soon as that is something else. Contexts
/// have numbers that no two communicators of a job share: `communicator::split` has them given out
/// by the members' ranks, and names are hashed.

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <source_location>
#include <span>
#include <string>
#include <vector>

#include <tern/base/bytes.hpp>
#include <tern/base/error.hpp>
#include <tern/net/handler.hpp>
#include <tern/net/memory/lent_buffer.hpp>
#include <tern/task/wait/waiting.hpp>

namespace tern::net {

class node;

namespace detail {

/// Which operation, on which types. Static objects: ranks of one program know each other's.
class collective_kind {
public:
  /// \param detects it looks for quiescence, so it does not count itself.
  explicit collective_kind(std::string text, bool detects = false);
  collective_kind(const collective_kind&) = delete;
  collective_kind& operator=(const collective_kind&) = delete;
  const std::string& text() const noexcept { return text_; } ///< "allreduce<int, std::plus<void>>"
  std::uint64_t number() const noexcept { return number_; }
  bool detects() const noexcept { return detects_; }
  /// Any thread. \return "an operation on types that are not known here" if there is none of that
  /// number.
  static std::string text_of(std::uint64_t number);

private:
  std::string text_;
  std::uint64_t number_;
  bool detects_;
  const collective_kind* next_;
};

/// An operation, as ranks compare it.
struct collective_name {
  std::uint64_t kind = 0;
  std::int32_t root = -1; ///< none
  bool operator==(const collective_name&) const = default;
  std::string text() const; ///< "broadcast<int>(root 1)"
};

/// In front of a part.
struct part_header {
  wire_header message;
  std::uint64_t context = 0, operation = 0, kind = 0;
  std::int32_t root = -1;
  std::uint32_t from = 0; ///< place in the communicator
  collective_name name() const noexcept { return {kind, root}; }
};
inline constexpr std::size_t part_prefix = 48, small_part = 512; ///< bytes; and of a value that may lie on the stack
inline constexpr std::size_t near_part = 64; ///< bytes of a value that needs no memory where it waits
static_assert(sizeof(part_header) == part_prefix && std::is_trivially_copyable_v<part_header>);

/// One that has arrived.
struct collective_part {
  part_header header;
  std::uint8_t near_size = 0; ///< of a value that is not empty: whether it is here
  alignas(8) std::array<std::byte, near_part> near{};
  byte_buffer bytes; ///< all of the message, if it is larger, but
  byte_buffer body;  ///< a large array, if it is one
  std::span<const std::byte> value() const noexcept {
    if (bytes.empty()) return std::span<const std::byte>(near).first(near_size);
    return std::span<const std::byte>(bytes.data(), bytes.size()).subspan(part_prefix);
  }
  std::span<const std::byte> elements() const noexcept { return body.empty() ? value() : body.bytes(); } ///< an array's
};

/// Those that wait to be asked for, in the order of arrival. Mostly there is one at most.
class part_mail {
public:
  bool empty() const noexcept { return !has_first_ && (!rest_ || rest_->empty()); }
  void push(collective_part&& part);
  const collective_part& front() const noexcept { return has_first_ ? first_ : rest_->front(); }
  /// The oldest of a sender. \return false if there is none.
  bool take(std::uint32_t from, collective_part& into);
  template <class F> void for_each(F&& look) const {
    if (has_first_) look(first_);
    if (rest_)
      for (const collective_part& p : *rest_) look(p);
  }

private:
  collective_part first_; // older than the rest
  bool has_first_ = false;
  std::unique_ptr<std::deque<collective_part>> rest_; // an empty deque would take half a KiB on each rank
};

/// A communicator on one of its ranks.
class collective_context {
public:
  /// \param ranks of the job, by place; empty: all of them.
  collective_context(node& here, std::uint64_t number, std::string name, std::vector<int> ranks, int place);
  /// Says if anything has arrived that was not asked for.
  ~collective_context();
  collective_context(const collective_context&) = delete;
  collective_context& operator=(const collective_context&) = delete;

  node& here() const noexcept { return here_; }
  std::uint64_t number() const noexcept { return number_; }
  int place() const noexcept { return place_; }
  int size() const noexcept { return size_; }
  int rank_of(int place) const noexcept { return ranks_.empty() ? place : ranks_[static_cast<std::size_t>(place)]; }
  const std::vector<int>& ranks() const noexcept { return ranks_; } ///< empty: all
  const std::string& name() const noexcept { return name_; }        ///< empty: the world

  /// A part has arrived. Where messages arrive. \return what is wrong with it, if anything.
  std::string take(collective_part&& part, int source);
  /// `source` waits for our part of an operation, and says how it looks there: if ours is another,
  /// or will be, it is told. Where messages arrive.
  void answer(const part_header& theirs, int source);
  /// The last operation has been begun: parts of earlier ones are a disagreement, which is thrown.
  void end();
  /// Its operations fail with it, those that wait now too. Where messages arrive.
  void abandon(const error& why);
  /// \throws what it was abandoned with. \pre `guard` is held.
  void check_kept() const {
    if (given_up_) [[unlikely]]
      throw error(*given_up_);
  }
  /// For reports, which must not wait for ever. \pre `guard` is held.
  std::string describe() const;
  /// Which operation waits here for that rank of the job; empty: none. \pre `guard` is held.
  std::string waits_for(int rank) const;
  /// Has anything arrived that no operation asked for? \return which rank sent what; empty if not.
  std::string left_over();

  /// Communicators by name that are made of this one; under the lock.
  std::map<std::string, std::shared_ptr<collective_context>, std::less<>> named;
  tern::detail::spin_lock& guard() noexcept { return guard_; }

private:
  friend class collective_call;
  std::string operation_text(std::uint64_t operation) const; // under the guard
  void check_left(std::uint64_t before);                     // under the guard; throws
  error disagreement(std::uint64_t operation, const std::string& mine, int other, const std::string& theirs) const;
  void contradict(const part_header& theirs); // outside the guard

  node& here_;
  const std::uint64_t number_;
  const std::string name_;
  const std::vector<int> ranks_;
  const int place_, size_;

  tern::detail::spin_lock guard_; // of what follows
  part_mail mail_;
  std::atomic<std::uint64_t> arrivals_{0}; // ever; changes under the guard
  tern::detail::waiter_list waiting_;      // one at most
  int waits_for_ = -1;                     // its place
  std::uint64_t begun_ = 0;
  struct begun {
    collective_name name;
    std::source_location where;
  };
  static constexpr std::size_t names_kept = 16;
  const begun* recent(std::uint64_t operation) const noexcept; // under the guard; null if it is long past or to come
  std::array<begun, names_kept> names_;                        // of the last few, by number
  std::vector<part_header> asked_;                             // about operations that have not begun
  std::atomic<bool> busy_{false};
  std::optional<error> given_up_;
};

/// One operation on one rank, from its constructor to its destructor.
class collective_call {
public:
  static constexpr int no_root = std::numeric_limits<int>::min();
  /// \throws error(invalid_argument) for a root that is no place; error(invalid_state) if another
  /// fiber of this rank is in an operation of this context, or if other ranks have done something
  /// else before.
  collective_call(collective_context& c, const collective_kind& kind, int root, const std::source_location& where);
  ~collective_call();
  collective_call(const collective_call&) = delete;
  collective_call& operator=(const collective_call&) = delete;

  int place() const noexcept { return context_.place(); }
  int size() const noexcept { return context_.size(); }
  /// For messages too large for the stack.
  byte_buffer memory(std::size_t bytes);
  /// Sends a value's bytes, which may be changed at once.
  void send(int to, std::span<const std::byte> bytes);
  /// Sends `part_prefix` bytes that are to be filled and the value behind them.
  void send(int to, byte_buffer message);
  /// Sends an array's elements from where they are. They must stay as they are until `settle`.
  void lend(int to, std::span<const std::byte> elements);
  /// Sends an array itself.
  void give(int to, byte_buffer elements);
  /// Waits until nothing is lent any more. So does the end.
  void settle() noexcept;
  /// Waits for the part of `from`. \throws error(invalid_state) if that rank does another
  /// operation.
  collective_part receive(int from);

private:
  part_header header() const noexcept;
  void enquire(int from);
  collective_context& context_;
  const collective_name name_;
  const bool detects_;
  std::uint64_t operation_ = 0;
  std::optional<loan> lent_;
  int loans_ = 0;
};

} // namespace detail
} // namespace tern::net
