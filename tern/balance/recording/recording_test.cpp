// SPDX-License-Identifier: Apache-2.0
#include <tern/balance/recording.hpp>

#include <cmath>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <limits>
#include <random>
#include <string>

#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <gtest/gtest.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <tern/base/error.hpp>

namespace {

using namespace tern::balance;
using tern::mobile::object_id;
using file = std::vector<std::byte>;

/// Of two ranks, with something of everything.
recording small() {
  recording r;
  r.program = "app";
  r.policy = "diffusion:limit=2";
  r.order = "fifo";
  r.ranks = 2;
  r.workers = 3;
  r.unit = 0.5;
  r.length = 20;
  r.phase_ends = {8, 20};
  const auto patch = r.name("patch"), domain = r.name("domain"), sum = r.name("imbalance");
  const object_id a(0, 1), b(0, 2), c(1, 1);
  r.objects = {{a, patch, 0, 100}, {b, domain, 0, 200}, {c, patch, 1, 300}};
  r.works = {{a, 0, 1, 4, 0}, {a, 1, 2, 6, 1}, {b, 1, 3, 5, 0}, {c, 0, 1, 2, 0}};
  r.links = {{a, b, 1000, 10}, {b, c, 500, 2}};
  r.migrations = {{9, b, 0, 1}};
  r.busies = {{5, 0, 0, 4}, {5, 1, 2, 2}, {20, 0, 0, 10}};
  r.notes = {{8, 0, sum, 1.5}, {8, 1, sum, -2}};
  return r;
}

std::uint64_t number(const file& f, std::size_t at, int bytes) {
  std::uint64_t n = 0;
  for (int i = 0; i < bytes; ++i) n |= std::to_integer<std::uint64_t>(f[at + static_cast<std::size_t>(i)]) << 8 * i;
  return n;
}
void set(file& f, std::size_t at, int bytes, std::uint64_t n) {
  for (int i = 0; i < bytes; ++i) f[at + static_cast<std::size_t>(i)] = static_cast<std::byte>(n >> 8 * i);
}
void set(file& f, std::size_t at, double value) {
  std::uint64_t n;
  std::memcpy(&n, &value, sizeof n);
  set(f, at, 8, n);
}

/// Calls `what(offset, length)` for each chunk; lengths as the file gives them, while they fit.
void for_chunks(const file& f, const std::function<void(std::size_t, std::size_t)>& what) {
  for (std::size_t at = 16; at + 16 <= f.size();) {
    const std::size_t length = number(f, at + 4, 4);
    if (length > f.size() - at - 16) return;
    what(at, length);
    at += 16 + length;
  }
}
/// Makes the checksums right, and the length of the file.
void seal(file& f) {
  for_chunks(f, [&f](std::size_t at, std::size_t length) {
    if (std::memcmp(f.data() + at, "end ", 4) == 0 && length == 8) set(f, at + 16, 8, at + 24);
    file hashed(8);
    set(hashed, 0, 8, at);
    const auto chunk = f.begin() + static_cast<std::ptrdiff_t>(at);
    hashed.insert(hashed.end(), chunk, chunk + 8);
    hashed.insert(hashed.end(), chunk + 16, chunk + 16 + static_cast<std::ptrdiff_t>(length));
    set(f, at + 8, 8, XXH3_64bits(hashed.data(), hashed.size()));
  });
}
/// Where the content of the first chunk of this kind begins.
std::size_t content_of(const file& f, const char* kind) {
  std::size_t found = 0;
  for_chunks(f, [&](std::size_t at, std::size_t) {
    if (!found && std::memcmp(f.data() + at, kind, 4) == 0) found = at + 16;
  });
  EXPECT_NE(found, 0u) << kind;
  return found;
}

/// What it is refused with; empty: it is not.
std::string refused(const file& f) {
  try {
    static_cast<void>(parse_recording(f, "run.rec"));
  } catch (const tern::error& e) {
    EXPECT_TRUE(e.code() == tern::errc::invalid_data || e.code() == tern::errc::unsupported) << e.what();
    EXPECT_TRUE(e.message().starts_with("run.rec: at offset ")) << e.message();
    const std::string offset = e.message().substr(std::strlen("run.rec: at offset "));
    EXPECT_LE(std::stoull(offset), f.size()) << e.message();
    return e.message();
  }
  return {};
}

template <class F> std::string message_of(tern::errc code, F f) {
  try {
    f();
  } catch (const tern::error& e) {
    EXPECT_EQ(e.code(), code) << e.what();
    return e.what();
  }
  ADD_FAILURE() << "no error";
  return {};
}
bool has(const std::string& text, const std::string& part) { return text.find(part) != text.npos; }

struct folder {
  std::filesystem::path path;
  folder() {
    std::string name = (std::filesystem::temp_directory_path() / "tern-recording-XXXXXX").string();
    if (!mkdtemp(name.data())) std::abort();
    path = name;
  }
  folder(const folder&) = delete;
  folder& operator=(const folder&) = delete;
  ~folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
};

} // namespace

TEST(recording, comes_back_from_its_bytes) {
  EXPECT_EQ(parse_recording(recording_bytes(small()), "x"), small());
  recording nothing;
  EXPECT_EQ(parse_recording(recording_bytes(nothing), "x"), nothing);
}

TEST(recording, large_tables_take_several_chunks) {
  recording r = small();
  r.objects.clear();
  r.works.clear();
  for (std::uint64_t i = 1; i <= 100'000; ++i) r.objects.push_back({object_id(i % 2 ? 0 : 1, i), 1, 0, 1.0 * i});
  tidy(r);
  for (const auto& o : r.objects) r.works.push_back({o.id, 1, 1, 0.25, 0});
  r.links = {};
  r.migrations = {};
  const file f = recording_bytes(r);
  int chunks = 0;
  for_chunks(f, [&](std::size_t, std::size_t length) {
    ++chunks;
    EXPECT_LE(length, (std::size_t{1} << 20) + 65536);
  });
  EXPECT_GT(chunks, 10);
  EXPECT_EQ(parse_recording(f, "x"), r);
}

TEST(recording, its_file_appears_whole) {
  const folder here;
  const std::string path = here.path / "run.rec";
  write_recording(small(), path);
  EXPECT_EQ(read_recording(path), small());
  recording wrong = small();
  wrong.works[0].object = object_id(1, 77);
  EXPECT_TRUE(has(message_of(tern::errc::invalid_argument, [&] { write_recording(wrong, path); }),
                  "work of an object that is not listed"));
  EXPECT_EQ(read_recording(path), small()); // still
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(here.path), {}), 1);
  EXPECT_TRUE(
      has(message_of(tern::errc::io, [&] { write_recording(small(), here.path / "no/run.rec"); }), "no/run.rec"));
  EXPECT_TRUE(has(message_of(tern::errc::io, [&] { write_recording(small(), "/dev/full/x"); }), "/dev/full/x"));
  EXPECT_TRUE(
      has(message_of(tern::errc::io, [&] { read_recording(here.path / "none"); }), "none cannot be read: No such"));
  EXPECT_TRUE(has(message_of(tern::errc::io, [&] { read_recording(here.path); }), "is not a file"));
  EXPECT_TRUE(has(message_of(tern::errc::io, [&] { read_recording("/dev/zero"); }), "/dev/zero is not a file"));
}

// What is no file is not replaced: for the superuser that could be a device.
TEST(recording, takes_the_place_of_nothing_but_a_file) {
  const folder here;
  const std::string pipe = here.path / "pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_TRUE(has(message_of(tern::errc::io, [&] { check_place(pipe); }), "pipe cannot be written: it is not a file"));
  EXPECT_TRUE(has(message_of(tern::errc::io, [&] { write_recording(small(), pipe); }), "it is not a file"));
  EXPECT_TRUE(has(message_of(tern::errc::io, [&] { write_recording(small(), here.path); }), "it is not a file"));
  EXPECT_TRUE(std::filesystem::is_fifo(pipe));
}

// As a full disk: no file may be larger than so much.
TEST(recording, a_full_disk_leaves_what_was_there) {
  const folder here;
  const std::string path = here.path / "run.rec";
  write_recording(small(), path);
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto quiet = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit little{100, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &little), 0);
  recording other = small();
  other.program = "another";
  const std::string text = message_of(tern::errc::io, [&] { write_recording(other, path); });
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, quiet);
  EXPECT_TRUE(has(text, "run.rec cannot be written: File too large")) << text;
  EXPECT_EQ(read_recording(path).program, "app");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(here.path), std::filesystem::directory_iterator()), 1);
}

TEST(recording, of_a_file_that_was_cut_off_nothing_is_believed) {
  const file whole = recording_bytes(small());
  for (std::size_t n = 0; n < whole.size(); ++n)
    ASSERT_NE(refused(file(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(n))), "") << n;
  file longer = whole;
  longer.push_back(std::byte{0});
  EXPECT_EQ(refused(longer),
            "run.rec: at offset " + std::to_string(whole.size()) + " there is 1 more bytes after the end");
  // The parts are whole, but one is missing.
  std::vector<std::pair<std::size_t, std::size_t>> chunks;
  for_chunks(whole, [&](std::size_t at, std::size_t length) { chunks.emplace_back(at, length + 16); });
  ASSERT_EQ(chunks.size(), 10u);
  for (const auto& [at, length] : chunks) {
    file f = whole;
    f.erase(f.begin() + static_cast<std::ptrdiff_t>(at), f.begin() + static_cast<std::ptrdiff_t>(at + length));
    EXPECT_NE(refused(f), "") << at;
  }
}

TEST(recording, a_wrong_bit_anywhere_is_noticed) {
  const file whole = recording_bytes(small());
  for (std::size_t at = 0; at < whole.size(); ++at)
    for (int bit = 0; bit < 8; ++bit) {
      file f = whole;
      f[at] ^= static_cast<std::byte>(1 << bit);
      ASSERT_NE(refused(f), "") << "bit " << bit << " of byte " << at;
    }
}

TEST(recording, another_version_is_named) {
  file f = recording_bytes(small());
  set(f, 8, 4, 7);
  EXPECT_EQ(refused(f), "run.rec: at offset 8 there is 7, and this Tern reads version 1 of recordings");
}

TEST(recording, of_what_is_sealed_each_record_is_checked) {
  const file whole = recording_bytes(small());
  // Changes a number of the first chunk of this kind, at this offset of its content.
  const auto with = [&](const char* kind, std::size_t offset, auto value) {
    file f = whole;
    const std::size_t at = content_of(f, kind) + offset;
    if constexpr (std::is_same_v<decltype(value), double>)
      set(f, at, value);
    else
      set(f, at, sizeof value, static_cast<std::uint64_t>(value));
    seal(f);
    return refused(f);
  };
  const auto at = [&](const char* kind, std::size_t offset) {
    return "run.rec: at offset " + std::to_string(content_of(whole, kind) + offset) + " there is ";
  };
  const double nan = std::nan(""), huge = std::numeric_limits<double>::infinity();
  EXPECT_EQ(with("run ", 0, std::uint32_t{0}), at("run ", 0) + "a number of ranks that no job has");
  EXPECT_EQ(with("run ", 0, std::uint32_t{0xffffffff}), at("run ", 0) + "a number of ranks that no job has");
  EXPECT_EQ(with("run ", 4, std::uint32_t{70000}), at("run ", 0) + "a number of workers that no rank has");
  EXPECT_EQ(with("run ", 8, nan), at("run ", 0) + "an impossible unit of time");
  EXPECT_EQ(with("run ", 16, huge), at("run ", 0) + "an impossible length of the run");
  EXPECT_EQ(with("run ", 24, std::uint32_t{0xfffffff0}),
            at("run ", 24) + "a text that is longer than what contains it");
  EXPECT_EQ(with("phas", 8, 7.0), at("phas", 8) + "a phase that ends before the one before it");
  EXPECT_EQ(with("phas", 0, nan), at("phas", 0) + "the end of a phase at an impossible moment");
  EXPECT_EQ(with("name", 0, std::uint32_t{1000}), at("name", 0) + "a text that is longer than what contains it");
  EXPECT_EQ(with("objs", 0, std::uint64_t{0}), at("objs", 0) + "an object with an impossible name");
  EXPECT_EQ(with("objs", 24, object_id(0, 1).bits), at("objs", 24) + "an object that is listed twice, or out of order");
  EXPECT_EQ(with("objs", 8, std::uint32_t{3}), at("objs", 0) + "an object of a class without a name");
  EXPECT_EQ(with("objs", 12, std::uint32_t{2}), at("objs", 0) + "an object on a rank that there is not");
  EXPECT_EQ(with("objs", 12, std::uint32_t{0xffffffff}), at("objs", 0) + "an object on a rank that there is not");
  EXPECT_EQ(with("objs", 16, -1.0), at("objs", 0) + "an object of an impossible size");
  EXPECT_EQ(with("work", 0, object_id(1, 9).bits), at("work", 0) + "work of an object that is not listed");
  EXPECT_EQ(with("work", 32 + 8, std::uint32_t{0}), at("work", 32) + "work that is told twice, or out of order");
  EXPECT_EQ(with("work", 32 + 8, std::uint32_t{2}), at("work", 32) + "work in a phase that there is not");
  EXPECT_EQ(with("work", 16, nan), at("work", 0) + "work that takes an impossible time");
  EXPECT_EQ(with("link", 8, object_id(1, 9).bits), at("link", 0) + "talk of an object that is not listed");
  EXPECT_EQ(with("link", 0, object_id(1, 1).bits), at("link", 32) + "talk that is told twice, or out of order");
  EXPECT_EQ(with("link", 16, huge), at("link", 0) + "talk of an impossible size");
  EXPECT_EQ(with("move", 8, object_id(1, 9).bits), at("move", 0) + "a move of an object that is not listed");
  EXPECT_EQ(with("move", 20, std::uint32_t{2}), at("move", 0) + "a move from or to a rank that there is not");
  EXPECT_EQ(with("busy", 24, 4.5), at("busy", 24) + "something that is out of order");
  EXPECT_EQ(with("busy", 12, std::uint32_t{3}), at("busy", 0) + "a worker that there is not");
  EXPECT_EQ(with("busy", 16, -0.5), at("busy", 0) + "a worker that was busy for an impossible time");
  EXPECT_EQ(with("note", 12, std::uint32_t{3}), at("note", 0) + "a note without a name");
  EXPECT_EQ(with("note", 8, std::uint32_t{5}), at("note", 0) + "something on a rank that there is not");
  EXPECT_EQ(with("note", 16, nan), "") << "a policy may note anything";
}

TEST(recording, parts_are_where_they_belong) {
  const file whole = recording_bytes(small());
  const auto renamed = [&](const char* from, const char* to) {
    file f = whole;
    std::memcpy(f.data() + content_of(f, from) - 16, to, 4);
    seal(f);
    return refused(f);
  };
  EXPECT_TRUE(has(renamed("link", "LINK"), "a part of an unknown kind"));
  EXPECT_TRUE(has(renamed("link", "objs"), "a part where there should be another"));
  EXPECT_TRUE(has(renamed("link", "run "), "a part where there should be another"));
  EXPECT_TRUE(has(renamed("run ", "name"), "a part where there should be another"));
  EXPECT_TRUE(has(renamed("link", "end "), "another length of the file"));
  file f = whole;
  const std::size_t end = content_of(f, "end ");
  set(f, end - 16 + 4, 4, 4); // so that its number does not fit
  f.erase(f.end() - 4, f.end());
  seal(f);
  EXPECT_EQ(refused(f), "run.rec: at offset " + std::to_string(end) + " there is a record that is cut off");
}

// Whatever a sealed file says, it is refused, or it is a recording that could have been written.
TEST(recording, any_content_is_refused_or_consistent) {
  const file whole = recording_bytes(small());
  std::mt19937_64 chance(7);
  int accepted = 0;
  for (int round = 0; round < 20'000; ++round) {
    file f = whole;
    for (auto changes = 1 + chance() % 3; changes > 0; --changes) {
      const auto at = static_cast<std::ptrdiff_t>(16 + chance() % (f.size() - 24));
      switch (chance() % 4) {
      case 0:
        f[static_cast<std::size_t>(at)] = static_cast<std::byte>(chance());
        break;
      case 1:
        f[static_cast<std::size_t>(at)] = static_cast<std::byte>(chance() % 2 ? 0xff : 0);
        break;
      case 2:
        f.insert(f.begin() + at, f.begin() + at, f.begin() + at + static_cast<std::ptrdiff_t>(chance() % 8));
        break;
      default:
        f.erase(f.begin() + at, f.begin() + at + static_cast<std::ptrdiff_t>(chance() % 8));
      }
    }
    seal(f);
    if (!refused(f).empty()) continue;
    ++accepted;
    const recording r = parse_recording(f, "x");
    ASSERT_NO_THROW(recording_bytes(r));
    ASSERT_LE(to_workload(r).objects.size(), 3u);
  }
  EXPECT_GT(accepted, 500);
  EXPECT_LT(accepted, 15'000);
}

TEST(recording, parts_of_ranks_become_one) {
  const object_id a(0, 1), b(1, 1);
  recording zero, one;
  zero.ranks = one.ranks = 2;
  zero.workers = one.workers = 4;
  zero.length = 10;
  one.length = 11;
  zero.phase_ends = {5};
  one.phase_ends = {4, 4.5};
  zero.objects = {{a, zero.name("A"), 0, 1}};
  one.notes = {{3, 1, one.name("note"), 9}};
  one.objects = {{b, one.name("A"), 1, 2}, {a, one.name("A"), 0, 3}}; // which has worked here, too, and grown
  zero.works = {{a, 0, 2, 1.5, 0}};
  one.works = {{b, 1, 1, 3, 0}, {a, 0, 0xffffffff, 0.25, 1}}; // a had come here
  zero.links = {{a, b, 10, 1}};
  one.links = {{a, b, 5, 2}, {a, a, 1, 1}};
  zero.migrations = {{2, a, 0, 1}};
  zero.busies = {{2, 0, 0, 1.5}};
  one.busies = {{1, 1, 3, 0.5}};

  recording all = zero;
  combine(all, tern::unpack<recording>(tern::pack(one).bytes()));
  all = parse_recording(recording_bytes(all), "x");
  EXPECT_EQ(all.length, 11);
  EXPECT_EQ(all.phase_ends, (std::vector<double>{5, 5}));
  EXPECT_EQ(all.names, (std::vector<std::string>{"A", "note"}));
  EXPECT_EQ(all.objects, (std::vector<recording::object>{{a, 0, 0, 3}, {b, 0, 1, 2}}));
  EXPECT_EQ(all.works, (std::vector<recording::work>{{a, 0, 0xffffffff, 1.75, 1}, {b, 1, 1, 3, 0}}));
  EXPECT_EQ(all.links, (std::vector<recording::link>{{a, a, 1, 1}, {a, b, 15, 3}}));
  EXPECT_EQ(all.busies, (std::vector<recording::busy>{{1, 1, 3, 0.5}, {2, 0, 0, 1.5}}));
  EXPECT_EQ(all.notes, (std::vector<recording::note>{{3, 1, 1, 9}}));

  recording other = one;
  other.workers = 3;
  EXPECT_TRUE(
      has(message_of(tern::errc::invalid_argument, [&] { combine(all, other); }), "2 ranks of 4 workers, and 2 of 3"));
  other = one;
  other.objects[0].type = 2;
  const recording before = all;
  EXPECT_TRUE(has(message_of(tern::errc::invalid_argument, [&] { combine(all, other); }), "a name is used"));
  EXPECT_EQ(all, before);
}

TEST(recording, order_of_parts_does_not_matter) {
  recording first = small(), second = small();
  first.works.pop_back();
  second.objects.clear();
  second.works.erase(second.works.begin(), second.works.end() - 1);
  second.links.clear();
  second.busies.clear();
  recording forth = first, back = second;
  combine(forth, second);
  combine(back, first);
  EXPECT_EQ(recording_bytes(forth), recording_bytes(back));
}

TEST(recording, workload_has_its_seconds_and_neighbours) {
  const workload w = to_workload(small());
  EXPECT_EQ(w.ranks, 2);
  EXPECT_EQ(w.workers, 3);
  ASSERT_EQ(w.objects.size(), 3u);
  ASSERT_EQ(w.phases(), 2u);
  EXPECT_EQ(w.objects[0].seconds, (std::vector<double>{2, 3})); // of the unit 0.5 s
  EXPECT_EQ(w.objects[0].device, (std::vector<float>{0, 0.5f}));
  EXPECT_EQ(w.objects[1].seconds, (std::vector<double>{0, 2.5}));
  EXPECT_TRUE(w.objects[1].device.empty());
  EXPECT_EQ(w.objects[2].rank, 1);
  EXPECT_EQ(w.objects[2].bytes, 300);
  ASSERT_EQ(w.links.size(), 2u);
  EXPECT_EQ(w.links[1].from, 1u);
  EXPECT_EQ(w.links[1].to, 2u);
  EXPECT_EQ(w.links[0].bytes, 500); // in each of two phases
  EXPECT_EQ(w.links[0].messages, 5);
}

TEST(recording, workload_is_ordered_by_rank_first) {
  recording r = small();
  r.objects[0].rank = 1; // 0:1 was put there when it was made
  const workload w = to_workload(r);
  EXPECT_EQ(w.objects[0].rank, 0);
  EXPECT_EQ(w.objects[0].bytes, 200);
  EXPECT_EQ(w.objects[1].seconds, (std::vector<double>{2, 3}));
  EXPECT_EQ(w.links[0].from, 1u);
  EXPECT_EQ(w.links[0].to, 0u);
}

TEST(recording, workload_needs_no_more_memory_than_a_machine_has) {
  recording r = small();
  r.phase_ends.assign(100'000, 20);
  while (r.objects.size() < 10'000) r.objects.push_back({object_id(1, r.objects.size() + 1), 0, 1, 0});
  EXPECT_TRUE(has(message_of(tern::errc::unsupported, [&] { to_workload(r); }), "10000 objects in 100000 phases"));
}

TEST(recording, other_ranks_get_blocks) {
  recording r;
  r.ranks = 4;
  r.name("A");
  for (std::uint64_t i = 0; i < 10; ++i) r.objects.push_back({object_id(0, i + 1), 0, static_cast<int>(i % 4), 0});
  const workload w = to_workload(r); // ranks 0001112233
  const auto ranks = [](const workload& of) {
    std::string text;
    for (const auto& o : of.objects) text += static_cast<char>('0' + o.rank);
    return text;
  };
  EXPECT_EQ(ranks(w), "0001112233");
  EXPECT_EQ(ranks(dealt(w, 4, 7)), "0001112233");
  EXPECT_EQ(dealt(w, 4, 7).workers, 7);
  EXPECT_EQ(ranks(dealt(w, 2, 1)), "0000011111");
  EXPECT_EQ(dealt(w, 3, 1).ranks, 3);
  EXPECT_EQ(ranks(dealt(w, 3, 1)), "0000111222");
  EXPECT_EQ(ranks(dealt(w, 1, 1)), "0000000000");
  workload slow = w;
  slow.slow = {1, 2, 3, 4};
  EXPECT_EQ(dealt(slow, 2, 1).slow, (std::vector<double>{1, 3}));
  EXPECT_EQ(dealt(slow, 8, 1).slow, (std::vector<double>{1, 1, 2, 2, 3, 3, 4, 4}));
  EXPECT_EQ(dealt(slow, 4, 1).slow, slow.slow);
  EXPECT_EQ(dealt(workload{.ranks = 4}, 2, 1).ranks, 2);
}
