// SPDX-License-Identifier: Apache-2.0
#include <tern/trace/part/part.hpp>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <map>
#include <system_error>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <tern/base/error.hpp>
#include <tern/base/log.hpp>

namespace tern::trace::detail {
namespace {

constexpr double longest = 9e18; // ns: what an int64 holds

std::int64_t clamped(double ns) noexcept { return static_cast<std::int64_t>(std::clamp(ns, -longest, longest)); }
double between(std::int64_t from, std::int64_t to) noexcept {
  return static_cast<double>(to) - static_cast<double>(from);
}

// As it stands; the writer may be at work.
std::uint64_t acquire(const std::uint64_t& value) noexcept {
  return std::atomic_ref(const_cast<std::uint64_t&>(value)).load(std::memory_order_acquire);
}

// How many bytes of `text` at `i` are one character of UTF-8 (RFC 3629); 0: none.
std::size_t character(std::string_view text, std::size_t i) noexcept {
  const auto at = [&](std::size_t k) {
    return k < text.size() ? static_cast<unsigned char>(text[k]) : static_cast<unsigned char>(0);
  };
  const unsigned char first = at(i);
  if (first < 0x80) return 1;
  const std::size_t n = first >= 0xc2 && first < 0xe0   ? 2
                        : first >= 0xe0 && first < 0xf0 ? 3
                        : first >= 0xf0 && first < 0xf5 ? 4
                                                        : 0;
  for (std::size_t k = 1; k < n; ++k)
    if ((at(i + k) & 0xc0) != 0x80) return 0;
  const unsigned char second = at(i + 1);
  if ((first == 0xe0 && second < 0xa0) || (first == 0xed && second >= 0xa0) || (first == 0xf0 && second < 0x90) ||
      (first == 0xf4 && second >= 0x90))
    return 0; // longer than need be, a surrogate, or beyond Unicode
  return n;
}

} // namespace

void append_json(std::string& out, std::string_view text) {
  constexpr char digits[] = "0123456789abcdef";
  out += '"';
  for (std::size_t i = 0; i < text.size();) {
    const auto c = static_cast<unsigned char>(text[i]);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += text[i++];
    } else if (c < 0x20 || c == 0x7f) {
      out += "\\u00";
      out += digits[c >> 4];
      out += digits[c & 15];
      ++i;
    } else if (const std::size_t n = character(text, i)) {
      out += text.substr(i, n);
      i += n;
    } else {
      out += "\\ufffd";
      ++i;
    }
  }
  out += '"';
}

bool is_recorded(const std::string& path) noexcept {
  int fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK); // NFS locks only what may be written
  if (fd < 0) fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return false;
  const bool held = ::flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  ::close(fd);
  return held;
}

std::error_code remove_idle_parts(const std::string& folder, const std::vector<std::string>& keep) {
  namespace fs = std::filesystem;
  std::error_code e, first;
  std::vector<fs::path> found;
  for (const auto& entry : fs::directory_iterator(folder, e)) {
    const std::string name = entry.path().filename().string();
    if (std::find(keep.begin(), keep.end(), name) != keep.end()) continue;
    if (name.ends_with(part_suffix) || name.ends_with(std::string(part_suffix) + ".new")) found.push_back(entry.path());
  }
  first = e;
  for (const fs::path& p : found) {
    if (is_recorded(p.string()))
      log_warning("another job that still runs records into " + p.string() +
                  ", which is left there: two jobs should "
                  "not have one trace file");
    else if (fs::remove(p, e); e && !first)
      first = e;
  }
  return first;
}

part::part(std::string path) : path_(std::move(path)) {
  const auto failed = [&](const char* what) {
    return error(errc::io, std::string("a part of a trace, ") + path_ + ", cannot be " + what + ": " +
                               std::generic_category().message(errno));
  };
  const int fd = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK); // a pipe of that name must not stop us
  if (fd < 0) throw failed("opened");
  struct stat s {};
  if (::fstat(fd, &s) != 0 || !S_ISREG(s.st_mode)) {
    ::close(fd);
    refuse("is no file");
  }
  size_ = static_cast<std::size_t>(s.st_size);
  if (size_ < sizeof(part_header)) {
    ::close(fd);
    refuse("has " + std::to_string(size_) + " bytes, fewer than any part");
  }
  void* const m = ::mmap(nullptr, size_, PROT_READ, MAP_SHARED, fd, 0);
  const int e = errno;
  ::close(fd);
  errno = e;
  if (m == MAP_FAILED) throw failed("mapped");
  bytes_ = static_cast<const std::byte*>(m);
  try {
    std::memcpy(&header_, bytes_, sizeof header_);
    check_header();
    set_clock();
    read_chunks();
  } catch (...) {
    ::munmap(const_cast<std::byte*>(bytes_), size_);
    throw;
  }
}

part::~part() { ::munmap(const_cast<std::byte*>(bytes_), size_); }

void part::refuse(const std::string& what) const {
  throw error(errc::invalid_data, path_ + " is no part of a trace that can be read: it " + what,
              "remove the file to merge the others");
}

void part::check_header() const {
  if (std::memcmp(header_.magic, part_magic, sizeof part_magic) != 0) refuse("does not begin as one");
  if (header_.order != part_order) refuse("was written on a machine of the other byte order");
  if (header_.version != part_version)
    refuse("is of version " + std::to_string(header_.version) + ", and this Tern reads " +
           std::to_string(part_version));
  const std::uint32_t c = header_.chunk_bytes;
  if (header_.record_bytes != sizeof(record) || c < page || c > most_chunk_bytes || c % page != 0)
    refuse("has records of " + std::to_string(header_.record_bytes) + " bytes in chunks of " + std::to_string(c));
  if (header_.ranks < 1 || header_.ranks > 1 << 24 || header_.rank < 0 || header_.rank >= header_.ranks)
    refuse("is of rank " + std::to_string(header_.rank) + " of " + std::to_string(header_.ranks));
  if (header_.which_latest > 1 || header_.offsets > 2) refuse("has an impossible clock");
}

// The counter's line through the first and the last moment known, onto which that of the offsets is
// added.
void part::set_clock() {
  const part_header& h = header_;
  double speed = 1; // ns a count
  switch (h.clock) {
  case clock_kind::simulated:
    return; // virtual time is the same for all
  case clock_kind::nanoseconds:
    break;
  case clock_kind::counter: {
    if (!std::isfinite(h.counts_per_ns) || h.counts_per_ns < 1e-4 || h.counts_per_ns > 1e3)
      refuse("has a clock of " + std::to_string(h.counts_per_ns) + " counts a nanosecond");
    speed = 1 / h.counts_per_ns;
    const clock_pair last = h.latest[h.which_latest];
    const double ns = between(h.begin.ns, last.ns);
    if (last.count > h.begin.count && ns > 1e7) { // else the first measurement is as good
      const double measured = ns / static_cast<double>(last.count - h.begin.count);
      if (measured > 0.9 * speed && measured < 1.1 * speed) speed = measured;
    }
    origin_ = h.begin.count;
    base_ = h.begin.ns;
    break;
  }
  default:
    refuse("has a clock of kind " + std::to_string(static_cast<std::uint32_t>(h.clock)));
  }
  speed_ = speed;
  if (h.offsets == 0) return;
  const clock_offset &a = h.offset[0], &b = h.offset[h.offsets - 1];
  const double span = between(a.at, b.at);
  double drift = span > 0 ? between(a.add, b.add) / span : 0;
  if (!(std::abs(drift) < 0.1)) drift = 0; // no clock is that wrong
  // time + add + drift * (time - at), with time = base + speed * (count - origin)
  base_ = static_cast<std::int64_t>(static_cast<std::uint64_t>(base_) + static_cast<std::uint64_t>(a.add) +
                                    static_cast<std::uint64_t>(clamped(drift * between(a.at, base_))));
  speed_ = (1 + drift) * speed;
}

std::int64_t part::time(std::uint64_t count) const noexcept {
  if (header_.clock == clock_kind::simulated) return static_cast<std::int64_t>(count);
  const double since = static_cast<double>(static_cast<std::int64_t>(count - origin_)) * speed_;
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(base_) + static_cast<std::uint64_t>(clamped(since)));
}

void part::read_chunks() {
  const std::size_t chunk_bytes = header_.chunk_bytes;
  std::map<std::uint32_t, std::vector<chunk>> found;
  std::vector<chunk> table;
  std::size_t at = page;
  for (; at + chunk_bytes <= size_; at += chunk_bytes) {
    const auto* c = reinterpret_cast<const chunk_header*>(bytes_ + at);
    if (c->magic == 0) continue; // the process ended before it could use it
    const std::uint64_t used = acquire(c->used);
    const bool of_ring = c->kind == chunk_kind::ring;
    if (c->magic != chunk_magic || (!of_ring && c->kind != chunk_kind::table) ||
        used > (of_ring ? records_in(chunk_bytes) : chunk_bytes - sizeof(chunk_header))) {
      ++damaged_;
      continue;
    }
    (of_ring ? found[c->ring] : table).push_back({c->sequence, reinterpret_cast<const record*>(c + 1), used});
  }
  cut_off_ = at < size_ || size_ < page;
  const auto in_order = [this](std::vector<chunk>& chunks) {
    std::sort(chunks.begin(), chunks.end(), [](const chunk& a, const chunk& b) {
      return a.sequence != b.sequence ? a.sequence < b.sequence : a.used > b.used;
    });
    const auto end = std::unique(chunks.begin(), chunks.end(),
                                 [](const chunk& a, const chunk& b) { return a.sequence == b.sequence; });
    damaged_ += static_cast<std::uint64_t>(chunks.end() - end);
    chunks.erase(end, chunks.end());
  };
  in_order(table);
  read_table(std::move(table));
  const std::uint64_t full = records_in(chunk_bytes);
  for (auto& [number, chunks] : found) {
    in_order(chunks);
    const chunk& last = chunks.back();
    std::uint64_t there = 0;
    for (const chunk& c : chunks) there += c.used;
    if (last.sequence < (std::uint64_t{1} << 40)) // all before the last one were full when they were left
      lost_ += last.sequence * full + last.used - std::min(there, last.sequence * full + last.used);
    else
      ++damaged_;
    rings_.push_back({number, std::move(chunks)});
  }
  lost_ += std::min(header_.dropped, std::uint64_t{1} << 60);
}

void part::read_table(std::vector<chunk> table) {
  names_.emplace_back("\"(no name)\"");
  std::uint64_t expected = 0;
  for (const chunk& c : table) {
    if (c.sequence != expected++) { // names after a hole would be the wrong ones
      ++damaged_;
      return;
    }
    const auto* const bytes = reinterpret_cast<const char*>(c.first);
    for (std::uint64_t at = 0; c.used - at >= sizeof(table_entry);) {
      table_entry e;
      std::memcpy(&e, bytes + at, sizeof e);
      at += sizeof e;
      const std::uint64_t size = (std::uint64_t{e.length} + 7) / 8 * 8;
      if (size > c.used - at) {
        ++damaged_;
        return;
      }
      if (e.kind == table_entry::name) {
        names_.emplace_back();
        append_json(names_.back(), {bytes + at, e.length});
      } else if (e.kind == table_entry::track && e.length == sizeof(table_track)) {
        table_track t;
        std::memcpy(&t, bytes + at, sizeof t);
        const bool sensible = t.rank >= 0 && t.rank < header_.ranks && t.worker >= 0 && t.worker < 1 << 30;
        if (!sensible) {
          ++damaged_;
          t.rank = header_.rank;
          t.worker = (1 << 29) + static_cast<int>(tracks_.size() & 0xffffff); // shown somewhere of its own
        }
        tracks_.push_back(
            {t.rank, t.worker,
             t.name != 0 && t.name < names_.size() ? names_[t.name] : "\"worker " + std::to_string(t.worker) + "\""});
      } else if (e.kind == table_entry::object && e.length == sizeof(table_object)) {
        table_object o;
        std::memcpy(&o, bytes + at, sizeof o);
        if (o.name != 0 && o.name < names_.size())
          objects_.emplace_back(o.object, o.name);
        else
          ++damaged_;
      } else {
        ++damaged_;
        return;
      }
      at += size;
    }
  }
}

} // namespace tern::trace::detail
