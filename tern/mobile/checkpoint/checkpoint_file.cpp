// SPDX-License-Identifier: Apache-2.0
/// \file
/// One file of a checkpoint.
#include <tern/mobile/checkpoint/checkpoint_file.hpp>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#define XXH_INLINE_ALL // so that no library is needed where Tern runs
#include <xxhash.h>

#include <tern/base/error.hpp>
#include <tern/task/sim.hpp>

namespace tern::mobile::detail {
namespace {

constexpr std::size_t most_together = std::size_t{4} << 20; // bytes of objects in a part, but for larger ones
constexpr std::uint64_t ahead = std::uint64_t{16} << 20;    // after so many bytes the disk begins
constexpr std::uint32_t part_mark = 0x54726b50;             // "PkrT"

// Before each part.
struct head_of_part {
  std::uint32_t mark = part_mark;
  std::uint32_t kind = 0;
  std::uint64_t bytes = 0;
  std::uint64_t at = 0;      // its place in the file
  std::uint64_t content = 0; // XXH3 of what follows
  std::uint64_t sum = 0;     // of what is before it, and the generation
};
static_assert(sizeof(head_of_part) == 40);

// What the last part has.
struct end_of_file {
  std::uint64_t tables = 0, bytes = 0, unused = 0;
};
constexpr std::size_t end_bytes = sizeof(head_of_part) + sizeof(end_of_file);

std::uint64_t sum_of(const void* from, std::size_t bytes) { return XXH3_64bits(from, bytes); }
std::uint64_t sum_of_head(const head_of_part& h, std::uint64_t generation) {
  return XXH3_64bits_withSeed(&h, offsetof(head_of_part, sum), generation);
}
std::string reason(int code) { return std::generic_category().message(code); }

} // namespace

struct checkpoint_reader::part_head : head_of_part {};

// Writing -------------------------------------------------------------------------------------------------------------

checkpoint_writer::checkpoint_writer(std::string path, checkpoint_head head, bool durable)
    : path_(std::move(path)), head_([&] {
        head.sum = sum_of(&head, offsetof(checkpoint_head, sum));
        return head;
      }()),
      durable_(durable), some_(most_together) {
  const sim::outside_world disk;
  fd_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (fd_ < 0) fail("make", errno);
  try {
    write(&head_, sizeof head_);
  } catch (...) {
    ::close(fd_);
    throw;
  }
}

checkpoint_writer::~checkpoint_writer() {
  if (fd_ >= 0) ::close(fd_);
}

void checkpoint_writer::fail(const char* what, int code) const {
  const char* const hint =
      code == ENOSPC || code == EDQUOT || code == EFBIG
          ? "make room, or give tern::checkpoint a folder on another disk; the last checkpoint is as it was"
      : code == ENOENT || code == ENOTDIR
          ? "give tern::checkpoint a folder on a file system that all ranks share"
          : "give tern::checkpoint a folder that may be written to; the last checkpoint is as it was";
  throw error(errc::io,
              "rank " + std::to_string(head_.rank) + " cannot " + what + " the checkpoint's file " + path_ + ": " +
                  reason(code),
              hint);
}

void checkpoint_writer::write(const void* from, std::size_t bytes) {
  const sim::outside_world disk;
  const auto* at = static_cast<const char*>(from);
  for (std::size_t left = bytes; left > 0;) {
    const ssize_t n = ::write(fd_, at, left);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail("write", errno);
    at += n;
    left -= static_cast<std::size_t>(n);
  }
  at_ += bytes;
  if (durable_ && at_ - begun_ >= ahead) { // while the next objects are packed
    ::sync_file_range(fd_, static_cast<off_t>(begun_), static_cast<off_t>(at_ - begun_), SYNC_FILE_RANGE_WRITE);
    begun_ = at_;
  }
}

std::uint64_t checkpoint_writer::add(std::span<const std::byte> object) {
  if (object.size() > most_together - filled_) flush();
  const std::uint64_t begin = at_ + sizeof(head_of_part) + filled_;
  if (object.size() > most_together) {
    part(checkpoint_part::objects, object);
    return begin;
  }
  if (!object.empty()) std::memcpy(some_.data() + filled_, object.data(), object.size());
  filled_ += object.size();
  return begin;
}

void checkpoint_writer::flush() {
  if (filled_ == 0) return;
  part(checkpoint_part::objects, std::span(some_.data(), std::exchange(filled_, 0)));
}

void checkpoint_writer::part(checkpoint_part what, std::span<const std::byte> bytes) {
  head_of_part h;
  h.kind = static_cast<std::uint32_t>(what);
  h.bytes = bytes.size();
  h.at = at_;
  h.content = sum_of(bytes.data(), bytes.size());
  h.sum = sum_of_head(h, head_.generation);
  write(&h, sizeof h);
  write(bytes.data(), bytes.size());
}

void checkpoint_writer::finish(std::span<const std::byte> tables) {
  flush();
  end_of_file end;
  end.tables = at_;
  part(checkpoint_part::tables, tables);
  end.bytes = at_ + end_bytes;
  part(checkpoint_part::end, std::as_bytes(std::span(&end, 1)));
  if (durable_ && ::fsync(fd_) != 0) fail("write", errno);
  if (::close(std::exchange(fd_, -1)) != 0) fail("write", errno);
}

// Reading -------------------------------------------------------------------------------------------------------------

checkpoint_reader::checkpoint_reader(std::string path, std::uint64_t generation, int rank) : path_(std::move(path)) {
  const sim::outside_world disk;
  fd_ = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd_ < 0)
    throw error(errno == ENOENT ? errc::not_found : errc::io,
                "the checkpoint's file " + path_ + " cannot be read: " + reason(errno),
                "all ranks read all files: give a folder on a file system that they share");
  struct stat s {};
  if (::fstat(fd_, &s) == 0) size_ = static_cast<std::uint64_t>(s.st_size);
  try {
    if (size_ < sizeof head_ + end_bytes) damaged(size_, "nothing more: it is cut off");
    read(0, std::as_writable_bytes(std::span(&head_, 1)));
    if (head_.sum != sum_of(&head_, offsetof(checkpoint_head, sum)))
      damaged(0, head_.magic == checkpoint_head::sign ? "a head whose checksum is wrong" : "no head of a checkpoint");
    if (head_.magic != checkpoint_head::sign) damaged(0, "no head of a checkpoint");
    if (head_.version != checkpoint_head::newest)
      throw error(errc::unsupported,
                  path_ + " has format " + std::to_string(head_.version) + ", and this program reads format " +
                      std::to_string(checkpoint_head::newest),
                  "go on with the version of Tern that has written it, or a newer one");
    if (head_.generation != generation || head_.rank != static_cast<std::uint32_t>(rank) || head_.rank >= head_.ranks ||
        head_.ranks > head_.homes || head_.homes > 1u << 24)
      damaged(0, "the head of another file");
  } catch (...) {
    ::close(fd_);
    throw;
  }
  ::posix_fadvise(fd_, 0, 0, POSIX_FADV_SEQUENTIAL);
}

checkpoint_reader::checkpoint_reader(checkpoint_reader&& o) noexcept
    : path_(std::move(o.path_)), fd_(std::exchange(o.fd_, -1)), size_(o.size_), head_(o.head_) {}

checkpoint_reader::~checkpoint_reader() {
  if (fd_ >= 0) ::close(fd_);
}

void checkpoint_reader::damaged(std::uint64_t offset, const std::string& what) const {
  throw error(errc::invalid_data, path_ + ": at offset " + std::to_string(offset) + " there is " + what,
              "it was damaged since it was written, or is no checkpoint");
}

void checkpoint_reader::read(std::uint64_t offset, std::span<std::byte> to) const {
  if (offset > size_ || to.size() > size_ - offset) damaged(offset, "less than belongs there");
  const sim::outside_world disk;
  while (!to.empty()) {
    const ssize_t n = ::pread(fd_, to.data(), to.size(), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw error(errc::io, "the checkpoint's file " + path_ + " cannot be read: " + reason(errno));
    if (n == 0) damaged(offset, "nothing more: it is cut off");
    offset += static_cast<std::uint64_t>(n);
    to = to.subspan(static_cast<std::size_t>(n));
  }
}

checkpoint_reader::part_head checkpoint_reader::head_at(std::uint64_t offset) const {
  part_head h;
  if (size_ - offset < sizeof(head_of_part)) damaged(offset, "a part that is cut off");
  read(offset, std::as_writable_bytes(std::span(static_cast<head_of_part*>(&h), 1)));
  if (h.mark != part_mark || h.at != offset || h.sum != sum_of_head(h, head_.generation))
    damaged(offset, "the beginning of a part whose checksum is wrong");
  if (h.bytes > size_ - offset - sizeof(head_of_part)) damaged(offset, "a part that is cut off");
  return h;
}

byte_buffer checkpoint_reader::part_at(std::uint64_t offset, checkpoint_part expected) const {
  const part_head h = head_at(offset);
  if (h.kind != static_cast<std::uint32_t>(expected)) damaged(offset, "another part than there should be");
  byte_buffer content(static_cast<std::size_t>(h.bytes));
  read(offset + sizeof(head_of_part), {content.data(), content.size()});
  if (h.content != sum_of(content.data(), content.size())) damaged(offset, "a part whose checksum is wrong");
  return content;
}

byte_buffer checkpoint_reader::program() const { return part_at(sizeof head_, checkpoint_part::program); }

byte_buffer checkpoint_reader::tables() const {
  const byte_buffer content = part_at(size_ - end_bytes, checkpoint_part::end);
  end_of_file end;
  if (content.size() != sizeof end) damaged(size_ - end_bytes, "no end");
  std::memcpy(&end, content.data(), sizeof end);
  if (end.bytes != size_) damaged(size_ - end_bytes, "the end of a file of another length");
  if (end.tables > size_ - end_bytes) damaged(size_ - end_bytes, "a place that the file does not have");
  return part_at(end.tables, checkpoint_part::tables);
}

void checkpoint_reader::verify() const {
  byte_buffer some(most_together);
  auto before = checkpoint_part::program;
  for (std::uint64_t at = sizeof head_; at < size_;) {
    const part_head h = head_at(at);
    const auto kind = static_cast<checkpoint_part>(h.kind);
    if (kind < before || kind > checkpoint_part::end || (at > sizeof head_ && kind == checkpoint_part::program))
      damaged(at, "another part than there should be");
    before = kind;
    XXH3_state_t sum;
    XXH3_64bits_reset(&sum);
    std::uint64_t from = at + sizeof(head_of_part);
    for (std::uint64_t left = h.bytes; left > 0;) {
      const auto n = static_cast<std::size_t>(std::min<std::uint64_t>(left, some.size()));
      // The disk goes on while this is looked at.
      ::posix_fadvise(fd_, static_cast<off_t>(from + n), static_cast<off_t>(4 * most_together), POSIX_FADV_WILLNEED);
      read(from, {some.data(), n});
      XXH3_64bits_update(&sum, some.data(), n);
      from += n;
      left -= n;
    }
    if (h.content != XXH3_64bits_digest(&sum)) damaged(at, "a part whose checksum is wrong");
    at = from;
  }
  if (before != checkpoint_part::end) damaged(size_, "nothing more: the end is missing");
  static_cast<void>(tables());
}

} // namespace tern::mobile::detail
