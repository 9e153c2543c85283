// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// A rank's part in operations on global pointers: as the initiator, and as the owner. Internal.

#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include <tern/global/pointer.hpp>
#include <tern/global/pointer/announcement.hpp>
#include <tern/global/pointer/export_table.hpp>
#include <tern/global/pointer/operation_table.hpp>
#include <tern/net/node.hpp>
#include <tern/task/wait/waiting.hpp>

namespace tern::global::detail {

/// A rank has one. Threads: any of the rank; it waits for nothing.
class pointer_service {
public:
  pointer_service();
  ~pointer_service() { self_->store(nullptr, std::memory_order_release); }
  pointer_service(const pointer_service&) = delete;
  pointer_service& operator=(const pointer_service&) = delete;
  /// For what ends with a task: that may be told when the rank's scheduler, and this, have gone.
  /// Then `of` is null.
  using weak = std::shared_ptr<const std::atomic<pointer_service*>>;
  static pointer_service* of(const weak& self) noexcept;
  weak weak_self() const noexcept { return self_; }
  static pointer_service& here();
  static pointer_service& of(net::node& rank);
  static pointer_service* if_made(net::node& rank) noexcept;

  export_table& exports() noexcept { return exports_; }
  operation_table& operations() noexcept { return operations_; }

  // The initiator -----------------------------------------------------------------------------------------------------
  /// Announces one. \param a but for `operation`. \param prepare called with it and its number
  /// before it is sent. \throws as `send`; then it never was.
  std::shared_ptr<operation> announce(announcement a, const std::function<void(announcement&, std::uint64_t)>& prepare);

  // The owner ---------------------------------------------------------------------------------------------------------
  /// An operation that brings data is over. \param why null: it went well.
  void served(int source, std::uint64_t operation, const net::wire_header& h, const std::exception_ptr& why) noexcept;

  // What arrives. Polling context -------------------------------------------------------------------------------------
  void take_announcement(net::node& here, int source, const net::wire_header& h, net::payload& message);
  void take_answers(net::node& here, int source, const net::wire_header& h, net::payload& message);

  /// An operation on a view of a mobile object begins here, and ends.
  void count_begun() noexcept { serving_.fetch_add(1, std::memory_order_relaxed); }
  void count_over() noexcept {
    served_.fetch_add(1, std::memory_order_relaxed);
    serving_.fetch_sub(1, std::memory_order_relaxed);
  }
  void count_aside() noexcept { aside_.fetch_add(1, std::memory_order_relaxed); }
  void count_adopted() noexcept { adopted_.fetch_add(1, std::memory_order_relaxed); }
  pointer_counts counts() noexcept;

private:
  struct answer {
    std::uint64_t operation;
    net::wire_header header;
    std::exception_ptr why;
  };
  struct answer_queue {
    std::vector<answer> waiting;
    bool leaves = false; ///< a fiber is about to send them
  };
  /// The operation takes its place. The message `h` is done when it is over. \param may_wait in a
  /// fiber; else in the polling context.
  void serve(net::node& here, int source, const net::wire_header& h, const announcement& a, bool may_wait) noexcept;
  void put(int source, const net::wire_header& h, const announcement& a, hetero::detail::object_state* target);
  void get(net::node& here, int source, const net::wire_header& h, const announcement& a,
           hetero::detail::object_state* target);
  void combine(net::node& here, int source, const net::wire_header& h, const announcement& a,
               hetero::detail::object_state* target);
  void refuse(net::node& here, int source, const net::wire_header& h, const announcement& a,
              const std::exception_ptr& why);
  void send_answers(int to) noexcept;

  const std::shared_ptr<std::atomic<pointer_service*>> self_ = std::make_shared<std::atomic<pointer_service*>>(this);
  net::node& node_;
  export_table exports_;
  operation_table operations_;
  tern::detail::spin_lock guard_;
  std::map<int, answer_queue> answers_;
  std::atomic<std::uint64_t> served_{0}, serving_{0}, aside_{0}, adopted_{0}, answers_sent_{0};
};

/// How elements of a type are combined; null: it is none of those that can be. \param element a
/// hash of the type and the dimensions.
using combine_elements = void (*)(std::byte* into, const std::byte* from, std::int64_t n);
combine_elements combine_for(std::uint64_t element, std::uint32_t how) noexcept;

} // namespace tern::global::detail
