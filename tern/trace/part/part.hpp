// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The reading side of a part. Nothing in the file is believed: it may be cut off, from a killed
/// process, or no part.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <tern/trace/part/format.hpp>

namespace tern::trace::detail {

/// Appends `text` as a JSON string with its quotes. What is no UTF-8 becomes U+FFFD.
void append_json(std::string& out, std::string_view text);

/// Whether some process records into this file now. It holds a lock (flock(2)) on it until it ends,
/// however that is.
bool is_recorded(const std::string& path) noexcept;
/// Removes from `folder` all parts but those in `keep` and those that are recorded now, which are
/// warned of.
/// \return what went wrong.
std::error_code remove_idle_parts(const std::string& folder, const std::vector<std::string>& keep = {});

/// A part, mapped.
class part {
public:
  /// \throws error(io), error(invalid_data) naming the file and what to do.
  explicit part(std::string path);
  ~part();
  part(const part&) = delete;
  part& operator=(const part&) = delete;

  struct track {
    std::int32_t rank, worker;
    std::string name; // a JSON string
  };
  struct chunk {
    std::uint64_t sequence = 0;
    const record* first = nullptr;
    std::uint64_t used = 0;
  };
  struct ring {
    std::uint32_t number = 0;
    std::vector<chunk> chunks; // oldest first
  };

  const part_header& header() const noexcept { return header_; }
  const std::string& path() const noexcept { return path_; }
  /// By number; [0] is what stands for no name.
  const std::vector<std::string>& names() const noexcept { return names_; }
  const std::vector<track>& tracks() const noexcept { return tracks_; }
  /// Objects that have names, the latest last; names as above.
  const std::vector<std::pair<std::uint64_t, std::uint32_t>>& objects() const noexcept { return objects_; }
  const std::vector<ring>& rings() const noexcept { return rings_; }
  std::uint64_t lost() const noexcept { return lost_; }
  std::uint64_t damaged_chunks() const noexcept { return damaged_; }
  bool cut_off() const noexcept { return cut_off_; } ///< the file is shorter than it was

  /// When a record was written, in rank 0's nanoseconds.
  std::int64_t time(std::uint64_t count) const noexcept;

private:
  [[noreturn]] void refuse(const std::string& what) const;
  void check_header() const;
  void set_clock();
  void read_chunks();
  void read_table(std::vector<chunk> table);

  std::string path_;
  const std::byte* bytes_ = nullptr;
  std::size_t size_ = 0;
  part_header header_{};
  std::vector<std::string> names_;
  std::vector<track> tracks_;
  std::vector<std::pair<std::uint64_t, std::uint32_t>> objects_;
  std::vector<ring> rings_;
  std::uint64_t lost_ = 0, damaged_ = 0;
  bool cut_off_ = false;
  // time = base + (count - origin) * speed
  std::uint64_t origin_ = 0;
  std::int64_t base_ = 0;
  double speed_ = 1;
};

} // namespace tern::trace::detail
