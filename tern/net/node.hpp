// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// One rank of a job: what programs' functions (runtime.hpp, message.hpp, collectives.hpp) and the
/// layers above are made of.
///
/// A node is a facade. How messages leave, run and arrive is in its base classes, one of each
/// room's files in `message/`; calls, collective operations, epochs and failures are in rooms of
/// their own, which a node names and does not know. A rank's life, from its start to its end, is
/// `job/rank_life.hpp`.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include <tern/base/options.hpp>
#include <tern/net/message/node_receive.hpp>
#include <tern/net/rank/reported_part.hpp>
#include <tern/task/future.hpp>
#include <tern/task/sim.hpp>
#include <tern/task/sync.hpp>

namespace tern::net {

namespace detail {
class collective_table;
class epoch_table;
class failed_ranks;
class pending_calls;
class survivors;
void reply_error(node& here, int to, std::uint64_t reply, std::exception_ptr e, const std::string& context);
} // namespace detail

/// What a layer above does at the beginning and at the end of each rank. Static objects only,
/// entered before `main`.
class rank_stage {
public:
  using function = void (*)(node& here);
  /// \param begins in the main fiber, before the program's main function. \param ends in the main
  /// fiber too, when no message is in flight any more and only collective operations can send.
  /// Null: nothing.
  rank_stage(function begins, function ends);
  rank_stage(const rank_stage&) = delete;
  rank_stage& operator=(const rank_stage&) = delete;

  static void begin_all(node& here);
  static void end_all(node& here);

private:
  const function begins_, ends_;
  rank_stage* const next_;
};

/// How a rank's job ends early.
class job_end {
public:
  /// As node::fatal.
  virtual void fatal(const std::string& what, int code) noexcept = 0; ///< does not return
  /// As node::end_from_outside.
  virtual void end_from_outside(const std::string& what, int code, bool by_parent) noexcept = 0;

protected:
  ~job_end() = default;
};

/// The parts of a rank that stand above its node. All outlive it, or are destroyed right before it.
struct node_parts {
  detail::pending_calls* calls = nullptr;
  detail::collective_table* collectives = nullptr;
  detail::epoch_table* epochs = nullptr;
  detail::failed_ranks* failures = nullptr;
  detail::survivors* left = nullptr;
  job_end* ends = nullptr;
};

struct node_settings {
  const options* opts = nullptr; ///< outlive the node
  rank_settings rank;
  send_settings send;
  receive_settings receive;
  bool stops_at_unhandled = true; ///< an exception out of a handler that was sent ends the job
};

/// One rank: everything that the layers above and the other rooms of `net` ask of it. Requires:
/// `attach` (node_send) of its epochs before the first message. Guarantees: it lives until the job
/// has ended on this rank. Threads: any, unless a member says otherwise.
class node final : public node_receive {
public:
  node(node_settings s, const node_parts& parts);
  ~node() override;

  /// The rank that the calling thread works for. \throws error(invalid_state) on a thread that is
  /// no worker of a rank.
  static node& here() {
    if (void* const n = tern::detail::this_worker_head()->context) [[likely]]
      return *static_cast<node*>(static_cast<rank_base*>(n));
    return here_apart();
  }
  /// Or null.
  static node* current() noexcept { return static_cast<node*>(rank_base::current()); }

  const options& opts() const noexcept { return *opts_; }
  /// Of the simulation; else the same always.
  std::uint64_t seed() const noexcept { return world_ ? world_->seed() : 0; }
  sim::simulation* world() const noexcept { return world_; }

  // Ends --------------------------------------------------------------------------------------------------------------

  /// As `fatal`, on the reporter's thread, for something that asked for it from outside: "SIGTERM
  /// (Terminated)". Returns, after a report if there shall be one, if it was the launcher: that
  /// ends all ranks, and says why.
  void end_from_outside(const std::string& what, int code, bool by_parent) noexcept {
    parts_.ends->end_from_outside(what, code, by_parent);
  }
  /// Has the job come to its end, so that only collective operations can send?
  bool has_closed() const noexcept { return shutdown_.is_closed(); }
  /// Are its `local`s being destroyed? They must not be asked for by destructors that could do
  /// without.
  bool is_over() const noexcept { return over_.load(std::memory_order_relaxed); }

  // Rooms above -------------------------------------------------------------------------------------------------------

  detail::pending_calls& calls() noexcept { return *parts_.calls; }
  detail::collective_table& collectives() noexcept { return *parts_.collectives; }
  detail::epoch_table& epochs() noexcept { return *parts_.epochs; }
  detail::failed_ranks& failures() noexcept { return *parts_.failures; }
  detail::survivors& survivors() noexcept { return *parts_.left; }
  /// Sends `e` back to a caller; `context` names handler and object. Without a caller (`reply ==
  /// 0`) nothing can handle it, so the job ends with the error's text.
  void reply_error(int to, std::uint64_t reply, std::exception_ptr e, const std::string& context) {
    detail::reply_error(*this, to, reply, std::move(e), context);
  }
  bool stops_at_unhandled() const noexcept { return stops_at_unhandled_; }

  // Layers above ------------------------------------------------------------------------------------------------------

  /// This rank's instance of slot `index`, made by `make` when first asked for. Destroyed with the
  /// node, last made first.
  void* local(std::size_t index, void* (*make)(), void (*destroy)(void*)) {
    if (index < slots_.size()) [[likely]]
      if (void* const there = slots_[index].object.load(std::memory_order_acquire)) [[likely]]
        return there;
    return first_local(index, make, destroy);
  }
  void* local_if_made(std::size_t index) const noexcept {
    return index < slots_.size() ? slots_[index].object.load(std::memory_order_acquire) : nullptr;
  }
  /// After every fiber has ended.
  void destroy_locals();
  /// Reports and statistics tell of `part` until `forget_part`.
  void report_on(reported_part& part);
  void forget_part(reported_part& part) noexcept;
  /// Calls `f` with each such part. \return false if another thread has held the lock on their list
  /// for too long.
  bool for_each_part(const std::function<void(reported_part&)>& f);

private:
  void end_job(const std::string& what, int code) noexcept override { parts_.ends->fatal(what, code); }
  static node& here_apart();
  void* first_local(std::size_t index, void* (*make)(), void (*destroy)(void*));

  const options* const opts_;
  const node_parts parts_;
  const bool stops_at_unhandled_;

  struct slot {
    std::atomic<void*> object{nullptr}; // release when made, acquire when used: what the constructor wrote is visible
    mutex making;                       // a constructor may wait, and may use other slots
    void (*destroy)(void*) = nullptr;
  };
  std::vector<slot> slots_; // never resized: its length is the number of rank_local objects that exist before main
  std::mutex slot_order_lock_;
  std::vector<std::size_t> slot_order_;
  std::atomic<bool> over_{false};

  tern::detail::spin_lock reported_lock_;
  std::vector<reported_part*> reported_;
};

} // namespace tern::net
