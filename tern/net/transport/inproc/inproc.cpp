// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <tern/base/error.hpp>
#include <tern/net/transport.hpp>
#include <tern/net/transport/inproc/inproc.hpp>
#include <tern/net/transport/inproc/inproc_ring.hpp>
#include <tern/net/transport/ring_poller.hpp>
#include <tern/net/transport/thread_id.hpp>
#include <tern/task/fiber.hpp>
#include <tern/task/wait/waiting.hpp>

namespace tern::net {
namespace {

using detail::inproc_ring;
using detail::ring_poller;

/// Where a rank's owner sleeps.
class alignas(128) bell {
public:
  /// \pre the owner. \return false if it was rung since the last time: do not sleep.
  bool prepare_park() noexcept {
    std::uint32_t expected = awake;
    if (state_.compare_exchange_strong(expected, asleep, std::memory_order_seq_cst)) return true;
    stop_parking();
    return false;
  }
  void sleep(std::chrono::microseconds at_most) noexcept {
    const timespec limit{at_most.count() / 1'000'000, at_most.count() % 1'000'000 * 1000};
    // Returns at once if the state has changed. May return early, as `wait` may.
    if (at_most.count() > 0) syscall(SYS_futex, &state_, FUTEX_WAIT_PRIVATE, asleep, &limit, nullptr, 0);
  }
  // acquire: pairs with `ring`.
  void stop_parking() noexcept { state_.exchange(awake, std::memory_order_acquire); }
  bool is_asleep() const noexcept { return state_.load(std::memory_order_seq_cst) == asleep; }
  void ring() noexcept {
    if (state_.exchange(rung, std::memory_order_acq_rel) == asleep)
      syscall(SYS_futex, &state_, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
  }

private:
  static constexpr std::uint32_t awake = 0, asleep = 1, rung = 2;
  std::atomic<std::uint32_t> state_{awake}; // the futex
};

/// What a rank's senders and the rank itself use.
struct mailbox {
  explicit mailbox(std::size_t ranks) : rings(ranks), marks(ring_poller::words_for(ranks)) {}
  ~mailbox() {
    for (auto& r : rings) delete r.load(std::memory_order_relaxed);
  }
  bell sleeper;
  std::vector<std::atomic<inproc_ring*>> rings; // by sender; null until it sends something
  std::vector<ring_poller::word> marks;         // a bit for each sender: its ring may have something
};

struct hub {
  explicit hub(int n) : ranks(static_cast<std::size_t>(n)), barrier(tern::detail::asymmetric_barrier::available(true)) {
    boxes.reserve(ranks);
    for (std::size_t i = 0; i < ranks; ++i) boxes.push_back(std::make_unique<mailbox>(ranks));
  }
  /// The ring from one to the other. \throws error(out_of_memory).
  inproc_ring& make_ring(std::size_t from, std::size_t to) {
    std::lock_guard hold(lock);
    auto& place = boxes[to]->rings[from];
    if (inproc_ring* made = place.load(std::memory_order_relaxed)) return *made;
    auto* r = new (std::nothrow) inproc_ring(ranks <= 16 ? 256 : ranks <= 64 ? 64 : 32);
    if (!r) throw error(errc::out_of_memory, "cannot allocate a ring between two ranks", "start fewer ranks");
    place.store(r, std::memory_order_release);
    return *r;
  }

  /// Under the lock.
  void tell(lost_rank what) {
    losses.push_back(std::move(what));
    told.store(losses.size(), std::memory_order_release);
    for (const auto& box : boxes) box->sleeper.ring();
  }
  void kill(int rank) {
    const std::lock_guard hold(lock);
    const auto is_it = [rank](const lost_rank& l) { return l.rank == rank && !l.left; };
    if (std::any_of(losses.begin(), losses.end(), is_it)) return;
    tell({rank,
          fiber_clock::now().time_since_epoch().count(),
          {},
          "rank " + std::to_string(rank) + " was killed by a test",
          false});
    for (const int gone : left) tell({gone, fiber_clock::now().time_since_epoch().count(), {}, {}, true});
  }
  void leave(int rank) {
    const std::lock_guard hold(lock);
    left.push_back(rank);
    if (!losses.empty()) tell({rank, fiber_clock::now().time_since_epoch().count(), {}, {}, true});
  }

  const std::size_t ranks;
  const tern::detail::asymmetric_barrier barrier;
  std::vector<std::unique_ptr<mailbox>> boxes; // by rank
  std::mutex lock;                             // of what follows, and of making rings
  std::condition_variable all_finished;
  std::size_t finished = 0;
  // Ranks that tests have killed, and those that left meanwhile: what is to be told, in order.
  std::vector<lost_rank> losses;
  std::vector<int> left;
  std::atomic<std::size_t> told{0}; // of `losses`; changes under the lock
};

/// Ranks are threads of this process: a message is written into a ring that both ranks see.
class inproc_transport final : public transport {
public:
  inproc_transport(std::shared_ptr<hub> h, int rank)
      : hub_(std::move(h)), rank_(static_cast<std::size_t>(rank)), box_(*hub_->boxes[rank_]) {
    poller_.open(hub_->ranks, box_.marks.data());
  }

  int rank() const noexcept override { return static_cast<int>(rank_); }
  int size() const noexcept override { return static_cast<int>(hub_->ranks); }
  int host_rank() const noexcept override { return rank(); }
  int host_size() const noexcept override { return size(); }
  std::string describe() const override { return "inproc"; }
  std::size_t head_limit() const noexcept override { return inproc_ring::head_limit; }
  bool any_thread_sends() const noexcept override { return true; }

  bool send(int destination, std::span<const std::byte> head, byte_buffer& body, bool urgent) override {
    const auto to = static_cast<std::size_t>(destination); // a negative one becomes a large one
    if (to >= hub_->ranks) [[unlikely]]
      no_rank(destination);
    if (head.size() > inproc_ring::head_limit) [[unlikely]]
      too_large(head.size());
    mailbox& box = *hub_->boxes[to];
    inproc_ring* r = box.rings[rank_].load(std::memory_order_acquire);
    if (!r) [[unlikely]]
      r = &hub_->make_ring(rank_, to);
    // Only the owner knows that it answers: the count's line would travel between the others.
    const std::uint64_t received = owner_.load(std::memory_order_relaxed) == this_thread_id() ? received_ : 0;
    if (!r->send(head, body, urgent, received)) return false;
    announce(box);
    return true;
  }

  bool receive(arrival& into) override {
    // What is in there is given back before it could count as kept.
    if (into.head.capacity() > 0) into.head = {};
    if (into.body.capacity() > 0) into.body = {};
    if (const void* me = this_thread_id(); owner_.load(std::memory_order_relaxed) != me)
      owner_.store(me, std::memory_order_relaxed);
    if (!poller_.next(
            [&](std::size_t from) __attribute__((always_inline)) { return take(from, into); },
            [this](std::size_t from) { return ready(from); })) {
      if (seen_ != hub_->told.load(std::memory_order_relaxed)) [[unlikely]]
        tell_losses();
      return false;
    }
    ++received_;
    into.source = static_cast<int>(poller_.current());
    return true;
  }

  void wait(std::chrono::microseconds at_most) override {
    if (!box_.sleeper.prepare_park()) return;
    // Dekker: a sender stores its message and reads whether this rank sleeps; this rank stores that
    // it sleeps and looks for messages. Senders that set a bit for their message have a fence
    // between. The others have none, so ours must work in their threads too: sleeping is rare,
    // sending is not.
    if (!poller_.has_marks())
      hub_->barrier();
    else
      std::atomic_thread_fence(std::memory_order_seq_cst);
    if (!poller_.any([this](std::size_t from) { return ready(from); })) box_.sleeper.sleep(at_most);
    box_.sleeper.stop_parking();
  }

  void wake() noexcept override { box_.sleeper.ring(); }
  bool may_have_input() const noexcept override {
    return poller_.any([this](std::size_t from) { return ready(from); });
  }

  void finish() override {
    std::unique_lock hold(hub_->lock);
    if (++hub_->finished == hub_->ranks)
      hub_->all_finished.notify_all();
    else
      hub_->all_finished.wait(hold, [&] { return hub_->finished == hub_->ranks; });
  }

  // Only tests kill a rank: it goes on to take in and to drop what comes, so that no memory is
  // missed that others have lent it, and to the others it is dead.
  bool outlives_ranks() const noexcept override { return true; }
  void kill_for_test(int rank) override { hub_->kill(rank); }
  void leave() override { hub_->leave(rank()); }
  void tell_failures(std::function<void(const lost_rank&)> f) override {
    const std::lock_guard hold(hub_->lock);
    told_of_ = std::move(f);
    if (!hub_->losses.empty()) wake();
  }

  // The other ranks' threads run on meanwhile, so nothing may be destroyed under them.
  [[noreturn]] void abort(int code) noexcept override {
    std::fflush(stdout); // not all streams: a thread that reads one would keep its lock
    std::fflush(stderr);
    std::_Exit(code);
  }

private:
  [[noreturn]] void no_rank(int destination) const {
    throw error(errc::invalid_argument, "there is no rank " + std::to_string(destination),
                "ranks are 0 to " + std::to_string(size() - 1));
  }
  [[noreturn]] static void too_large(std::size_t size) {
    throw error(errc::invalid_argument, "a head of " + std::to_string(size) + " bytes is too large",
                "heads have up to " + std::to_string(inproc_ring::head_limit) + " bytes; send the rest as the body");
  }

  void tell_losses() {
    std::vector<lost_rank> news;
    {
      const std::lock_guard hold(hub_->lock);
      if (!told_of_) return;
      news.assign(hub_->losses.begin() + static_cast<std::ptrdiff_t>(seen_), hub_->losses.end());
      seen_ = hub_->losses.size();
    }
    for (const lost_rank& one : news) told_of_(one);
  }

  // Lets the receiver know that there is something in our ring.
  void announce(mailbox& box) noexcept {
    if (!box.marks.empty()) {
      ring_poller::mark(box.marks.data(), rank_);
    } else if (hub_->barrier.usable()) {
      std::atomic_signal_fence(std::memory_order_seq_cst);
    } else {
      std::atomic_thread_fence(std::memory_order_seq_cst);
    }
    if (box.sleeper.is_asleep()) [[unlikely]]
      box.sleeper.ring();
  }

  // The next message of one rank. Gives credit before, while the heads of earlier ones are hardly
  // lent any more, and whether or not there is another. Inline, as a poll that finds nothing is
  // short.
  [[gnu::always_inline]] bool take(std::size_t from, arrival& into) {
    inproc_ring* const r = box_.rings[from].load(std::memory_order_acquire);
    if (!r) return false;
    if (r->give_credit()) hub_->boxes[from]->sleeper.ring();
    return r->receive(into.head, into.body);
  }
  bool ready(std::size_t from) const noexcept {
    const inproc_ring* const r = box_.rings[from].load(std::memory_order_acquire);
    return r && r->ready();
  }

  const std::shared_ptr<hub> hub_;
  const std::size_t rank_;
  mailbox& box_;
  std::atomic<const void*> owner_{nullptr}; // the thread that has called `receive`
  // Of the owner.
  alignas(128) ring_poller poller_;
  std::uint64_t received_ = 0;
  std::size_t seen_ = 0;                          // losses
  std::function<void(const lost_rank&)> told_of_; // set under the hub's lock
};

} // namespace

std::vector<std::unique_ptr<transport>> make_inproc(int ranks) {
  if (ranks < 1)
    throw error(errc::invalid_argument, "a job needs at least 1 rank, not " + std::to_string(ranks),
                "set TERN_RANKS or `tern run -n` to 1 or more");
  auto h = std::make_shared<hub>(ranks);
  std::vector<std::unique_ptr<transport>> ends;
  ends.reserve(static_cast<std::size_t>(ranks));
  for (int r = 0; r < ranks; ++r) ends.push_back(std::make_unique<inproc_transport>(h, r));
  return ends;
}

} // namespace tern::net
