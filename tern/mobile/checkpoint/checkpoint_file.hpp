// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The files of a checkpoint, which docs/reference/formats.md describes. Internal; knows no
/// objects.

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <tern/base/bytes.hpp>
#include <tern/mobile/checkpoint/object_storage.hpp>

namespace tern::mobile::detail {

/// The first bytes of a file.
struct checkpoint_head {
  static constexpr std::array<char, 8> sign{'\x89', 'T', 'e', 'r', 'n', 'C', 'k', 'p'};
  static constexpr std::uint32_t newest = 1;
  std::array<char, 8> magic = sign;
  std::uint32_t version = newest;
  std::uint32_t rank = 0;
  std::uint32_t ranks = 0; ///< as many files has the checkpoint
  std::uint32_t homes = 0; ///< of objects; at least as many
  std::uint64_t generation = 0;
  std::uint64_t program = 0; ///< its handlers' fingerprint
  std::uint64_t seconds = 0; ///< since 1970, when it was begun
  std::uint64_t unused = 0;
  std::uint64_t sum = 0; ///< XXH3 of what is before it
};
static_assert(sizeof(checkpoint_head) == 64);

/// What is in a part of a file, in the order in which they come.
enum class checkpoint_part : std::uint32_t { program = 1, objects = 2, tables = 3, end = 4 };

/// Writes one rank's file. One thread.
class checkpoint_writer final : public object_sink {
public:
  /// Makes the file. \param durable `finish` waits until it is on the disk. \throws, as all of
  /// these, error(io) naming rank and file.
  checkpoint_writer(std::string path, checkpoint_head head, bool durable);
  ~checkpoint_writer();
  checkpoint_writer(const checkpoint_writer&) = delete;
  checkpoint_writer& operator=(const checkpoint_writer&) = delete;
  /// \return where its bytes begin in the file.
  std::uint64_t add(std::span<const std::byte> object) override;
  void part(checkpoint_part what, std::span<const std::byte> bytes);
  void finish(std::span<const std::byte> tables) override;
  std::uint64_t bytes() const noexcept { return at_; }

private:
  void flush();
  void write(const void* from, std::size_t bytes);
  [[noreturn]] void fail(const char* what, int code) const;

  const std::string path_;
  const checkpoint_head head_;
  const bool durable_;
  int fd_ = -1;
  std::uint64_t at_ = 0, begun_ = 0; ///< the file's length; of those bytes, the kernel was asked to write
  byte_buffer some_;                 ///< objects that are written together
  std::size_t filled_ = 0;
};

/// Reads one rank's file. One thread.
///
/// Nothing that the file says is believed before its sum is found to be right. \throws
/// error(invalid_data) naming file and offset for one that is damaged; error(unsupported) for a
/// newer format; error(not_found) if there is none; error(io).
class checkpoint_reader final : public object_source {
public:
  checkpoint_reader(std::string path, std::uint64_t generation, int rank);
  ~checkpoint_reader();
  checkpoint_reader(checkpoint_reader&& o) noexcept;
  checkpoint_reader& operator=(checkpoint_reader&&) = delete;
  const checkpoint_head& head() const noexcept { return head_; }
  const std::string& path() const noexcept { return path_; }
  std::uint64_t bytes() const noexcept override { return size_; }
  std::string name() const override { return path_; }
  /// The part that stands first, and the one that stands last but the end.
  byte_buffer program() const;
  byte_buffer tables() const;
  /// Reads all of it, and looks at each sum.
  void verify() const;
  void read(std::uint64_t offset, std::span<std::byte> to) const override;
  [[noreturn]] void damaged(std::uint64_t offset, const std::string& what) const;

private:
  struct part_head;
  part_head head_at(std::uint64_t offset) const;
  byte_buffer part_at(std::uint64_t offset, checkpoint_part expected) const;

  std::string path_;
  int fd_ = -1;
  std::uint64_t size_ = 0;
  checkpoint_head head_;
};

/// The folder of a job's checkpoints, which has a folder for each.
class checkpoint_folder {
public:
  explicit checkpoint_folder(std::string path) : path_(std::move(path)) {}
  /// "run.ckpt/checkpoint-000017".
  std::string of(std::uint64_t generation) const;
  std::string file(std::uint64_t generation, int rank, bool finished = true) const;
  /// Those that are there, the newest first. \throws error(not_found) if there is no such folder,
  /// or none in it; error(io).
  std::vector<std::uint64_t> generations() const;
  /// Makes the folder, and in it one for a new checkpoint that is not finished; what others have
  /// not finished is removed. \return its generation. \throws error(io).
  std::uint64_t begin() const;
  /// It is one from now on. \throws error(io).
  void commit(std::uint64_t generation, bool durable) const;
  /// What was begun is removed.
  void give_up(std::uint64_t generation) const noexcept;
  /// Removes all finished ones but these two.
  void keep(std::uint64_t one, std::uint64_t other) const noexcept;

private:
  std::vector<std::uint64_t> found() const;
  const std::string path_;
};

} // namespace tern::mobile::detail
