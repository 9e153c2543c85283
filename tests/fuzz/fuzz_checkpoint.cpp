// SPDX-License-Identifier: Apache-2.0
// A job that goes on from any checkpoint: it does, or all of its ranks are told why not.
//
// The target writes a checkpoint of two ranks by itself, since what is in one depends on the build.
// An input is a list of changes to it. Those of parts are made before checksums are computed, so
// that what is behind them is reached; those of files are made afterwards.
#include "fuzz.hpp"

#include <array>
#include <cstddef>
#include <exception>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <tern/base/log.hpp>
#include <tern/mobile/array.hpp>
#include <tern/mobile/checkpoint.hpp>
#include <tern/mobile/checkpoint/checkpoint_file.hpp>
#include <tern/mobile/counted.hpp>
#include <tern/mobile/event.hpp>
#include <tern/mobile/names.hpp>
#include <tern/net/collectives.hpp>
#include <tern/net/runtime.hpp>
#include <tern/net/simulate.hpp>

namespace {

namespace fs = std::filesystem;
using tern::errc;
using tern::mobile::detail::checkpoint_head;
using tern::mobile::detail::checkpoint_part;
using bytes = std::vector<std::byte>;

// The program -----------------------------------------------------------------------------------------------------

class leaf {
public:
  std::int64_t value() const { return value_; }
  template <class A> void serialize(A& ar) { ar(value_); }

private:
  std::int64_t value_ = 5;
};

class cell {
public:
  cell() = default;
  explicit cell(const tern::indices<1>& at) : total_(at[0]) {}
  explicit cell(const tern::indices<2>& at) : total_(at[0] + at[1]) {}
  void go(const tern::signals& in) { total_ += static_cast<std::int64_t>(in.size()); }
  void await(tern::event ready) { ready_ = ready; }
  std::int64_t total() const { return total_; }
  void meet(tern::mobile_ptr<cell> other, tern::mobile_ref<leaf> one) {
    other_ = other;
    leaf_ = std::move(one);
  }
  template <class A> void serialize(A& ar) { ar(total_, other_, leaf_, ready_); }

private:
  std::int64_t total_ = 0;
  tern::mobile_ptr<cell> other_;
  tern::mobile_ref<leaf> leaf_;
  tern::event ready_;
};

int skew(const tern::indices<2>& at, const tern::extents<2>&, int ranks) {
  return static_cast<int>((2 * at[0] + at[1]) % ranks);
}

struct roots {
  tern::mobile_array<cell, 1> row;
  tern::mobile_array<cell, 2> grid;
  std::vector<tern::mobile_ptr<cell>> loose;
  int step = 0;
};

void make(roots& r) {
  const auto mine = tern::create<cell>();
  r.loose = tern::communicator::world().allgather(mine);
  tern::send<&cell::meet>(mine, r.loose.back(), tern::create_counted<leaf>());
  if (tern::rank() != 0) return;
  r.row = tern::mobile_array<cell, 1>({.name = "row"}, {5});
  r.grid = tern::mobile_array<cell, 2>({.mapping = tern::map_by<&skew>, .sparse = true, .name = "grid"}, {3, 2});
  r.grid.insert({1, 1}).get();
  r.row.erase({3}).get();
  tern::publish("first", r.loose.front()).get();
  tern::pin(r.loose.front()).get();
  tern::call<&cell::await>(r.loose.front(), tern::make_event<&cell::go>(r.loose.front(), 3)).get();
  tern::migrate(r.loose.back(), 0).get();
}

// Its checkpoint --------------------------------------------------------------------------------------------------

struct part {
  std::uint32_t kind = 0;
  bytes content;
};
struct file {
  checkpoint_head head;
  std::vector<part> parts;
};
// As docs/reference/formats.md says.
struct part_head {
  std::uint32_t mark = 0, kind = 0;
  std::uint64_t length = 0, at = 0, content = 0, sum = 0;
};
static_assert(sizeof(part_head) == 40);
std::uint32_t mark = 0; // of a part

constexpr int files = 2;
constexpr std::uint64_t generation = 1;

std::string folder(const char* name) {
  static const std::string scratch = [] {
    const fs::path in = fs::is_directory("/dev/shm") ? fs::path("/dev/shm") : fs::temp_directory_path();
    return (in / ("tern-fuzz-" + std::to_string(::getpid()))).string();
  }();
  static const struct cleaner {
    ~cleaner() {
      std::error_code ignored;
      fs::remove_all(scratch, ignored);
    }
  } at_end;
  return scratch + "/" + name;
}

void job(int ranks, const std::string& from, const std::function<void()>& main) {
  tern::options o;
  if (!from.empty()) o.set(tern::mobile::restart_option, from);
  tern::sim::run(
      tern::sim::parse_world("ranks=" + std::to_string(ranks)), [&] { return main(), 0; }, o);
}

file read(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  const std::vector<char> all{std::istreambuf_iterator<char>(in), {}};
  fuzz::require(all.size() > sizeof(checkpoint_head), "the target's own checkpoint cannot be read");
  file f;
  std::memcpy(&f.head, all.data(), sizeof f.head);
  for (std::size_t at = sizeof f.head; at < all.size();) {
    part_head h;
    std::memcpy(&h, all.data() + at, sizeof h);
    mark = h.mark;
    at += sizeof h;
    const auto* const begin = reinterpret_cast<const std::byte*>(all.data()) + at;
    f.parts.push_back({h.kind, {begin, begin + h.length}});
    at += h.length;
  }
  return f;
}

const std::vector<file>& base() {
  static const std::vector<file> all = [] {
    if (!std::getenv("FUZZ_SAY")) tern::set_log_level(tern::log_level::off);
    job(files, "", [] {
      roots r;
      make(r);
      tern::checkpoint(folder("base"), r.row, r.grid, r.loose, r.step);
    });
    const tern::mobile::detail::checkpoint_folder there(folder("base"));
    std::vector<file> found;
    for (int rank = 0; rank < files; ++rank) found.push_back(read(there.file(generation, rank)));
    return found;
  }();
  return all;
}

template <class T> void append(bytes& to, const T& what) {
  const auto* const from = reinterpret_cast<const std::byte*>(&what);
  to.insert(to.end(), from, from + sizeof what);
}

bytes written(file f) {
  bytes all;
  f.head.sum = XXH3_64bits(&f.head, offsetof(checkpoint_head, sum));
  append(all, f.head);
  std::uint64_t tables = 0;
  for (part& p : f.parts) {
    part_head h{mark, p.kind, p.content.size(), all.size(), 0, 0};
    if (p.kind == static_cast<std::uint32_t>(checkpoint_part::tables)) tables = h.at;
    if (p.kind == static_cast<std::uint32_t>(checkpoint_part::end) && p.content.size() >= 2 * sizeof tables) {
      const std::uint64_t length = all.size() + sizeof h + p.content.size();
      std::memcpy(p.content.data(), &tables, sizeof tables);
      std::memcpy(p.content.data() + sizeof tables, &length, sizeof length);
    }
    h.content = XXH3_64bits(p.content.data(), p.content.size());
    h.sum = XXH3_64bits_withSeed(&h, offsetof(part_head, sum), f.head.generation);
    append(all, h);
    all.insert(all.end(), p.content.begin(), p.content.end());
  }
  return all;
}

// Changes ---------------------------------------------------------------------------------------------------------

constexpr std::array<std::uint64_t, 12> numbers{
    0,          1,          2,    3, 255, (1u << 24) - 1, 1u << 24, std::uint64_t{1} << 32, std::uint64_t{1} << 40,
    ~0ull >> 1, ~0ull - 16, ~0ull};

// Overwrites, inserts or erases; or puts a number.
void change(bytes& all, unsigned how, fuzz::input& in) {
  const std::size_t at = in.number<std::uint16_t>() % (all.size() + 1);
  const auto place = all.begin() + static_cast<std::ptrdiff_t>(at);
  if (how % 4 == 0) {
    const auto some = in.bytes(in.number() % 24);
    std::copy_n(some.begin(), std::min(some.size(), all.size() - at), place);
  } else if (how % 4 == 1) {
    const auto some = in.bytes(in.number() % 64);
    all.insert(place, some.begin(), some.end());
  } else if (how % 4 == 2) {
    all.erase(place,
              place + static_cast<std::ptrdiff_t>(std::min<std::size_t>(in.number<std::uint16_t>(), all.size() - at)));
  } else {
    const std::uint8_t which = in.number();
    const std::uint64_t n = numbers[which % numbers.size()];
    const std::size_t size = which >= 128 ? 4 : 8;
    if (all.size() - at >= size) std::memcpy(all.data() + at, &n, size);
  }
}

void change_head(checkpoint_head& head, unsigned how, fuzz::input& in) {
  bytes all(sizeof head);
  std::memcpy(all.data(), &head, sizeof head);
  change(all, how % 2 == 0 ? 0 : 3, in);
  all.resize(sizeof head);
  std::memcpy(&head, all.data(), sizeof head);
}

// \return on how many ranks the job goes on.
int prepare(fuzz::input in, const tern::mobile::detail::checkpoint_folder& to) {
  std::vector<file> all = base();
  const int ranks = 1 + in.number() % 3;
  std::vector<std::pair<std::uint8_t, fuzz::input>> later;
  std::array<bytes, files> raw;
  bool is_written = false;
  for (int n = 0; n < 32 && !in.empty(); ++n) {
    const std::uint8_t op = in.number();
    const auto which = static_cast<std::size_t>(op % files);
    file& f = all[which];
    const unsigned where = op / 2u % 8, how = op / 16u;
    if (where == 7 && !is_written) {
      for (std::size_t i = 0; i < all.size(); ++i) raw[i] = written(all[i]);
      is_written = true;
    }
    if (is_written)
      change(raw[which], how, in);
    else if (where == 0)
      change_head(f.head, how, in);
    else if (where < 5) // most are in the tables
      change(f.parts[f.parts.size() - 2].content, how, in);
    else
      change(f.parts[(where == 5 ? 1 : how / 4) % f.parts.size()].content, how, in);
  }
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (!is_written) raw[i] = written(all[i]);
    std::ofstream(to.file(generation, static_cast<int>(i)), std::ios::binary | std::ios::trunc)
        .write(reinterpret_cast<const char*>(raw[i].data()), static_cast<std::streamsize>(raw[i].size()));
  }
  return ranks;
}

// Going on --------------------------------------------------------------------------------------------------------

// Whatever objects and arrays there are, they can be asked, or the asker is told why not.
void use(const roots& r) {
  const auto attempt = [](auto&& f) {
    static_cast<void>(fuzz::accepts({errc::not_found, errc::invalid_argument, errc::invalid_state, errc::remote}, f));
  };
  const auto ask = [&](tern::mobile_ptr<cell> one) {
    if (one) attempt([&] { static_cast<void>(tern::call<&cell::total>(one).get()); });
  };
  for (std::size_t i = 0; i < std::min<std::size_t>(r.loose.size(), 4); ++i) ask(r.loose[i]);
  attempt([&] {
    if (r.row) ask(r.row(0));
  });
  attempt([&] {
    if (r.grid) ask(r.grid(1, 1));
  });
  ask(tern::create<cell>());
  attempt([&] { ask(tern::try_find<cell>("first").get()); });
}

void go_on(int ranks, const std::string& from) {
  job(ranks, from, [] {
    roots r;
    std::string why;
    const bool went_on =
        fuzz::accepts({errc::invalid_data, errc::invalid_argument, errc::unsupported, errc::not_found, errc::io}, [&] {
          try {
            tern::restored(r.row, r.grid, r.loose, r.step);
          } catch (const tern::error& e) {
            why = e.what();
            throw;
          }
        });
    for (const std::string& other : tern::communicator::world().allgather(why))
      fuzz::require(other == why, "ranks disagree about what is wrong");
    if (went_on && tern::rank() == 0) use(r);
    tern::barrier();
  });
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static_cast<void>(base());
  const tern::mobile::detail::checkpoint_folder to(folder("changed"));
  fs::create_directories(to.of(generation));
  // A simulated job that is aborted ends the process, and libFuzzer does not see it: the input
  // stays there then.
  std::ofstream(folder("input"), std::ios::binary | std::ios::trunc)
      .write(reinterpret_cast<const char*>(data), static_cast<std::streamsize>(size));
  const int ranks = prepare(fuzz::input(data, size), to);
  try {
    go_on(ranks, folder("changed"));
  } catch (const std::exception& e) { // as a deadlock
    fuzz::fail(std::string("the job does not end: ") + e.what());
  }
  return 0;
}
