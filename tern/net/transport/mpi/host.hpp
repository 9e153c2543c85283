// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The ranks of one host and the memory that they share: a futex word for each (doorbell.hpp),
/// behind it in its line what the core may note of it, and, if they want them and the host has the
/// memory, a ring from each to each (rings.cpp) with the marks of the rings' receivers.
///
///     words and notes, a line each | marks of each receiver | page: rings to the first rank, by sender | rings to the
///     second | …
///
/// The memory stays mapped until the process ends: threads may look at heads in it, or ring, after
/// the end of the job.
#include <mpi.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <vector>

#include <fcntl.h>
#include <linux/membarrier.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <tern/net/transport/ring_poller.hpp>
#include <tern/net/transport/spsc_ring.hpp>

#include "common.hpp"

namespace tern_mpi {

using tern::net::detail::ring_poller;
using tern::net::detail::ring_shared;

class host {
public:
  /// Collective over `comm`. \param rings whether this rank wants them; there are some only if all
  /// of the host do.
  /// \param reads the same for reading each other's memory.
  void open(MPI_Comm comm, int rank, int size, bool rings, bool reads);

  int rank() const { return rank_; } ///< among those of the host
  int size() const { return size_; }
  /// This rank among those of the host that may run on a CPU of its own, and their number.
  int sharer_rank() const { return sharer_rank_; }
  int sharers() const { return sharers_; }
  /// The place of a rank of the job among those of this host; -1 if it is on another.
  int place_of(int rank) const { return places_[static_cast<std::size_t>(rank)]; }
  /// Whether there is memory that all ranks of the host share.
  bool shared() const { return memory_ != nullptr; }
  /// Whether all of them have membarrier(2).
  bool barriers() const { return barriers_; }
  /// Whether each of them may read the others' memory.
  bool reads() const { return reads_; }
  /// For that: a thread of it.
  pid_t process(int place) const { return processes_[static_cast<std::size_t>(place)]; }
  /// Of each ring; 0: there are none.
  std::uint32_t cells() const { return cells_; }

  std::atomic<std::uint32_t>& word(int place) const {
    return *reinterpret_cast<std::atomic<std::uint32_t>*>(memory_ + static_cast<std::size_t>(place) * line);
  }
  /// Of the first rank; null: there is no such memory.
  std::byte* notes() const { return memory_ ? memory_ + notes_at : nullptr; }
  static constexpr std::size_t notes_stride() { return line; }
  ring_poller::word* marks(int place) const {
    return reinterpret_cast<ring_poller::word*>(memory_ + marks_at() + static_cast<std::size_t>(place) * marks_bytes());
  }
  ring_shared* ring(int from, int to) const {
    return reinterpret_cast<ring_shared*>(rings_to(to) + static_cast<std::size_t>(from) * ring_bytes(cells_));
  }
  /// All rings to a rank, one behind the other.
  std::byte* rings_to(int place) const {
    return memory_ + rings_at() + static_cast<std::size_t>(place) * n() * ring_bytes(cells_);
  }
  static constexpr std::size_t ring_bytes(std::uint32_t cells) { return tern::net::detail::ring_end::bytes_of(cells); }

  static bool membarrier(int command) { return syscall(SYS_membarrier, command, 0, 0) == 0; }

private:
  static constexpr std::size_t line = 64, page = 4096, notes_at = 8;
  static constexpr std::uint32_t most_cells = ring_shared::most_cells, fewest_cells = 256; // as heads must fit
  static constexpr std::size_t most_of_a_rank = std::size_t{4} << 20;                      // bytes of rings to it
  struct plan {                                                                            // of the host's first rank
    char name[40];
    std::uint32_t cells;
  };

  std::size_t n() const { return static_cast<std::size_t>(size_); }
  std::size_t marks_at() const { return (n() * line + 127) / 128 * 128; }
  std::size_t marks_bytes() const {
    return (ring_poller::words_for(n()) * sizeof(ring_poller::word) + 127) / 128 * 128;
  }
  std::size_t rings_at() const { return (marks_at() + n() * marks_bytes() + page - 1) / page * page; }
  std::size_t bytes(std::uint32_t cells) const {
    return cells == 0 ? rings_at() : rings_at() + n() * n() * ring_bytes(cells);
  }
  static bool allocate(int fd, std::size_t from, std::size_t length);
  std::uint32_t choose_cells(int fd) const;
  int create(plan& p, bool rings) const;
  void map(int fd, std::size_t length);
  void find_places(MPI_Comm comm, MPI_Comm node, int job_size);
  bool find_processes(MPI_Comm node);
  void find_sharers(MPI_Comm node);

  std::byte* memory_ = nullptr;
  int rank_ = 0, size_ = 1, sharer_rank_ = 0, sharers_ = 1;
  std::uint32_t cells_ = 0;
  bool barriers_ = false, reads_ = false;
  std::vector<int> places_;
  std::vector<pid_t> processes_; // by place, if `reads_`
};

// What the file system lacks later would be a SIGBUS.
inline bool host::allocate(int fd, std::size_t from, std::size_t length) {
  // In pieces: an interrupted call, by a profiler's signal perhaps, begins only its piece again.
  constexpr std::size_t piece = std::size_t{256} << 10;
  for (const std::size_t end = from + length; from < end; from += std::min(piece, end - from)) {
    int error = 0;
    do error = posix_fallocate(fd, static_cast<off_t>(from), static_cast<off_t>(std::min(piece, end - from)));
    while (error == EINTR);
    if (error != 0) return false;
  }
  return true;
}

// The memory may be little (a container's 64 MiB), and the MPI wants some of it too.
inline std::uint32_t host::choose_cells(int fd) const {
  struct statvfs space {};
  if (fstatvfs(fd, &space) != 0) return 0;
  const std::size_t most = static_cast<std::size_t>(space.f_bavail) * space.f_frsize / 2;
  for (std::uint32_t cells = most_cells; cells >= fewest_cells; cells /= 2)
    if (n() * cells * tern::net::detail::ring_end::cell_bytes <= most_of_a_rank && bytes(cells) <= most) return cells;
  return 0;
}

// A random name: neither a left-over nor another job can be opened by mistake.
inline int host::create(plan& p, bool rings) const {
  std::uint64_t random[2] = {};
  if (getrandom(random, sizeof random, 0) != static_cast<ssize_t>(sizeof random)) return -1;
  std::snprintf(p.name, sizeof p.name, "/tern-%016llx%08llx", static_cast<unsigned long long>(random[0]),
                static_cast<unsigned long long>(random[1] & 0xffffffffU));
  const int fd = shm_open(p.name, O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600);
  if (fd < 0) return fd;
  p.cells = rings ? choose_cells(fd) : 0;
  if (ftruncate(fd, static_cast<off_t>(bytes(p.cells))) == 0 && allocate(fd, 0, rings_at())) return fd;
  shm_unlink(p.name);
  ::close(fd);
  p.name[0] = '\0';
  return -1;
}

inline void host::map(int fd, std::size_t length) {
  if (fd < 0) return;
  void* at = mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (at != MAP_FAILED) memory_ = static_cast<std::byte*>(at);
}

inline void host::find_places(MPI_Comm comm, MPI_Comm node, int job_size) {
  std::vector<int> ranks(static_cast<std::size_t>(job_size));
  for (int i = 0; i < job_size; ++i) ranks[static_cast<std::size_t>(i)] = i;
  places_.assign(ranks.size(), -1);
  MPI_Group all = MPI_GROUP_NULL, here = MPI_GROUP_NULL;
  check(MPI_Comm_group(comm, &all), "MPI_Comm_group");
  check(MPI_Comm_group(node, &here), "MPI_Comm_group");
  check(MPI_Group_translate_ranks(all, job_size, ranks.data(), here, places_.data()), "MPI_Group_translate_ranks");
  check(MPI_Group_free(&all), "MPI_Group_free");
  check(MPI_Group_free(&here), "MPI_Group_free");
  for (int& place : places_)
    if (place < 0 || place >= size_) place = -1; // MPI_UNDEFINED
}

// By trying: a container, a policy (Yama) or another user may forbid it, and with two spaces of
// process numbers ours may be another job's.
inline bool host::find_processes(MPI_Comm node) {
  static std::uint64_t sign; // at another address in each process, perhaps
  struct about {
    std::int64_t process;
    std::uint64_t sign, address;
  };
  if (getrandom(&sign, sizeof sign, 0) != static_cast<ssize_t>(sizeof sign)) sign = 0;
  // address: the others read there The thread's number and not the process's: of that nothing can
  // be read any more once its first thread has ended.
  const about mine{gettid(), sign, reinterpret_cast<std::uintptr_t>(&sign)};
  std::vector<about> all(n());
  check(MPI_Allgather(&mine, sizeof mine, MPI_BYTE, all.data(), sizeof mine, MPI_BYTE, node), "MPI_Allgather");
  processes_.clear();
  for (const about& one : all) {
    std::uint64_t found = 0;
    const iovec here{&found, sizeof found}, there{reinterpret_cast<void*>(one.address), sizeof found};
    const auto process = static_cast<pid_t>(one.process);
    if (process_vm_readv(process, &here, 1, &there, 1, 0) != static_cast<ssize_t>(sizeof found) || found != one.sign)
      return false;
    processes_.push_back(process);
  }
  return true;
}

// Launchers bind ranks, each to other CPUs or several to the same. What a rank cannot ask about
// itself it takes to share with all.
inline void host::find_sharers(MPI_Comm node) {
  cpu_set_t mine;
  CPU_ZERO(&mine);
  if (sched_getaffinity(0, sizeof mine, &mine) != 0) std::memset(&mine, 0xff, sizeof mine);
  std::vector<cpu_set_t> all(n());
  check(MPI_Allgather(&mine, sizeof mine, MPI_BYTE, all.data(), sizeof mine, MPI_BYTE, node), "MPI_Allgather");
  sharer_rank_ = sharers_ = 0;
  for (int place = 0; place < size_; ++place) {
    cpu_set_t common;
    CPU_AND(&common, &mine, &all[static_cast<std::size_t>(place)]);
    if (place != rank_ && CPU_COUNT(&common) == 0) continue;
    if (place < rank_) ++sharer_rank_;
    ++sharers_;
  }
}

inline void host::open(MPI_Comm comm, int rank, int size, bool rings, bool reads) {
  MPI_Comm node = MPI_COMM_NULL;
  check(MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &node), "MPI_Comm_split_type");
  check(MPI_Comm_rank(node, &rank_), "MPI_Comm_rank");
  check(MPI_Comm_size(node, &size_), "MPI_Comm_size");
  find_places(comm, node, size);
  find_sharers(node);
  memory_ = nullptr; // of an earlier job: stays mapped
  cells_ = 0;
  barriers_ = reads_ = false;
  if (size_ > 1) {
    int one = rings, all = 0;
    check(MPI_Allreduce(&one, &all, 1, MPI_INT, MPI_MIN, node), "MPI_Allreduce");
    plan p{};
    int fd = -1;
    if (rank_ == 0) fd = create(p, all != 0);
    check(MPI_Bcast(&p, sizeof p, MPI_BYTE, 0, node), "MPI_Bcast");
    if (rank_ != 0 && p.name[0] != '\0') fd = shm_open(p.name, O_RDWR | O_CLOEXEC, 0600);
    map(fd, bytes(p.cells));
    bool has_rings = memory_ != nullptr && p.cells != 0;
    if (has_rings) { // each takes its own part: it lies near its rank then
      const std::size_t part = n() * ring_bytes(p.cells), begin = rings_at() + static_cast<std::size_t>(rank_) * part;
      has_rings = allocate(fd, begin, part);
    }
    const bool may_read = find_processes(node);
    int mine[4] = {memory_ != nullptr, membarrier(MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED), has_rings,
                   reads && may_read},
        everyone[4] = {};
    // Also the barrier: all have opened it.
    check(MPI_Allreduce(mine, everyone, 4, MPI_INT, MPI_MIN, node), "MPI_Allreduce");
    if (rank_ == 0 && fd >= 0) {
      shm_unlink(p.name);
      // What some have taken of the rings. Should it fail, memory stays taken that is not used.
      if (!everyone[2]) [[maybe_unused]]
        const int failed = ftruncate(fd, static_cast<off_t>(rings_at()));
    }
    // A rank that goes on from here and ends the job at once leaves nothing behind.
    check(MPI_Barrier(node), "MPI_Barrier");
    if (fd >= 0) ::close(fd);
    if (!everyone[0] && memory_ != nullptr) {
      munmap(memory_, bytes(p.cells));
      memory_ = nullptr;
    }
    barriers_ = everyone[1] != 0;
    reads_ = everyone[3] != 0;
    if (everyone[2]) cells_ = p.cells;
  }
  check(MPI_Comm_free(&node), "MPI_Comm_free");
}

} // namespace tern_mpi
