// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The writing side of a part. All but `ring`'s fast path happens under one lock, `gate`.

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <tern/trace/part/format.hpp>
#include <tern/trace/recorder.hpp>

namespace tern::trace::detail {

struct session;

inline constexpr std::int64_t retry_ns = 1'000'000'000; // after the disk was full

/// One thread's records. Written by that thread alone; a thread that begins takes over the ring of
/// one that has ended.
struct ring {
  struct known_name {
    std::string_view text; // in `texts`
    std::uint32_t number = 0;
  };

  record *next = nullptr, *end = nullptr; // in the chunk that is being filled
  chunk_header* chunk = nullptr;
  std::int64_t (*clock)() = nullptr; // null: `counter()`
  std::uint32_t recording = 0;
  std::uint32_t track = no_track;
  bool simulated = false;
  std::uint64_t fiber = 0; // that runs on this thread; 0: none
  int batches = 0, sample = 1;
  std::int64_t no_room_until = 0;                       // by clock_ns(); 0: there was room
  std::atomic<std::uint64_t> dropped{0};                // records, since the session last took this number
  std::array<known_name, 256> names{};                  // by hash: most names are met again and again
  std::shared_ptr<const std::deque<std::string>> texts; // held: the thread may be at it when the recording ends

  // Under the gate:
  ring() = default;
  ~ring(); // unmaps `chunks`
  ring(const ring&) = delete;
  ring& operator=(const ring&) = delete;

  session* home = nullptr; // null: its recording has ended
  std::size_t chunk_bytes = 0;
  std::uint32_t number = 0;
  std::uint64_t sequence = 0;        // of the next chunk
  std::vector<chunk_header*> chunks; // mapped; of those that are overwritten in turn, the next is `turn`
  std::size_t turn = 0;
  bool in_use = true;
};

/// A recording.
struct session {
  session(recorder_settings s, std::uint32_t number);
  ~session();
  session(const session&) = delete;
  session& operator=(const session&) = delete;

  ring* attach();                 ///< a ring for the calling thread; null if there is no memory for it
  bool advance(ring& r) noexcept; ///< a new chunk for a ring with a full one; false: no room at all
  /// \param kept what is stored of `text`: empty if nothing, else as long as `ring::texts`.
  std::uint32_t name_number(std::string_view text, std::string_view& kept);
  std::uint32_t new_track(int rank, int worker, std::string_view name);
  std::uint32_t foreign_track();
  void name_object(std::uint64_t object, std::string_view name);
  void clock_offset(std::int64_t at, std::int64_t add) noexcept;
  void finish() noexcept;
  void close_file() noexcept;

  recorder_settings settings;
  const std::uint32_t number;
  std::string path;

private:
  chunk_header* new_chunk() noexcept;
  bool add_entry(std::uint32_t kind, const void* bytes, std::size_t length);
  void note_time() noexcept;
  void take_dropped(ring& r) noexcept;
  std::uint64_t now() const noexcept;

  int file_ = -1;
  part_header* header_ = nullptr;
  std::size_t chunk_bytes_ = 0, ring_chunks_ = 0;
  std::uint64_t file_bytes_ = 0;
  std::int64_t no_room_until_ = 0; // by clock_ns()
  std::int64_t (*clock_)() = nullptr;
  std::vector<std::unique_ptr<ring>> rings_;
  chunk_header* table_ = nullptr;
  std::uint64_t table_sequence_ = 0;
  std::shared_ptr<std::deque<std::string>> texts_ = std::make_shared<std::deque<std::string>>();
  std::unordered_map<std::string_view, std::uint32_t> numbers_;
  std::unordered_map<std::uint64_t, std::uint32_t> objects_; // names, by number
  std::uint32_t names_ = 0, tracks_ = 0, too_many_ = 0;
  int foreign_ = 0;
};

} // namespace tern::trace::detail
