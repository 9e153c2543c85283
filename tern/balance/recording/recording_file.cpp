// SPDX-License-Identifier: Apache-2.0
/// \file
/// Recordings as files. Writing and reading share the description of each record, and what is
/// checked of it.

#include <tern/balance/recording.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cmath>
#include <concepts>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <system_error>
#include <tuple>
#include <utility>

#include <unistd.h>

#define XXH_INLINE_ALL // so that no library is needed where Tern runs
#include <xxhash.h>

#include <tern/base/error.hpp>

namespace tern::balance {
namespace {

using bytes = std::span<const std::byte>;

constexpr std::array<char, 8> magic{'\x89', 'T', 'e', 'r', 'n', 'R', 'e', 'c'};
constexpr std::uint32_t version = 1;
constexpr std::size_t file_head = 16, chunk_head = 16;
constexpr std::size_t most_chunk = std::size_t{1} << 20; // of what is written; what is read may be longer
constexpr std::size_t longest_text = 65535;
constexpr std::uint32_t most_ranks = 1 << 24; // as an object's id has it
constexpr std::uint32_t most_workers = 1 << 16;
constexpr double most = 1e18; // sums of so large numbers, and floats of them, are still finite

// In the order of the file: records refer to what stands before them.
constexpr std::array<const char*, 10> kinds{"run ", "phas", "name", "objs", "work",
                                            "link", "move", "busy", "note", "end "};
constexpr std::size_t last_kind = kinds.size() - 1;

// What a number is when written.
template <class T> struct stored_as { using type = T; };
template <> struct stored_as<double> { using type = std::uint64_t; };
template <> struct stored_as<std::int32_t> { using type = std::uint32_t; };
template <> struct stored_as<mobile::object_id> { using type = std::uint64_t; };

template <class T> void put(std::vector<std::byte>& to, const T& value) {
  if constexpr (std::same_as<T, std::string>) {
    put(to, static_cast<std::uint32_t>(value.size()));
    const auto text = std::as_bytes(std::span(value));
    to.insert(to.end(), text.begin(), text.end());
  } else {
    const auto raw = std::bit_cast<typename stored_as<T>::type>(value);
    for (std::size_t i = 0; i < sizeof raw; ++i) to.push_back(static_cast<std::byte>(raw >> 8 * i));
  }
}

/// A chunk's content, or a file.
class cursor {
public:
  cursor(bytes all, std::size_t from, std::size_t end, const std::string& name)
      : all_(all), at_(from), end_(end), name_(name) {}
  std::size_t at() const noexcept { return at_; }
  std::size_t left() const noexcept { return end_ - at_; }
  void skip(std::size_t n) noexcept { at_ += n; } ///< \pre n <= left()

  template <class T> T take() {
    if constexpr (std::same_as<T, std::string>) {
      const auto start = at_;
      const std::size_t length = take<std::uint32_t>();
      if (length > left()) fail(start, "a text that is longer than what contains it");
      std::string text(length, '\0');
      std::memcpy(text.data(), all_.data() + at_, length);
      at_ += length;
      return text;
    } else {
      typename stored_as<T>::type raw = 0;
      if (left() < sizeof raw) fail(at_, "a record that is cut off");
      for (std::size_t i = 0; i < sizeof raw; ++i)
        raw |= static_cast<decltype(raw)>(static_cast<decltype(raw)>(all_[at_ + i]) << 8 * i);
      at_ += sizeof raw;
      return std::bit_cast<T>(raw);
    }
  }
  [[noreturn]] void fail(std::size_t offset, const std::string& what) const {
    throw error(errc::invalid_data, name_ + ": at offset " + std::to_string(offset) + " there is " + what,
                "it is no recording, or was damaged since it was written: copy it again, or record again");
  }

private:
  bytes all_;
  std::size_t at_, end_;
  const std::string& name_;
};

// The fields of each record, in the order in which they are stored.
auto fields(auto& r) {
  using R = std::remove_const_t<std::remove_reference_t<decltype(r)>>;
  if constexpr (std::same_as<R, recording::object>)
    return std::tie(r.id, r.type, r.rank, r.bytes);
  else if constexpr (std::same_as<R, recording::work>)
    return std::tie(r.object, r.phase, r.invocations, r.seconds, r.device);
  else if constexpr (std::same_as<R, recording::link>)
    return std::tie(r.from, r.to, r.bytes, r.messages);
  else if constexpr (std::same_as<R, recording::migration>)
    return std::tie(r.at, r.object, r.from, r.to);
  else if constexpr (std::same_as<R, recording::busy>)
    return std::tie(r.at, r.rank, r.worker, r.seconds);
  else if constexpr (std::same_as<R, recording::note>)
    return std::tie(r.at, r.rank, r.name, r.value);
  else if constexpr (std::same_as<R, recording>) // the run
    return std::tie(r.ranks, r.workers, r.unit, r.length, r.program, r.policy, r.order);
  else
    return std::tie(r); // a name, the end of a phase
}

/// Calls `what(kind, table)` for all tables, in the order of the file.
void for_tables(auto& r, auto what) {
  what(1, r.phase_ends);
  what(2, r.names);
  what(3, r.objects);
  what(4, r.works);
  what(5, r.links);
  what(6, r.migrations);
  what(7, r.busies);
  what(8, r.notes);
}

// What is wrong with a record, given those before it in the file; null: nothing.

bool amount(double value) { return value >= 0 && value <= most; } // no NaN either
bool there(const recording& r, std::int32_t rank) { return rank >= 0 && rank < r.ranks; }
bool there(const recording& r, mobile::object_id id) {
  const auto found = std::lower_bound(r.objects.begin(), r.objects.end(), id,
                                      [](const auto& o, mobile::object_id wanted) { return o.id < wanted; });
  return found != r.objects.end() && found->id == id;
}
const char* flaw_of_run(const recording& r) {
  if (r.ranks < 1 || r.ranks > static_cast<int>(most_ranks)) return "a number of ranks that no job has";
  if (r.workers < 1 || r.workers > static_cast<int>(most_workers)) return "a number of workers that no rank has";
  if (!(r.unit > 0 && r.unit <= 1e9)) return "an impossible unit of time";
  if (!amount(r.length)) return "an impossible length of the run";
  return nullptr;
}
const char* flaw(const recording& r, const double& end, const double* before) {
  static_cast<void>(r);
  if (!amount(end)) return "the end of a phase at an impossible moment";
  return before && end < *before ? "a phase that ends before the one before it" : nullptr;
}
const char* flaw(const recording&, const std::string& name, const std::string*) {
  return name.size() > longest_text ? "a name of more than 65535 bytes" : nullptr;
}
const char* flaw(const recording& r, const recording::object& x, const recording::object* before) {
  if (!x.id || x.id.number() == 0) return "an object with an impossible name";
  if (before && x.id <= before->id) return "an object that is listed twice, or out of order";
  if (x.type >= r.names.size()) return "an object of a class without a name";
  if (!there(r, x.rank)) return "an object on a rank that there is not";
  return amount(x.bytes) ? nullptr : "an object of an impossible size";
}
const char* flaw(const recording& r, const recording::work& x, const recording::work* before) {
  if (!there(r, x.object)) return "work of an object that is not listed";
  if (before && std::tie(x.object, x.phase) <= std::tie(before->object, before->phase))
    return "work that is told twice, or out of order";
  if (x.phase >= r.phases()) return "work in a phase that there is not";
  return amount(x.seconds) && amount(x.device) ? nullptr : "work that takes an impossible time";
}
const char* flaw(const recording& r, const recording::link& x, const recording::link* before) {
  if (!there(r, x.from) || !there(r, x.to)) return "talk of an object that is not listed";
  if (before && std::tie(x.from, x.to) <= std::tie(before->from, before->to))
    return "talk that is told twice, or out of order";
  return amount(x.bytes) ? nullptr : "talk of an impossible size";
}
/// For what has a moment.
template <class R> const char* flaw(const recording& r, const R& x, const R* before) {
  if (!amount(x.at)) return "something at an impossible moment";
  if (before && x.at < before->at) return "something that is out of order";
  if constexpr (std::same_as<R, recording::migration>) {
    if (!there(r, x.from) || !there(r, x.to)) return "a move from or to a rank that there is not";
    return there(r, x.object) ? nullptr : "a move of an object that is not listed";
  } else {
    if (!there(r, x.rank)) return "something on a rank that there is not";
    if constexpr (std::same_as<R, recording::note>)
      return x.name < r.names.size() ? nullptr : "a note without a name";
    else
      return x.worker < 0 || x.worker >= r.workers ? "a worker that there is not"
             : amount(x.seconds)                   ? nullptr
                                                   : "a worker that was busy for an impossible time";
  }
}

void refuse(const std::string& what) {
  throw error(errc::invalid_argument, "this cannot be written as a recording: there is " + what,
              "what has recorded it is wrong; write to Tern's developers");
}

/// \throws as write_recording
void check(const recording& r) {
  if (const char* wrong = flaw_of_run(r)) refuse(wrong);
  for (const auto* text : {&r.program, &r.policy, &r.order})
    if (text->size() > longest_text) refuse("a text of more than 65535 bytes");
  for_tables(r, [&](int, const auto& table) {
    for (std::size_t i = 0; i < table.size(); ++i)
      if (const char* wrong = flaw(r, table[i], i ? &table[i - 1] : nullptr)) refuse(wrong);
  });
}

std::uint64_t checksum(std::uint64_t offset, bytes head, bytes content) {
  std::vector<std::byte> place;
  put(place, offset);
  XXH3_state_t state;
  XXH3_64bits_reset(&state);
  XXH3_64bits_update(&state, place.data(), place.size());
  XXH3_64bits_update(&state, head.data(), head.size());
  XXH3_64bits_update(&state, content.data(), content.size());
  return XXH3_64bits_digest(&state);
}

/// Gives the file to `out`, piece by piece.
class writer {
public:
  explicit writer(std::function<void(bytes)> out) : out_(std::move(out)) {}

  void write(const recording& r) {
    std::vector<std::byte> head;
    for (const char c : magic) head.push_back(static_cast<std::byte>(c));
    put(head, version);
    put(head, std::uint32_t{0});
    give(head);
    add(r);
    chunk(0);
    for_tables(r, [this](std::size_t kind, const auto& table) {
      for (const auto& x : table) {
        add(x);
        if (content_.size() >= most_chunk) chunk(kind);
      }
      if (!content_.empty()) chunk(kind);
    });
    put(content_, std::uint64_t{at_ + chunk_head + sizeof(std::uint64_t)});
    chunk(last_kind);
  }

private:
  void add(const auto& record) {
    std::apply([this](const auto&... field) { (put(content_, field), ...); }, fields(record));
  }
  void chunk(std::size_t kind) {
    std::vector<std::byte> head;
    for (int i = 0; i < 4; ++i) head.push_back(static_cast<std::byte>(kinds[kind][i]));
    put(head, static_cast<std::uint32_t>(content_.size()));
    put(head, checksum(at_, head, content_));
    give(head);
    give(content_);
    content_.clear();
  }
  void give(bytes what) {
    out_(what);
    at_ += what.size();
  }
  std::function<void(bytes)> out_;
  std::uint64_t at_ = 0;
  std::vector<std::byte> content_;
};

class reader {
public:
  reader(bytes all, const std::string& name) : all_(all), name_(name), file_(all, 0, all.size(), name) {}

  recording read() {
    head();
    std::size_t kind = 0;
    for (bool first = true; kind != last_kind; first = false) kind = chunk(kind, first);
    if (file_.left()) file_.fail(file_.at(), std::to_string(file_.left()) + " more bytes after the end");
    return std::move(r_);
  }

private:
  void head() {
    if (all_.size() < file_head || std::memcmp(all_.data(), magic.data(), magic.size()) != 0)
      file_.fail(0, "not what a recording begins with");
    file_.skip(magic.size());
    const auto found = file_.take<std::uint32_t>();
    if (found != version)
      throw error(errc::unsupported,
                  name_ + ": at offset 8 there is " + std::to_string(found) + ", and this Tern reads version " +
                      std::to_string(version) + " of recordings",
                  "use the Tern that has recorded it");
    if (file_.take<std::uint32_t>() != 0) file_.fail(12, "something unknown");
  }

  /// \param before the kind of the chunk before. \return its kind.
  std::size_t chunk(std::size_t before, bool first) {
    const std::size_t at = file_.at();
    if (file_.left() == 0) file_.fail(at, "nothing more: the end is missing");
    if (file_.left() < chunk_head) file_.fail(at, "a part that is cut off");
    std::array<char, 5> name{};
    for (int i = 0; i < 4; ++i)
      name[static_cast<std::size_t>(i)] = static_cast<char>(all_[at + static_cast<std::size_t>(i)]);
    file_.skip(4);
    const std::size_t length = file_.take<std::uint32_t>();
    const auto check = file_.take<std::uint64_t>();
    if (length > file_.left()) file_.fail(at, "a part that is cut off");
    const std::size_t from = file_.at();
    if (check != checksum(at, all_.subspan(at, 8), all_.subspan(from, length)))
      file_.fail(at, "a part whose checksum is wrong");
    const auto kind = static_cast<std::size_t>(
        std::find_if(kinds.begin(), kinds.end(), [&](const char* k) { return std::strcmp(k, name.data()) == 0; }) -
        kinds.begin());
    if (kind > last_kind) file_.fail(at, "a part of an unknown kind");
    if (first ? kind != 0 : kind < before || kind == 0) file_.fail(at, "a part where there should be another");
    cursor content(all_, from, from + length, name_);
    if (kind == 0) {
      load(content, r_);
      if (const char* wrong = flaw_of_run(r_)) content.fail(from, wrong);
    } else if (kind == last_kind) {
      if (content.take<std::uint64_t>() != from + length) content.fail(from, "another length of the file");
    } else {
      for_tables(r_, [&](std::size_t k, auto& table) {
        if (k == kind) records(content, table);
      });
    }
    if (content.left()) content.fail(content.at(), "more than belongs to this part");
    file_.skip(length);
    return kind;
  }

  static void load(cursor& from, auto& record) {
    std::apply([&](auto&... field) { ((field = from.take<std::remove_reference_t<decltype(field)>>()), ...); },
               fields(record));
  }
  template <class R> void records(cursor& content, std::vector<R>& table) {
    while (content.left()) {
      const std::size_t at = content.at();
      R record{};
      load(content, record);
      if (const char* wrong = flaw(r_, record, table.empty() ? nullptr : &table.back())) content.fail(at, wrong);
      table.push_back(std::move(record));
    }
  }

  bytes all_;
  const std::string& name_;
  cursor file_;
  recording r_;
};

[[noreturn]] void fail(const std::string& path, const char* what, int code) {
  throw error(errc::io, "the recording " + path + " cannot be " + what + ": " + std::generic_category().message(code),
              "choose another place with --tern-record");
}
struct closed {
  void operator()(std::FILE* f) const noexcept { std::fclose(f); }
};
using file = std::unique_ptr<std::FILE, closed>;

} // namespace

std::vector<std::byte> recording_bytes(recording r) {
  tidy(r);
  check(r);
  std::vector<std::byte> all;
  writer([&](bytes piece) { all.insert(all.end(), piece.begin(), piece.end()); }).write(r);
  return all;
}

void check_place(const std::string& path) {
  std::error_code failed;
  const auto status = std::filesystem::status(path, failed);
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status))
    throw error(errc::io, "the recording " + path + " cannot be written: it is not a file",
                "give --tern-record the name of a file");
  const std::string folder = std::filesystem::path(path).parent_path().string();
  if (::access(folder.empty() ? "." : folder.c_str(), W_OK) != 0)
    throw error(errc::io, "the recording " + path + " cannot be written: " + std::generic_category().message(errno),
                "give --tern-record a file in a folder that can be written to");
}

void write_recording(recording r, const std::string& path) {
  check_place(path);
  tidy(r);
  check(r);
  const std::string unfinished = path + ".unfinished";
  file to(std::fopen(unfinished.c_str(), "wbe"));
  if (!to) fail(path, "made", errno);
  const auto give_up = [&](int code) {
    std::remove(unfinished.c_str());
    fail(path, "written", code);
  };
  writer([&](bytes piece) {
    if (std::fwrite(piece.data(), 1, piece.size(), to.get()) != piece.size()) give_up(errno);
  }).write(r);
  if (std::fclose(to.release()) != 0) give_up(errno); // some file systems tell of a full disk only now
  if (std::rename(unfinished.c_str(), path.c_str()) != 0) give_up(errno);
}

recording parse_recording(bytes all, const std::string& name) { return reader(all, name).read(); }

recording read_recording(const std::string& path) {
  // What is no file may never end.
  std::error_code failed;
  if (const auto status = std::filesystem::status(path, failed);
      std::filesystem::exists(status) && !std::filesystem::is_regular_file(status))
    throw error(errc::io, path + " is not a file", "name a file that --tern-record has made");
  const file from(std::fopen(path.c_str(), "rbe"));
  if (!from)
    throw error(errc::io, path + " cannot be read: " + std::generic_category().message(errno),
                "name a file that --tern-record has made");
  std::vector<std::byte> all;
  std::array<std::byte, 65536> piece;
  while (const std::size_t n = std::fread(piece.data(), 1, piece.size(), from.get()))
    all.insert(all.end(), piece.begin(), piece.begin() + static_cast<std::ptrdiff_t>(n));
  if (std::ferror(from.get()))
    throw error(errc::io, path + " cannot be read: " + std::generic_category().message(errno), "");
  return parse_recording(all, path);
}

} // namespace tern::balance
