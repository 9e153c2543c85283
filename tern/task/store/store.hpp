// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Where layers keep bytes that memory has no room for: a file without a name, read and written
/// past the kernel's cache by a few threads, so that no worker waits for a disk. Internal.

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include <tern/base/bytes.hpp>
#include <tern/task/store/extents.hpp>
#include <tern/task/store/stored.hpp>

namespace tern::detail {

/// Records of bytes on disk. Thread-safe: any number of calls at a time. What one `write` has
/// returned may be read by many, and is dropped when no call reads it any more.
///
/// `write` and `read` return when the transfer is done. A fiber suspends meanwhile and its worker
/// runs others; any other thread sleeps. What fails concerns that call only. Nothing is kept past
/// the process, however it ends, and nothing is made durable: there is no fsync.
class object_store {
public:
  struct settings {
    std::string directory;
    /// That `bytes` may reach, of live records; holes between them that the file still has come on
    /// top. 0: what the disk has.
    std::uint64_t most_bytes = 0;
    /// Everything happens in the calling context, which neither suspends nor meets another thread:
    /// for simulations.
    bool inline_io = false;
    bool in_memory = false; ///< its file is: a simulation must not wait for a disk
    int threads = 2;        ///< at least 1; as many transfers go on at a time
    /// Where these threads may run; empty: wherever the thread may that is the first to write,
    /// which is one core if that is a bound worker.
    std::vector<int> cpus = {};
    /// Hints of errors: what to do if no file can be made, about a disk that fails, and about one
    /// that is full.
    std::string usable = "give it a directory that exists and may be written to";
    std::string other_disk = "give it a directory on another disk";
    std::string more_room = "give it a directory with more room";
  };
  /// Opens nothing yet. \param owner of the store, for messages: "rank 3".
  object_store(settings s, std::string owner);
  /// Ends its threads; its file is gone. \pre no call is under way.
  ~object_store();
  object_store(const object_store&) = delete;
  object_store& operator=(const object_store&) = delete;

  /// Makes the file, if there is none yet. \throws error(io) naming the directory.
  void open();
  /// Puts a copy of the bytes on disk; the first one makes the file and starts the threads. \throws
  /// error(io) naming the directory, if no file can be made there, it is full, `most_bytes` would
  /// be exceeded, or writing fails; and error(system) if there is no thread to do it,
  /// error(out_of_memory). Then nothing has changed: all that was stored can be read.
  stored write(std::span<const std::byte> bytes);
  /// The bytes as they were written; `where` stays valid. \throws error(invalid_data) naming
  /// directory, offset and size if they are not the same; error(io) if they cannot be read,
  /// error(out_of_memory); error(invalid_argument) for a place that holds nothing.
  byte_buffer read(const stored& where);
  /// The same into the caller's memory, without a copy of the last blocks' rest: `to` is a multiple
  /// of `alignment`, as is `room`, which is `where.bytes` or more. Nothing is allocated. After an
  /// error the contents of `to` are not defined. \throws as `read`, but for error(out_of_memory).
  void read(const stored& where, std::byte* to, std::size_t room);
  static constexpr std::size_t alignment = 4096;
  /// Are these the bytes that are there? By size and checksum: two that differ are taken for the
  /// same once in 2^64.
  static bool is_same(const stored& there, std::span<const std::byte> bytes) noexcept;
  /// Its place may be used again. Never waits for the disk, but with `inline_io`.
  void drop(const stored& where) noexcept;
  /// On disk now: the live records, each in whole blocks of 4 KiB, and those that are being
  /// written.
  std::uint64_t bytes() const noexcept { return bytes_.load(std::memory_order_relaxed); }

private:
  friend struct store_peer; // of the tests
  struct job;
  struct transfer;
  class staging;

  void open_file();
  void start_threads();
  void perform(job& one);
  void serve(staging& memory) noexcept;
  bool to_trim() const noexcept;
  void trim(std::unique_lock<std::mutex>& hold) noexcept;
  void give(std::uint64_t offset, std::uint64_t length) noexcept;
  [[noreturn]] void throw_full(std::uint64_t wanted, std::uint64_t held, const std::string& why) const;

  const settings settings_;
  const std::string owner_;
  std::atomic<std::uint64_t> bytes_{0}; // changes under the lock
  std::atomic<bool> direct_{false};     // past the kernel's cache; once off it stays off
  int fd_ = -1;                         // does not change once it is open

  // A few instructions at a time, but for opening the file and starting the threads.
  std::mutex lock_;
  std::condition_variable work_;
  file_extents extents_;
  std::uint64_t high_ = 0; // where the part of the file ends that may take room on the disk
  bool can_punch_ = true;  // the file system takes back what lies in the middle
  job* first_ = nullptr;   // that no thread has taken yet
  job** last_ = &first_;   // where the next one is hung
  bool over_ = false;
  std::vector<std::thread> threads_;
};

} // namespace tern::detail
