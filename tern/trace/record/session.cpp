// SPDX-License-Identifier: Apache-2.0
/// \file
/// The file of a part: making it, giving its chunks to rings and to the table, ending it.
#include <tern/trace/record/session.hpp>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <system_error>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <tern/base/error.hpp>
#include <tern/trace/record/clock.hpp>

namespace tern::trace {

std::int64_t clock_ns() noexcept {
  std::timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::int64_t>(now.tv_sec) * 1'000'000'000 + now.tv_nsec;
}

namespace detail {
namespace {

constexpr std::size_t lossless_chunk = 8 * page;
constexpr std::size_t largest_chunk = 4 * page; // of a ring that overwrites: a sixteenth of the usual ring
constexpr std::size_t fewest_chunks = 4;        // so that little more than a quarter is lost at once
constexpr std::int64_t calibration = 1'000'000; // ns; an interval that gives the counter's speed to a few parts in 1e4

std::string reason() { return std::generic_category().message(errno); }

template <class T> void publish(T& to, T value) noexcept {
  std::atomic_ref<T>(to).store(value, std::memory_order_release); // after what it announces, for a reader of the file
}

// Both clocks at once: of some tries the one that was interrupted least.
clock_pair both_clocks() noexcept {
  clock_pair best;
  std::uint64_t shortest = ~0ull;
  for (int i = 0; i < 5; ++i) {
    const std::uint64_t before = counter();
    const std::int64_t ns = clock_ns();
    const std::uint64_t took = counter() - before;
    if (took < shortest) {
      shortest = took;
      best = {before + took / 2, ns};
    }
  }
  return best;
}

// \return 0 or an error's number. Beyond the limit (ulimit -f) the kernel would send SIGXFSZ, which
// ends the process.
int allocate(int file, off_t at, std::size_t bytes) noexcept {
  rlimit limit{};
  if (::getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
      static_cast<rlim_t>(at) + bytes > limit.rlim_cur)
    return EFBIG;
  int e = 0;
  while ((e = ::posix_fallocate(file, at, static_cast<off_t>(bytes))) == EINTR) {
  }
  return e;
}

int new_file(const std::string& path, std::size_t header_bytes) {
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (fd < 0)
    throw error(errc::io, "a part of the trace, " + path + ", cannot be made: " + reason(),
                "name a trace file in a folder that can be written to");
  ::flock(fd, LOCK_EX | LOCK_NB); // tells other jobs that it is in use; some file systems have no locks
  if (const int e = allocate(fd, 0, header_bytes)) {
    errno = e;
    const std::string why = reason();
    ::close(fd);
    ::unlink(path.c_str());
    throw error(errc::io, "there is no room for a part of the trace, " + path + ": " + why);
  }
  return fd;
}

} // namespace

ring::~ring() {
  for (chunk_header* c : chunks) ::munmap(c, chunk_bytes);
}

session::session(recorder_settings s, std::uint32_t n) : settings(std::move(s)), number(n) {
  const auto ring_bytes = static_cast<std::size_t>(settings.ring_kib) * 1024;
  chunk_bytes_ = settings.lossless ? lossless_chunk : std::clamp(ring_bytes / 16 / page * page, page, largest_chunk);
  ring_chunks_ = std::max(fewest_chunks, ring_bytes / chunk_bytes_);
  std::error_code ignored;
  std::filesystem::create_directories(settings.folder, ignored); // opening the file will tell

  char host[sizeof part_header::host] = {};
  ::gethostname(host, sizeof host - 1);
  path = settings.folder + "/" + host + "-" + std::to_string(::getpid()) + "-" + std::to_string(number) + part_suffix;
  // Under another name until the header is whole: a part is never without one.
  const std::string young = path + ".new";
  file_ = new_file(young, page);
  file_bytes_ = page;
  void* const at = ::mmap(nullptr, page, PROT_READ | PROT_WRITE, MAP_SHARED, file_, 0);
  if (at == MAP_FAILED) {
    const std::string why = reason();
    ::close(file_);
    ::unlink(young.c_str());
    throw error(errc::io, "a part of the trace, " + path + ", cannot be mapped: " + why,
                "put the trace on another file system");
  }
  header_ = ::new (at) part_header{};
  std::memcpy(header_->magic, part_magic, sizeof part_magic);
  header_->order = part_order;
  header_->version = part_version;
  header_->record_bytes = sizeof(record);
  header_->chunk_bytes = static_cast<std::uint32_t>(chunk_bytes_);
  header_->process = static_cast<std::uint32_t>(::getpid());
  header_->ranks = settings.ranks;
  header_->rank = settings.rank;
  std::memcpy(header_->host, host, sizeof host);
  if (settings.clock) {
    header_->clock = clock_kind::simulated;
    clock_ = settings.clock;
  } else if (counter_is_steady()) {
    header_->clock = clock_kind::counter;
    const clock_pair first = both_clocks();
    clock_pair then = first;
    while (then.ns - first.ns < calibration) then = both_clocks();
    header_->counts_per_ns = static_cast<double>(then.count - first.count) / static_cast<double>(then.ns - first.ns);
    header_->begin = header_->latest[0] = header_->latest[1] = then;
  } else {
    header_->clock = clock_kind::nanoseconds;
    clock_ = clock_ns;
  }
  if (::rename(young.c_str(), path.c_str()) != 0) {
    const std::string why = reason();
    ::munmap(header_, page);
    ::close(file_);
    ::unlink(young.c_str());
    throw error(errc::io, "a part of the trace, " + path + ", cannot be made: " + why);
  }
}

session::~session() {
  for (auto& r : rings_) {
    if (r->in_use) { // its thread may be writing just now: that thread, or its end, will free it
      std::erase_if(r->chunks, [&](chunk_header* c) {
        if (c == r->chunk) return false;
        ::munmap(c, chunk_bytes_);
        return true;
      });
      r->home = nullptr;
      static_cast<void>(r.release());
    }
  }
  rings_.clear();
  if (table_) ::munmap(table_, chunk_bytes_);
  ::munmap(header_, page);
  if (file_ >= 0) ::close(file_);
}

void session::note_time() noexcept {
  if (header_->clock != clock_kind::counter) return;
  const std::uint32_t other = 1 - header_->which_latest;
  header_->latest[other] = both_clocks();
  publish(header_->which_latest, other);
}

// Never a page that the disk has no room for: writing to that would be a SIGBUS.
chunk_header* session::new_chunk() noexcept {
  if (no_room_until_ != 0 && clock_ns() < no_room_until_) return nullptr;
  no_room_until_ = 0;
  const auto at = static_cast<off_t>(file_bytes_);
  if (const int e = allocate(file_, at, chunk_bytes_)) {
    if (e != EFBIG) static_cast<void>(::ftruncate(file_, at)); // what was got of it
    no_room_until_ = clock_ns() + retry_ns;
    return nullptr;
  }
  void* const m = ::mmap(nullptr, chunk_bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, file_, at);
  if (m == MAP_FAILED) return nullptr;
#ifdef MADV_POPULATE_WRITE
  ::madvise(m, chunk_bytes_, MADV_POPULATE_WRITE); // all faults at once, not one at each 128th record
#endif
  file_bytes_ += chunk_bytes_;
  return ::new (m) chunk_header{};
}

ring* session::attach() {
  for (auto& r : rings_)
    if (!r->in_use) {
      r->in_use = true;
      r->track = no_track;
      r->fiber = 0;
      r->batches = 0;
      return r.get();
    }
  auto r = std::make_unique<ring>();
  r->home = this;
  r->recording = number;
  r->clock = clock_;
  r->chunk_bytes = chunk_bytes_;
  r->simulated = settings.clock != nullptr;
  r->number = static_cast<std::uint32_t>(rings_.size());
  r->sample = settings.tasklet_sample;
  r->texts = texts_;
  rings_.push_back(std::move(r));
  return rings_.back().get();
}

bool session::advance(ring& r) noexcept {
  note_time();
  take_dropped(r);
  const bool grow = settings.lossless || r.chunks.size() < ring_chunks_;
  chunk_header* c = nullptr;
  if (grow) {
    try {
      r.chunks.reserve(r.chunks.size() + 1);
      c = new_chunk();
    } catch (const std::bad_alloc&) {
    }
  }
  if (c) {
    c->magic = chunk_magic;
    c->kind = chunk_kind::ring;
    c->ring = r.number;
    publish(c->sequence, r.sequence);
    if (settings.lossless) {
      for (chunk_header* done : r.chunks) ::munmap(done, chunk_bytes_);
      r.chunks.clear();
    }
    r.chunks.push_back(c);
  } else {
    if (r.chunks.empty()) return false;
    c = r.chunks[r.turn];
    r.turn = r.turn + 1 == r.chunks.size() ? 0 : r.turn + 1;
    publish(c->used, std::uint64_t{0}); // first: its old records must not be taken for the new sequence number's
    publish(c->sequence, r.sequence);
  }
  ++r.sequence;
  r.chunk = c;
  r.next = reinterpret_cast<record*>(c + 1);
  r.end = r.next + records_in(chunk_bytes_);
  return true;
}

bool session::add_entry(std::uint32_t kind, const void* bytes, std::size_t length) {
  const std::size_t size = (sizeof(table_entry) + length + 7) / 8 * 8;
  if (!table_ || sizeof(chunk_header) + table_->used + size > chunk_bytes_) {
    chunk_header* const c = new_chunk();
    if (!c) return false;
    c->magic = chunk_magic;
    c->kind = chunk_kind::table;
    c->ring = ~0u;
    publish(c->sequence, table_sequence_++);
    if (table_) ::munmap(table_, chunk_bytes_);
    table_ = c;
  }
  std::byte* const at = reinterpret_cast<std::byte*>(table_ + 1) + table_->used;
  const table_entry e{kind, static_cast<std::uint32_t>(length)};
  std::memcpy(at, &e, sizeof e);
  std::memcpy(at + sizeof e, bytes, length);
  publish(table_->used, table_->used + size);
  return true;
}

std::uint32_t session::name_number(std::string_view text, std::string_view& kept) {
  if (text.size() > longest_name) {
    text = text.substr(0, longest_name);
    // Not in the middle of a character.
    while (!text.empty() && (static_cast<unsigned char>(text.back()) & 0xc0) == 0x80) text.remove_suffix(1);
    if (!text.empty() && (static_cast<unsigned char>(text.back()) & 0xc0) == 0xc0) text.remove_suffix(1);
  }
  if (const auto found = numbers_.find(text); found != numbers_.end()) {
    kept = found->first;
    return found->second;
  }
  kept = {};
  const bool last = names_ + 1 >= static_cast<std::uint32_t>(settings.most_names);
  if (too_many_ != 0) {
    ++header_->names_refused;
    return too_many_;
  }
  if (last) {
    ++header_->names_refused;
    text = "(more names than the trace may have)";
  }
  texts_->emplace_back(text);
  if (!add_entry(table_entry::name, texts_->back().data(), text.size())) {
    ++header_->names_refused;
    texts_->pop_back();
    return 0;
  }
  ++names_;
  if (last) return too_many_ = names_;
  kept = texts_->back();
  numbers_.emplace(kept, names_);
  return names_;
}

std::uint32_t session::new_track(int rank, int worker, std::string_view name) {
  std::string_view ignored;
  const table_track t{rank, worker, name.empty() ? 0 : name_number(name, ignored), 0};
  if (tracks_ >= no_track || !add_entry(table_entry::track, &t, sizeof t)) return no_track;
  return tracks_++;
}

std::uint32_t session::foreign_track() {
  const int n = foreign_++;
  return new_track(settings.rank, first_foreign + n,
                   "thread " + std::to_string(settings.clock ? n : ::syscall(SYS_gettid)));
}

// Objects leave room for the names of handlers, which may be met later.
void session::name_object(std::uint64_t object, std::string_view name) {
  const auto known = objects_.find(object);
  if (known == objects_.end() && objects_.size() >= static_cast<std::size_t>(settings.most_names) / 2) {
    ++header_->names_refused;
    return;
  }
  std::string_view ignored;
  const table_object o{object, name_number(name, ignored), 0};
  if (o.name == 0 || o.name == too_many_ || (known != objects_.end() && known->second == o.name)) return;
  if (add_entry(table_entry::object, &o, sizeof o)) objects_[object] = o.name;
}

void session::clock_offset(std::int64_t at, std::int64_t add) noexcept {
  const std::uint32_t which = header_->offsets == 0 ? 0 : 1;
  header_->offset[which] = {at, add};
  publish(header_->offsets, which + 1);
}

void session::finish() noexcept {
  note_time();
  for (const auto& r : rings_) take_dropped(*r);
  publish(header_->ended, std::uint32_t{1});
  ::flock(file_, LOCK_UN); // for children too that were forked from this process
}

void session::close_file() noexcept {
  ::close(file_);
  file_ = -1;
}

void session::take_dropped(ring& r) noexcept { header_->dropped += r.dropped.exchange(0, std::memory_order_relaxed); }

} // namespace detail
} // namespace tern::trace
