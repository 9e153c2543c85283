// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <atomic>
#include <bit>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <mutex>
#include <new>
#include <utility>

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <tern/base/error.hpp>
#include <tern/net/detail/inproc_ring.hpp>
#include <tern/net/transport.hpp>
#include <tern/task/detail/parking.hpp>

namespace tern::net {
namespace {

using detail::inproc_ring;

// A receiver looks at the rings of so many senders whenever it wants to know. With more ranks, senders say in a bit
// that theirs is not empty.
constexpr int few_ranks = 8;
constexpr int few_rings = 4;      // empty ones whose bits are left set
constexpr int most_in_a_row = 32; // messages from one sender while others may have some

/// Where a rank's owner sleeps.
class alignas(128) bell {
public:
  /// \pre the owner. \return false if it was rung since the last time: do not sleep.
  bool lie_down() noexcept {
    std::uint32_t expected = awake;
    if (state_.compare_exchange_strong(expected, asleep, std::memory_order_seq_cst)) return true;
    get_up();
    return false;
  }
  void sleep(std::chrono::microseconds at_most) noexcept {
    const timespec limit{at_most.count() / 1'000'000, at_most.count() % 1'000'000 * 1000};
    // Returns at once if the state has changed. May return early, as `wait` may.
    if (at_most.count() > 0) syscall(SYS_futex, &state_, FUTEX_WAIT_PRIVATE, asleep, &limit, nullptr, 0);
  }
  // acquire: pairs with `ring`.
  void get_up() noexcept { state_.exchange(awake, std::memory_order_acquire); }
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
  explicit mailbox(std::size_t ranks) : rings(ranks), words(ranks > few_ranks ? (ranks + 63) / 64 : 0) {}
  ~mailbox() {
    for (auto& r : rings) delete r.load(std::memory_order_relaxed);
  }
  bell sleeper;
  std::vector<std::atomic<inproc_ring*>> rings; // by sender; null until it sends something
  // A bit for each sender: its ring may have something. One level is enough: the words of 1,024 ranks are two lines.
  std::vector<std::atomic<std::uint64_t>> words;
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

  const std::size_t ranks;
  const tern::detail::asymmetric_barrier barrier;
  std::vector<std::unique_ptr<mailbox>> boxes; // by rank
  std::mutex lock;                             // of what follows, and of making rings
  std::condition_variable all_finished;
  std::size_t finished = 0;
};

/// Something that is different for each thread, for the price of a register.
const void* this_thread_mark() noexcept { return __builtin_thread_pointer(); }

/// Ranks are threads of this process: a message is written into a ring that both ranks see.
class inproc_transport final : public transport {
public:
  inproc_transport(std::shared_ptr<hub> h, int rank)
      : hub_(std::move(h)), rank_(static_cast<std::size_t>(rank)), box_(*hub_->boxes[rank_]) {}

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
    const std::uint64_t received = owner_.load(std::memory_order_relaxed) == this_thread_mark() ? received_ : 0;
    if (!r->send(head, body, urgent, received)) return false;
    announce(box);
    return true;
  }

  bool receive(arrival& into) override {
    // What is in there is given back before it could count as kept.
    if (into.head.capacity() > 0) into.head = {};
    if (into.body.capacity() > 0) into.body = {};
    if (const void* me = this_thread_mark(); owner_.load(std::memory_order_relaxed) != me)
      owner_.store(me, std::memory_order_relaxed);
    if ((in_a_row_ < most_in_a_row && take(current_, into)) ||
        (box_.words.empty() ? take_any(into) : take_marked(into))) {
      ++in_a_row_;
      ++received_;
      into.source = static_cast<int>(current_);
      return true;
    }
    return false;
  }

  void wait(std::chrono::microseconds at_most) override {
    if (!box_.sleeper.lie_down()) return;
    // Dekker: a sender stores its message and reads whether we are asleep; we store that we are and look for messages.
    // Senders who say so in a bit have a fence between. The others have none, so ours must work in their threads too:
    // sleeping is rare, sending is not.
    if (box_.words.empty())
      hub_->barrier();
    else
      std::atomic_thread_fence(std::memory_order_seq_cst);
    if (!anything()) box_.sleeper.sleep(at_most);
    box_.sleeper.get_up();
  }

  void wake() noexcept override { box_.sleeper.ring(); }

  void finish() override {
    std::unique_lock hold(hub_->lock);
    if (++hub_->finished == hub_->ranks)
      hub_->all_finished.notify_all();
    else
      hub_->all_finished.wait(hold, [&] { return hub_->finished == hub_->ranks; });
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

  // Lets the receiver know that there is something in our ring.
  void announce(mailbox& box) noexcept {
    if (!box.words.empty()) {
      // Dekker: we store the message and read the bit, the receiver clears the bit and looks for a message. And the
      // same for its sleep. The bit is set nearly always while we send much.
      std::atomic_thread_fence(std::memory_order_seq_cst);
      auto& word = box.words[rank_ / 64];
      const std::uint64_t bit = std::uint64_t{1} << (rank_ % 64);
      if (!(word.load(std::memory_order_seq_cst) & bit)) word.fetch_or(bit, std::memory_order_seq_cst);
    } else if (hub_->barrier.usable()) {
      std::atomic_signal_fence(std::memory_order_seq_cst);
    } else {
      std::atomic_thread_fence(std::memory_order_seq_cst);
    }
    if (box.sleeper.is_asleep()) [[unlikely]]
      box.sleeper.ring();
  }

  // The next message of one rank. Gives credit before, while the heads of earlier ones are hardly lent any more, and
  // whether or not there is another.
  bool take(std::size_t from, arrival& into) {
    inproc_ring* const r = box_.rings[from].load(std::memory_order_acquire);
    if (!r) return false;
    if (r->give_credit()) hub_->boxes[from]->sleeper.ring();
    return r->receive(into.head, into.body);
  }
  bool take_from(std::size_t from, arrival& into) {
    if (!take(from, into)) return false;
    current_ = from;
    in_a_row_ = 0;
    return true;
  }
  bool take_any(arrival& into) {
    for (std::size_t i = current_ + 1; i < hub_->ranks; ++i)
      if (take_from(i, into)) return true;
    for (std::size_t i = 0; i <= current_; ++i)
      if (take_from(i, into)) return true;
    return false;
  }
  // Among those whose bits are set, round robin. Bits of empty rings stay set while they are few, so that the ranks
  // that we talk with need not set them again each time.
  bool take_marked(arrival& into) {
    int empty = 0;
    const std::size_t words = box_.words.size(), start = (current_ + 1) % hub_->ranks;
    for (std::size_t i = 0; i <= words; ++i) { // the first word's lower part comes last
      const std::size_t w = (start / 64 + i) % words;
      const std::uint64_t above = ~std::uint64_t{0} << (start % 64);
      const std::uint64_t part = i == 0 ? above : i == words ? ~above : ~std::uint64_t{0};
      for (std::uint64_t left = box_.words[w].load(std::memory_order_relaxed) & part; left; left &= left - 1) {
        if (take_from(64 * w + static_cast<std::size_t>(std::countr_zero(left)), into)) return true;
        ++empty;
      }
    }
    return empty > few_rings && clear_marks() && take_marked(into);
  }
  // Clears the bits of empty rings. Returns whether one of them was not empty after all.
  bool clear_marks() noexcept {
    bool some = false;
    for (std::size_t w = 0; w < box_.words.size(); ++w) {
      const std::uint64_t cleared = box_.words[w].load(std::memory_order_relaxed);
      if (!cleared) continue;
      box_.words[w].fetch_and(~cleared, std::memory_order_seq_cst);
      std::atomic_thread_fence(std::memory_order_seq_cst); // see `announce`
      for (std::uint64_t left = cleared; left; left &= left - 1)
        if (ready(64 * w + static_cast<std::size_t>(std::countr_zero(left)))) {
          box_.words[w].fetch_or(left & -left, std::memory_order_seq_cst);
          some = true;
        }
    }
    return some;
  }
  bool ready(std::size_t from) const noexcept {
    const inproc_ring* const r = box_.rings[from].load(std::memory_order_acquire);
    return r && r->ready();
  }
  bool anything() const noexcept {
    if (box_.words.empty()) {
      for (std::size_t i = 0; i < hub_->ranks; ++i)
        if (ready(i)) return true;
    } else {
      for (std::size_t w = 0; w < box_.words.size(); ++w)
        for (std::uint64_t left = box_.words[w].load(std::memory_order_seq_cst); left; left &= left - 1)
          if (ready(64 * w + static_cast<std::size_t>(std::countr_zero(left)))) return true;
    }
    return false;
  }

  const std::shared_ptr<hub> hub_;
  const std::size_t rank_;
  mailbox& box_;
  std::atomic<const void*> owner_{nullptr}; // the thread that has called `receive`
  // Of the owner.
  alignas(128) std::size_t current_ = 0; // whose messages are taken
  int in_a_row_ = 0;
  std::uint64_t received_ = 0;
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
