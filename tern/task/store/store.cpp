// SPDX-License-Identifier: Apache-2.0
/// \file
/// Bytes that are on disk: which threads do the transfers, and how.
#include <tern/task/store/store.hpp>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <optional>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#define XXH_INLINE_ALL // so that no library is needed where Tern runs
#include <xxhash.h>

#include <tern/base/error.hpp>
#include <tern/base/log.hpp>
#include <tern/base/topology.hpp>
#include <tern/task/boundary/own_threads.hpp>
#include <tern/task/future.hpp>
#include <tern/task/scheduler/scheduler_core.hpp>

namespace tern::detail {
namespace {

constexpr std::uint64_t block =
    object_store::alignment;                          // what direct transfers are aligned to, on every disk we know of
constexpr std::size_t piece = std::size_t{1} << 20;   // of a write: fits the cache between copying, hashing and writing
constexpr std::size_t stretch = std::size_t{4} << 20; // of a read, which nothing copies
constexpr std::uint64_t least_trim = std::uint64_t{16} << 20;

constexpr std::uint64_t whole_blocks(std::uint64_t bytes) { return (bytes + block - 1) / block * block; }
std::string reason(int code) { return std::generic_category().message(code); }
std::string count_of(std::uint64_t bytes) { return std::to_string(bytes) + (bytes == 1 ? " byte" : " bytes"); }

struct given_to_free {
  void operator()(std::byte* p) const noexcept { std::free(p); }
};
using aligned_bytes = std::unique_ptr<std::byte[], given_to_free>;
/// \param size whole blocks
aligned_bytes aligned(std::size_t size) {
  aligned_bytes memory(static_cast<std::byte*>(std::aligned_alloc(block, size)));
  if (!memory)
    throw error(errc::out_of_memory, "cannot allocate " + count_of(size) + " to reach the disk with",
                "give the process more memory");
  return memory;
}

/// A file in that directory that no other process can open, and that goes with its last descriptor.
/// \return -1: errno says why not.
int unnamed_file(const std::string& directory) {
  const int fd = open(directory.c_str(), O_TMPFILE | O_RDWR | O_EXCL | O_CLOEXEC, 0600);
  // What kernels and file systems say that do not know O_TMPFILE: ask in the old way, which leaves
  // something behind if the process is killed just between the two calls.
  if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL)) return fd;
  std::string name = directory + "/tern-XXXXXX";
  const int named = mkostemp(name.data(), O_CLOEXEC);
  if (named >= 0) unlink(name.c_str());
  return named;
}

class hash {
public:
  hash() noexcept { XXH3_64bits_reset(&state_); }
  void add(const std::byte* from, std::size_t n) noexcept { XXH3_64bits_update(&state_, from, n); }
  std::uint64_t value() const noexcept { return XXH3_64bits_digest(&state_); }

private:
  XXH3_state_t state_;
};

} // namespace

/// What one thread copies through, where a direct transfer needs memory that is aligned.
class object_store::staging {
public:
  staging() = default; // none yet
  explicit staging(std::size_t size) : memory_(aligned(size)) {}
  std::byte* data() const noexcept { return memory_.get(); }

private:
  aligned_bytes memory_;
};

/// One object's way to the disk or back. Throws nothing: its waiting caller is told what happened.
struct object_store::transfer {
  // Either, and then the other is null.
  const std::byte* from = nullptr;
  std::byte* to = nullptr;
  std::size_t size = 0;
  std::size_t room = 0; // where it goes to: whole blocks for a direct transfer
  std::uint64_t offset = 0;

  std::uint64_t check = 0;
  int failure = 0;       // errno
  bool cut = false;      // the file ended too early
  bool buffered = false; // it has found that direct transfers fail

  void run(int fd, std::atomic<bool>& direct, const staging& memory) noexcept {
    if (from)
      put(fd, direct, memory);
    else
      get(fd, direct);
  }

private:
  void put(int fd, std::atomic<bool>& direct, const staging& memory) noexcept {
    hash h;
    for (std::size_t at = 0; at < size && failure == 0; at += piece) {
      const std::size_t n = std::min(piece, size - at);
      const std::byte* source = from + at;
      std::size_t whole = n;
      // address: decides only whether it is copied
      const bool fits = reinterpret_cast<std::uintptr_t>(source) % block == 0 && n % block == 0;
      if (direct.load(std::memory_order_relaxed) && !fits) {
        whole = whole_blocks(n);
        std::memcpy(memory.data(), source, n);
        std::memset(memory.data() + n, 0, whole - n); // nothing that was in memory by chance goes to disk
        source = memory.data();
      }
      h.add(source, n);
      put_all(fd, direct, source, whole, offset + at);
    }
    check = h.value();
  }
  void put_all(int fd, std::atomic<bool>& direct, const std::byte* source, std::size_t n,
               std::uint64_t where) noexcept {
    while (n > 0) {
      const ssize_t done = pwrite(fd, source, n, static_cast<off_t>(where));
      if (done > 0) {
        source += done;
        n -= static_cast<std::size_t>(done);
        where += static_cast<std::uint64_t>(done);
      } else if (!again(fd, direct, done == 0 ? EIO : errno)) {
        return;
      }
    }
  }
  void get(int fd, std::atomic<bool>& direct) noexcept {
    hash h;
    for (std::size_t at = 0; at < size;) {
      const ssize_t done = pread(fd, to + at, std::min(stretch, room - at), static_cast<off_t>(offset + at));
      if (done > 0) {
        const auto n = static_cast<std::size_t>(done);
        h.add(to + at, std::min(n, size - at)); // without what fills the last block
        at += n;
      } else if (done == 0) {
        cut = true;
        return;
      } else if (!again(fd, direct, errno)) {
        return;
      }
    }
    check = h.value();
  }
  /// After a failure: is it worth another try?
  bool again(int fd, std::atomic<bool>& direct, int why) noexcept {
    if (why == EINTR) return true;
    // The file system takes O_DIRECT, but not every transfer: some decide when they see one.
    if (why == EINVAL && !buffered) {
      buffered = true;
      direct.store(false, std::memory_order_relaxed); // others may do the same just now
      const int flags = fcntl(fd, F_GETFL);
      if (flags >= 0 && fcntl(fd, F_SETFL, flags & ~O_DIRECT) == 0) return true;
    }
    failure = why;
    return false;
  }
};

/// A transfer that a caller waits for, on its stack.
struct object_store::job : transfer {
  job(const transfer& t, bool by_others)
      : transfer(t), done(by_others ? std::optional<promise<void>>(promise<void>()) : std::nullopt) {}
  std::optional<promise<void>> done; // if another thread does it
  job* next = nullptr;
};

object_store::object_store(settings s, std::string owner) : settings_(std::move(s)), owner_(std::move(owner)) {}

object_store::~object_store() {
  {
    const std::lock_guard hold(lock_);
    over_ = true;
  }
  work_.notify_all();
  for (std::thread& t : threads_) t.join();
  if (fd_ >= 0) close(fd_);
}

void object_store::open_file() {
  if (fd_ >= 0) return;
  const int fd =
      settings_.in_memory ? memfd_create("tern simulated disk", MFD_CLOEXEC) : unnamed_file(settings_.directory);
  const int why = errno;
  if (fd < 0)
    throw error(errc::io, owner_ + " cannot make a file in \"" + settings_.directory + "\": " + reason(why),
                settings_.usable);
  const int flags = fcntl(fd, F_GETFL);
  direct_.store(!settings_.in_memory && flags >= 0 && fcntl(fd, F_SETFL, flags | O_DIRECT) == 0,
                std::memory_order_relaxed);
  fd_ = fd;
}

void object_store::start_threads() {
  if (settings_.inline_io || !threads_.empty()) return;
  const auto wanted = static_cast<std::size_t>(std::max(1, settings_.threads));
  threads_.reserve(wanted);
  while (threads_.size() < wanted) {
    try {
      threads_.emplace_back([this, memory = staging(piece)]() mutable { serve(memory); });
    } catch (const std::system_error& e) {
      if (!threads_.empty()) return; // fewer will do
      throw error(errc::system, owner_ + " cannot start a thread that writes objects to disk: " + e.code().message(),
                  "allow more processes and threads (ulimit -u)");
    }
  }
}

bool object_store::is_same(const stored& there, std::span<const std::byte> bytes) noexcept {
  if (there.bytes != bytes.size()) return false;
  hash all;
  all.add(bytes.data(), bytes.size());
  return all.value() == there.check;
}

void object_store::open() {
  const std::lock_guard hold(lock_);
  open_file();
}

stored object_store::write(std::span<const std::byte> bytes) {
  if (bytes.empty()) return {0, 0, hash().value()};
  const std::uint64_t length = whole_blocks(bytes.size());
  job one({.from = bytes.data(), .size = bytes.size()}, !settings_.inline_io);
  {
    const std::lock_guard hold(lock_);
    const std::uint64_t most = settings_.most_bytes, held = bytes_.load(std::memory_order_relaxed);
    if (most != 0 && (held > most || length > most - held))
      throw_full(bytes.size(), held, "no more than " + count_of(most) + " may be stored in");
    open_file();
    start_threads();
    one.offset = extents_.take(length);
    high_ = std::max(high_, extents_.end());
    bytes_.store(held + length, std::memory_order_relaxed);
  }
  perform(one);
  if (one.failure == 0) return {one.offset, bytes.size(), one.check};
  give(one.offset, length);
  const int why = one.failure;
  if (why == ENOSPC || why == EDQUOT || why == EFBIG) // EFBIG: a limit of the process (ulimit -f)
    throw_full(bytes.size(), this->bytes(), reason(why) + " in");
  throw error(errc::io,
              owner_ + " cannot write " + count_of(bytes.size()) + " to its file in \"" + settings_.directory +
                  "\": " + reason(why),
              "look at the system's log (dmesg), or " + settings_.other_disk);
}

void object_store::throw_full(std::uint64_t wanted, std::uint64_t held, const std::string& why) const {
  throw error(errc::io,
              owner_ + " cannot put " + count_of(wanted) + " on disk: " + why + " \"" + settings_.directory +
                  "\", where it has stored " + count_of(held),
              settings_.more_room);
}

byte_buffer object_store::read(const stored& where) {
  if (where.bytes == 0) return {};
  const std::uint64_t length = whole_blocks(where.bytes);
  // It is ours to align, so nothing needs to be copied.
  byte_buffer result = byte_buffer::adopt(aligned(length).release(), where.bytes);
  read(where, result.data(), length);
  return result;
}

void object_store::read(const stored& where, std::byte* to, std::size_t room) {
  if (where.bytes == 0) return;
  const std::uint64_t length = whole_blocks(where.bytes);
  const auto place = [&] {
    return count_of(where.bytes) + " at offset " + std::to_string(where.offset) + " of its file in \"" +
           settings_.directory + '"';
  };
  // address: of memory that direct transfers reach
  if (room < length || reinterpret_cast<std::uintptr_t>(to) % block != 0)
    throw error(errc::invalid_argument, owner_ + " cannot read " + place() + " to there",
                "give it whole, aligned blocks of " + count_of(block));
  {
    const std::lock_guard hold(lock_);
    if (!extents_.taken(where.offset, length))
      throw error(errc::invalid_argument, owner_ + " has not stored " + place(), "read nothing after its drop");
  }
  job one({.to = to, .size = where.bytes, .room = length, .offset = where.offset}, !settings_.inline_io);
  perform(one);
  if (one.failure != 0)
    throw error(errc::io, owner_ + " cannot read back " + place() + ": " + reason(one.failure),
                "look at the system's log (dmesg), or " + settings_.other_disk);
  if (one.cut || one.check != where.check)
    throw error(errc::invalid_data, owner_ + ": what was written to disk is not what came back: " + place(),
                "the disk or its file system loses or changes data: look at the system's log (dmesg), and " +
                    settings_.other_disk);
}

void object_store::drop(const stored& where) noexcept {
  if (where.bytes != 0) give(where.offset, whole_blocks(where.bytes));
}

void object_store::give(std::uint64_t offset, std::uint64_t length) noexcept {
  std::unique_lock hold(lock_);
  const bool was_there = extents_.give(offset, length);
  if (was_there) bytes_.fetch_sub(length, std::memory_order_relaxed);
  if (to_trim()) {
    if (settings_.inline_io)
      trim(hold);
    else
      work_.notify_one();
  }
  hold.unlock();
  if (!was_there)
    log_error(owner_ + " has dropped what it had not stored: " + count_of(length) + " at offset " +
              std::to_string(offset));
}

/// Has the transfer done, and returns when that is so.
void object_store::perform(job& one) {
  if (settings_.inline_io) {
    const bool copies = one.from && direct_.load(std::memory_order_relaxed);
    one.run(fd_, direct_, copies ? staging(std::min<std::size_t>(piece, whole_blocks(one.size))) : staging());
    return;
  }
  auto done = one.done->get_future();
  {
    const std::lock_guard hold(lock_);
    *last_ = &one;
    last_ = &one.next;
  }
  work_.notify_one();
  if (!scheduler::in_fiber()) return done.get();
  const scheduler_core::awaits_thread meanwhile;
  done.get();
}

/// What its threads do.
void object_store::serve(staging& memory) noexcept {
  const own_thread listed;
  sigset_t handled; // signals are for the program's threads, but for those that a thread causes itself
  sigfillset(&handled);
  for (const int own : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGSYS}) sigdelset(&handled, own);
  pthread_sigmask(SIG_BLOCK, &handled, nullptr);
  name_this_thread("tern store");
  try {
    bind_this_thread(settings_.cpus);
  } catch (const error& e) { // it does its work elsewhere as well
    log_warning(e.what());
  }
  std::unique_lock hold(lock_);
  while (true) {
    work_.wait(hold, [&] { return over_ || first_ || to_trim(); });
    if (first_) {
      job& one = *first_;
      first_ = one.next;
      if (!first_) last_ = &first_;
      hold.unlock();
      one.run(fd_, direct_, memory);
      one.done->set_value(); // and it is gone
      hold.lock();
    } else if (over_) {
      return;
    } else {
      trim(hold);
    }
  }
}

// Giving room back to the file system -----------------------------------------------------------------------------
// The file's length stays: to cut it would have to exclude threads that write behind its new end
// meanwhile, or make workers wait for the disk. A hole is punched instead, in a part that is marked
// as taken until that is done. Rarely, and when there is nothing else to do: what is punched has to
// be allocated again when the store grows.

bool object_store::to_trim() const noexcept {
  return can_punch_ && high_ - extents_.end() >= std::max(least_trim, high_ / 4);
}

void object_store::trim(std::unique_lock<std::mutex>& hold) noexcept {
  const std::uint64_t length = high_ - extents_.end();
  std::uint64_t offset = 0;
  try {
    offset = extents_.append(length);
  } catch (const std::bad_alloc&) { // there are other worries now
    can_punch_ = false;
    return;
  }
  hold.unlock();
  int result = 0;
  do
    result = fallocate(fd_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
                       static_cast<off_t>(length));
  while (result != 0 && errno == EINTR);
  hold.lock();
  extents_.give(offset, length);
  if (high_ == offset + length) high_ = offset; // else others have written behind it meanwhile
  if (result != 0) can_punch_ = false;          // the room is used again by what is written next, and free at the end
}

} // namespace tern::detail
