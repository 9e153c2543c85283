// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// How a rank sleeps until a message may have arrived. MPI has no blocking wait that leaves the core idle, so each rank
/// has a futex word in memory shared by the ranks of its host: whoever sends to a sleeping rank rings it.
///
/// The word is `awake`, `sleeping` or `rung` (a wake-up that nobody has consumed yet).
///   sleeper: awake -> sleeping; look at MPI once more; futex wait while sleeping; whatever it is -> awake
///   ringer:  make the work visible (start the send, fill a queue); then see `sleeping` and end it
/// Either the ringer sees `sleeping`, or the sleeper's last look sees the work: the store and the load on each side
/// must not change places (Dekker's pattern). A send is frequent and a sleep is not, so where the kernel has it the
/// sleeper pays for both: membarrier(GLOBAL_EXPEDITED) makes every thread of the processes registered for it, if it
/// runs, pass a full barrier between the sleeper's store and its last look. A ringer whose load came before that
/// barrier had made its work visible before it, as the compiler kept their order; one whose load comes after it sees
/// `sleeping`. Where any rank of the host lacks it, all ringers pay for a fence.
#include <mpi.h>

#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <vector>

#include <fcntl.h>
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common.hpp"

namespace tern_mpi {

class doorbell {
public:
  /// Collective over `comm`. Without shared memory (or alone) only `wake` rings, and `reaches_all` says so.
  void open(MPI_Comm comm, int rank, int size);
  /// After the last ring of any rank of the host; `wake` stays allowed.
  void close();

  int host_rank() const { return host_rank_; }
  int host_size() const { return host_size_; }
  /// Whether every other rank rings when it sends.
  bool reaches_all() const { return reaches_all_; }

  /// Is this rank on this host, and rings and is rung?
  bool on_host(int rank) const { return words_[static_cast<std::size_t>(rank)] != nullptr; }

  /// Owner only. Ends the sleep of `rank` if it is on this host and sleeps; call after the send was started.
  void ring(int rank) {
    auto* word = words_[static_cast<std::size_t>(rank)];
    if (!word) return;
    // The send's stores into MPI's shared memory come before the load below, see the file comment. A load and not an
    // exchange, because nearly always the peer is awake and its line may then stay shared. No `rung` is left behind for
    // a rank that is awake: before it sleeps it looks at MPI.
    if (sleeper_pays_)
      std::atomic_signal_fence(std::memory_order_seq_cst); // the compiler's part of the order
    else
      std::atomic_thread_fence(std::memory_order_seq_cst);
    if (word->load(std::memory_order_relaxed) == sleeping) strike(*word);
  }

  /// Any thread, async-signal-safe: ends a present or the next `sleep` of this rank.
  void wake() { strike(*own_.load(std::memory_order_acquire)); }

  /// Owner only. Sleeps until rung, or `at_most` microseconds, or not at all if `last_look` finds something to do.
  template <class F> void sleep(std::int64_t at_most, F&& last_look) {
    auto& word = *own_.load(std::memory_order_relaxed); // the owner itself stored it
    std::uint32_t expected = awake;
    // seq_cst: this store comes before the last look's loads. Failing means that it was rung already; the exchange at
    // the end consumes that, acquiring what the ringer did.
    if (word.compare_exchange_strong(expected, sleeping, std::memory_order_seq_cst)) {
      std::atomic_thread_fence(std::memory_order_seq_cst); // pairs with the fence in `ring`
      // Failing is not expected after registering; without the barrier a ring may be missed, so there is no sleep then.
      const bool ordered = !sleeper_pays_ || membarrier(MEMBARRIER_CMD_GLOBAL_EXPEDITED);
      if (at_most > 0 && !last_look() && ordered) {
        const timespec time{static_cast<time_t>(at_most / 1'000'000), static_cast<long>(at_most % 1'000'000 * 1000)};
        // Returns at once if the word is no longer `sleeping`. A spurious return is harmless: the owner polls and comes
        // again. Not FUTEX_PRIVATE: the word is in memory of several processes.
        syscall(SYS_futex, address(word), FUTEX_WAIT, sleeping, &time, nullptr, 0);
      }
    }
    // acquire: what the ringer wrote before it rang is visible to the poll that follows.
    word.exchange(awake, std::memory_order_acquire);
  }

private:
  static constexpr std::uint32_t awake = 0, sleeping = 1, rung = 2;
  struct alignas(64) line { // one cache line each: a ring disturbs nobody else
    std::atomic<std::uint32_t> word;
  };
  static_assert(sizeof(line) == 64 && std::atomic<std::uint32_t>::is_always_lock_free);

  static std::uint32_t* address(std::atomic<std::uint32_t>& word) { return reinterpret_cast<std::uint32_t*>(&word); }

  static void strike(std::atomic<std::uint32_t>& word) {
    // seq_cst: release for the work that was made visible before, and ordered against the sleeper's store (file
    // comment).
    if (word.exchange(rung, std::memory_order_seq_cst) == sleeping)
      syscall(SYS_futex, address(word), FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
  }

  static bool membarrier(int command) { return syscall(SYS_membarrier, command, 0, 0) == 0; }

  static line* map(int fd, std::size_t bytes) {
    void* at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    return at == MAP_FAILED ? nullptr : static_cast<line*>(at);
  }

  line alone_{}; // the own word when there is no shared one
  std::atomic<std::atomic<std::uint32_t>*> own_{&alone_.word};
  line* lines_ = nullptr;
  std::size_t bytes_ = 0;
  std::vector<std::atomic<std::uint32_t>*> words_; // by rank; null for one that is not rung: our own, on another host
  bool sleeper_pays_ = false;                      // the ringer needs no fence
  int host_rank_ = 0, host_size_ = 1;
  bool reaches_all_ = true;
};

inline void doorbell::open(MPI_Comm comm, int rank, int size) {
  MPI_Comm node = MPI_COMM_NULL;
  check(MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &node), "MPI_Comm_split_type");
  check(MPI_Comm_rank(node, &host_rank_), "MPI_Comm_rank");
  check(MPI_Comm_size(node, &host_size_), "MPI_Comm_size");
  words_.assign(static_cast<std::size_t>(size), nullptr);
  reaches_all_ = size == 1;
  if (host_size_ > 1) {
    std::vector<int> ranks(static_cast<std::size_t>(size));
    for (int i = 0; i < size; ++i) ranks[static_cast<std::size_t>(i)] = i;
    std::vector<int> host_index(ranks.size(), -1);
    MPI_Group all = MPI_GROUP_NULL, here = MPI_GROUP_NULL;
    check(MPI_Comm_group(comm, &all), "MPI_Comm_group");
    check(MPI_Comm_group(node, &here), "MPI_Comm_group");
    check(MPI_Group_translate_ranks(all, size, ranks.data(), here, host_index.data()), "MPI_Group_translate_ranks");
    check(MPI_Group_free(&all), "MPI_Group_free");
    check(MPI_Group_free(&here), "MPI_Group_free");

    bytes_ = sizeof(line) * static_cast<std::size_t>(host_size_);
    char name[40] = "";
    int fd = -1;
    if (host_rank_ == 0) { // a random name: neither a left-over nor another job can be opened by mistake
      std::uint64_t random[2] = {};
      if (getrandom(random, sizeof random, 0) == static_cast<ssize_t>(sizeof random)) {
        std::snprintf(name, sizeof name, "/tern-%016llx%08llx", static_cast<unsigned long long>(random[0]),
                      static_cast<unsigned long long>(random[1] & 0xffffffffU));
        fd = shm_open(name, O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600);
        if (fd >= 0 && ftruncate(fd, static_cast<off_t>(bytes_)) == 0) lines_ = map(fd, bytes_);
      }
    }
    check(MPI_Bcast(name, sizeof name, MPI_CHAR, 0, node), "MPI_Bcast");
    if (host_rank_ != 0 && name[0] != '\0') {
      fd = shm_open(name, O_RDWR | O_CLOEXEC, 0600);
      if (fd >= 0) lines_ = map(fd, bytes_);
    }
    int mine[2] = {lines_ != nullptr, membarrier(MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED)}, everyone[2] = {};
    // Also the barrier: all have opened it.
    check(MPI_Allreduce(mine, everyone, 2, MPI_INT, MPI_MIN, node), "MPI_Allreduce");
    if (host_rank_ == 0 && fd >= 0) shm_unlink(name);
    check(MPI_Barrier(node),
          "MPI_Barrier"); // a rank that goes on from here and ends the job at once leaves nothing behind
    if (fd >= 0) ::close(fd);
    if (!everyone[0] && lines_ != nullptr) {
      munmap(lines_, bytes_);
      lines_ = nullptr;
    }
    if (lines_ != nullptr) {
      reaches_all_ = host_size_ == size;
      sleeper_pays_ = everyone[1] != 0;
      for (std::size_t i = 0; i < host_index.size(); ++i)
        if (host_index[i] >= 0 && host_index[i] < host_size_ && host_index[i] != host_rank_)
          words_[i] = &lines_[host_index[i]].word;
      // Zero-filled by the kernel: everybody is awake. release: pairs with wake() in another thread.
      own_.store(&lines_[host_rank_].word, std::memory_order_release);
    }
  }
  check(MPI_Comm_free(&node), "MPI_Comm_free");
}

inline void doorbell::close() {
  // Our word stays mapped (a page): a thread may be inside wake(), and nobody is left to ring. Later wakes stay
  // private.
  own_.store(&alone_.word, std::memory_order_release);
  lines_ = nullptr;
  words_.clear();
  sleeper_pays_ = false;
}

} // namespace tern_mpi
