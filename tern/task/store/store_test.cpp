// SPDX-License-Identifier: Apache-2.0
#include <tern/task/store/store.hpp>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/task/support/executors.hpp"
#include "tests/task/support/in_child.hpp"
#include "tests/task/support/sync.hpp"

namespace tern::detail {

struct store_peer {
  static int fd(const object_store& s) { return s.fd_; }
  static std::uint64_t end(object_store& s) {
    const std::lock_guard hold(s.lock_);
    return s.extents_.end();
  }
  static bool direct(const object_store& s) { return s.direct_; }
  /// As if the file system could do nothing special.
  static void make_buffered(object_store& s) {
    s.direct_ = false;
    fcntl(s.fd_, F_SETFL, fcntl(s.fd_, F_GETFL) & ~O_DIRECT);
  }
};

namespace {

using test_support::thrown_by;
using testing::AllOf;
using testing::HasSubstr;

constexpr std::uint64_t mebi = std::uint64_t{1} << 20;

using folder = test::temporary_on_disk;

/// Bytes that differ for each seed, and at each place.
byte_buffer bytes_of(std::uint64_t seed, std::size_t size) {
  byte_buffer b(size);
  std::uint64_t x = seed * 0x9e3779b97f4a7c15ull + size;
  for (std::size_t i = 0; i < size; i += 8) {
    x ^= x << 13, x ^= x >> 7, x ^= x << 17;
    std::memcpy(b.data() + i, &x, std::min<std::size_t>(8, size - i));
  }
  return b;
}
std::uint64_t blocks_of(const object_store& s) {
  struct stat about {};
  EXPECT_EQ(fstat(store_peer::fd(s), &about), 0);
  return static_cast<std::uint64_t>(about.st_blocks) * 512;
}
bool nothing_in(const std::string& path) { return std::filesystem::is_empty(path); }

constexpr std::size_t sizes[] = {0, 1, 4095, 4096, 4097, mebi - 1, mebi, mebi + 3, 4 * mebi, 4 * mebi + 4097};

void all_sizes_come_back(object_store& s) {
  std::vector<stored> places;
  std::uint64_t all = 0;
  for (std::size_t i = 0; i < std::size(sizes); ++i) {
    places.push_back(s.write(bytes_of(i, sizes[i])));
    EXPECT_EQ(places.back().bytes, sizes[i]);
    EXPECT_EQ(places.back().offset % 4096, 0u);
    all += (sizes[i] + 4095) / 4096 * 4096;
    EXPECT_EQ(s.bytes(), all);
  }
  for (int again = 0; again < 2; ++again)
    for (std::size_t i = 0; i < std::size(sizes); ++i) EXPECT_EQ(s.read(places[i]), bytes_of(i, sizes[i])) << sizes[i];
  for (const stored& p : places) s.drop(p);
  EXPECT_EQ(s.bytes(), 0u);
  EXPECT_EQ(store_peer::end(s), 0u);
}

TEST(store, what_is_written_comes_back) {
  const folder here;
  for (const bool by_itself : {false, true}) {
    object_store s({.directory = here.path, .inline_io = by_itself}, "rank 3");
    all_sizes_come_back(s);
    EXPECT_TRUE(nothing_in(here.path));
  }
  EXPECT_TRUE(nothing_in(here.path));
}

// Memory of the caller's that direct transfers reach: nothing is copied, and what lies behind the
// whole blocks stays.
TEST(store, is_read_into_the_callers_memory) {
  const folder here;
  for (const bool by_itself : {false, true}) {
    object_store s({.directory = here.path, .inline_io = by_itself}, "rank 3");
    const byte_buffer all = bytes_of(7, 2 * mebi + 5);
    const stored where = s.write(all);
    const std::size_t room = 2 * mebi + object_store::alignment;
    std::vector<std::byte> memory(room + 2 * object_store::alignment, std::byte{9});
    // address: the next whole block
    const std::size_t skip =
        object_store::alignment - reinterpret_cast<std::uintptr_t>(memory.data()) % object_store::alignment;
    std::byte* const to = memory.data() + skip;
    s.read(where, to, room);
    EXPECT_TRUE(std::equal(all.data(), all.data() + all.size(), to));
    EXPECT_EQ(to[room], std::byte{9});
    for (const auto& [at, size] : {std::pair(to + 1, room), {to, room - 1}}) {
      const error e = thrown_by([&] { s.read(where, at, size); });
      EXPECT_EQ(e.message(),
                "rank 3 cannot read 2097157 bytes at offset 0 of its file in \"" + here.path + "\" to there");
      EXPECT_EQ(e.hint(), "give it whole, aligned blocks of 4096 bytes");
    }
  }
}

TEST(store, works_without_direct_transfers) {
  const folder here;
  for (const bool by_itself : {false, true}) {
    object_store s({.directory = here.path, .inline_io = by_itself}, "rank 3");
    const stored first = s.write(bytes_of(7, 5000));
    store_peer::make_buffered(s);
    EXPECT_EQ(s.read(first), bytes_of(7, 5000));
    s.drop(first);
    all_sizes_come_back(s);
    EXPECT_FALSE(store_peer::direct(s));
  }
}

TEST(store, memory_that_is_aligned_is_written_from_where_it_is) {
  const folder here;
  object_store s({.directory = here.path}, "rank 3");
  const std::size_t size = 3 * mebi + 77;
  const byte_buffer room(size + 4096), wanted = bytes_of(1, size);
  auto* from = const_cast<std::byte*>(room.data());
  from += (4096 - reinterpret_cast<std::uintptr_t>(from) % 4096) % 4096;
  std::memcpy(from, wanted.data(), size);
  const stored place = s.write({from, size});
  EXPECT_EQ(s.read(place), wanted);
  EXPECT_EQ(s.write(wanted).check, place.check) << "the same bytes by another way";
}

TEST(store, is_what_a_map_is) {
  const folder here;
  std::mt19937_64 random(11);
  for (const bool by_itself : {false, true}) {
    object_store s({.directory = here.path, .inline_io = by_itself}, "rank 3");
    std::map<std::uint64_t, stored> model; // by seed
    std::uint64_t next = 0, live = 0, most = 0;
    for (int step = 0; step < 1500; ++step) {
      const bool grows = step / 250 % 2 == 0;
      if (model.empty() || random() % 100 < (grows ? 60u : 30u)) {
        const std::size_t size = random() % 20 == 0 ? random() % (300 << 10) : random() % (20 << 10);
        model[next] = s.write(bytes_of(next, size));
        live += (size + 4095) / 4096 * 4096;
        ++next;
      } else {
        auto one = model.lower_bound(random() % next);
        if (one == model.end()) one = model.begin();
        ASSERT_EQ(s.read(one->second), bytes_of(one->first, one->second.bytes));
        if (random() % 3 != 0) {
          live -= (one->second.bytes + 4095) / 4096 * 4096;
          s.drop(one->second);
          model.erase(one);
        }
      }
      most = std::max(most, live);
      ASSERT_EQ(s.bytes(), live);
      ASSERT_LE(store_peer::end(s), most * 3 / 2 + mebi) << "holes are not used";
      std::uint64_t end = 0;
      for (const auto& [seed, place] : model) end = std::max(end, place.offset + place.bytes);
      ASSERT_LT(store_peer::end(s), end + 4096 + (model.empty() ? 0 : 1)) << "the end is given back";
    }
    for (const auto& [seed, place] : model) {
      ASSERT_EQ(s.read(place), bytes_of(seed, place.bytes));
      s.drop(place);
    }
    EXPECT_EQ(s.bytes(), 0u);
    EXPECT_EQ(store_peer::end(s), 0u);
  }
}

TEST(store, extents_do_not_overlap_and_holes_are_joined) {
  std::mt19937_64 random(5);
  file_extents e;
  std::map<std::uint64_t, std::uint64_t> taken;
  for (int step = 0; step < 20'000; ++step) {
    if (taken.size() < 3 || random() % 2 == 0) {
      const std::uint64_t length = 1 + random() % 9, offset = random() % 50 ? e.take(length) : e.append(length);
      const auto [at, is_new] = taken.emplace(offset, length);
      ASSERT_TRUE(is_new);
      if (at != taken.begin()) {
        ASSERT_LE(std::prev(at)->first + std::prev(at)->second, offset);
      }
      if (std::next(at) != taken.end()) {
        ASSERT_LE(offset + length, std::next(at)->first);
      }
    } else {
      auto one = taken.lower_bound(random() % e.end());
      if (one == taken.end()) one = taken.begin();
      ASSERT_TRUE(e.taken(one->first, one->second));
      ASSERT_TRUE(e.give(one->first, one->second));
      ASSERT_FALSE(e.give(one->first, one->second)) << "a second time";
      taken.erase(one);
    }
    ASSERT_EQ(e.end(), taken.empty() ? 0 : taken.rbegin()->first + taken.rbegin()->second);
  }
  file_extents f; // 0..2 3..5 6..8 9..11; all but the last become one hole
  for (std::uint64_t i = 0; i < 12; i += 3) ASSERT_EQ(f.take(3), i);
  for (const std::uint64_t i : {0, 6, 3}) ASSERT_TRUE(f.give(i, 3));
  EXPECT_EQ(f.take(9), 0u);
  ASSERT_TRUE(f.give(0, 9));
  EXPECT_EQ(f.take(2), 0u);
  EXPECT_EQ(f.take(7), 2u);
  EXPECT_EQ(f.take(1), 12u);
}

void write_read_drop(object_store& s, std::uint64_t who, int times) {
  std::mt19937_64 random(who);
  std::vector<std::pair<std::uint64_t, stored>> mine;
  for (int i = 0; i < times; ++i) {
    const std::uint64_t seed = who * 1000 + static_cast<std::uint64_t>(i);
    const std::size_t size = random() % 10 == 0 ? random() % (2 * mebi) : random() % 9000;
    mine.emplace_back(seed, s.write(bytes_of(seed, size)));
    const std::size_t k = random() % mine.size();
    ASSERT_EQ(s.read(mine[k].second), bytes_of(mine[k].first, mine[k].second.bytes));
    if (random() % 2) {
      s.drop(mine[k].second);
      mine.erase(mine.begin() + static_cast<std::ptrdiff_t>(k));
    }
  }
  for (const auto& [seed, place] : mine) {
    ASSERT_EQ(s.read(place), bytes_of(seed, place.bytes));
    s.drop(place);
  }
}

TEST(store, threads_and_fibers_use_it_at_a_time) {
  const folder here;
  for (const bool by_itself : {false, true}) {
    object_store s({.directory = here.path, .inline_io = by_itself}, "rank 3");
    std::vector<std::thread> threads;
    for (std::uint64_t who = 1; who <= 3; ++who) threads.emplace_back([&s, who] { write_read_drop(s, who, 30); });
    test_support::on_workers(2, [&] {
      std::vector<future<void>> all;
      for (std::uint64_t who = 11; who <= 18; ++who) all.push_back(async([&s, who] { write_read_drop(s, who, 12); }));
      for (auto& f : all) f.get();
    });
    for (std::thread& t : threads) t.join();
    EXPECT_EQ(s.bytes(), 0u);
    while (s.bytes() == 0 && store_peer::end(s) != 0)
      std::this_thread::yield(); // what is being given back counts until that is done
  }
}

TEST(store, a_fiber_that_waits_leaves_its_worker_to_others) {
  const folder here;
  object_store s({.directory = here.path, .threads = 1}, "rank 3");
  const byte_buffer large = bytes_of(1, mebi);
  test_support::on_workers(1, [&] {
    bool over = false;
    int turns = 0;
    auto user = async([&] {
      // More than one try: what is done before the fiber comes to wait is not waited for.
      const auto others_run = [&](auto&& act) {
        const int before = turns;
        for (int i = 0; i < 100 && turns == before; ++i) act();
        return turns > before;
      };
      const stored place = s.write(large);
      EXPECT_TRUE(others_run([&] { s.drop(s.write(large)); }));
      EXPECT_TRUE(others_run([&] { s.read(place); }));
      over = true;
    });
    while (!over) {
      ++turns;
      this_fiber::yield();
    }
    user.get();
  });
}

TEST(store, holds_no_more_than_it_may) {
  const folder here;
  for (const bool by_itself : {false, true}) {
    object_store s({.directory = here.path, .most_bytes = 10 * 4096, .inline_io = by_itself}, "rank 3");
    const stored a = s.write(bytes_of(1, 4 * 4096)), b = s.write(bytes_of(2, 5 * 4096 - 1));
    const error e = thrown_by([&] { s.write(bytes_of(3, 4097)); });
    EXPECT_EQ(e.code(), errc::io);
    EXPECT_EQ(e.message(), "rank 3 cannot put 4097 bytes on disk: no more than 40960 bytes may be stored in \"" +
                               here.path + "\", where it has stored 36864 bytes");
    EXPECT_EQ(e.hint(), "give it a directory with more room");
    EXPECT_THROW(s.write(bytes_of(3, 11 * 4096)), error);
    EXPECT_EQ(s.bytes(), 9u * 4096);
    EXPECT_EQ(s.read(a), bytes_of(1, 4 * 4096));
    EXPECT_EQ(s.read(b), bytes_of(2, 5 * 4096 - 1));
    const stored c = s.write(bytes_of(3, 4096));
    EXPECT_THROW(s.write(bytes_of(4, 1)), error);
    s.drop(a);
    EXPECT_EQ(s.read(s.write(bytes_of(5, 4 * 4096))), bytes_of(5, 4 * 4096));
    EXPECT_EQ(s.read(c), bytes_of(3, 4096));
  }
}

TEST(store, says_why_there_can_be_no_file) {
  const folder here;
  const auto complaint = [](const std::string& directory) {
    object_store s({.directory = directory}, "rank 3");
    const error e = thrown_by([&] { s.write(bytes_of(1, 1)); });
    EXPECT_EQ(e.code(), errc::io);
    EXPECT_THAT(e.hint(), HasSubstr("give it a directory that exists"));
    EXPECT_EQ(s.bytes(), 0u);
    EXPECT_EQ(s.write({}).bytes, 0u) << "needs no file";
    return e.message();
  };
  EXPECT_EQ(complaint(here.path + "/none"),
            "rank 3 cannot make a file in \"" + here.path + "/none\": No such file or directory");
  const std::string file = here.path + "/file";
  close(open(file.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
  EXPECT_EQ(complaint(file), "rank 3 cannot make a file in \"" + file + "\": Not a directory");
  EXPECT_THAT(complaint("/proc"), HasSubstr("rank 3 cannot make a file in \"/proc\": "));
}

TEST(store, tries_again_when_the_directory_is_there) {
  const folder here;
  object_store s({.directory = here.path + "/later"}, "rank 3");
  EXPECT_THROW(s.write(bytes_of(1, 10)), error);
  std::filesystem::create_directory(here.path + "/later");
  EXPECT_EQ(s.read(s.write(bytes_of(1, 10))), bytes_of(1, 10));
}

TEST(store, finds_what_the_disk_has_changed) {
  const folder here;
  for (const bool by_itself : {false, true}) {
    object_store s({.directory = here.path, .inline_io = by_itself}, "rank 3");
    const stored before = s.write(bytes_of(1, 10'000)), place = s.write(bytes_of(2, 2 * mebi + 5));
    store_peer::make_buffered(s); // to write a single byte
    for (const std::uint64_t at : {std::uint64_t{0}, mebi, 2 * mebi + 4}) {
      char was = 0, is = 0;
      const auto where = static_cast<off_t>(place.offset + at);
      ASSERT_EQ(pread(store_peer::fd(s), &was, 1, where), 1);
      is = static_cast<char>(was ^ 16);
      ASSERT_EQ(pwrite(store_peer::fd(s), &is, 1, where), 1);
      const error e = thrown_by([&] { s.read(place); });
      EXPECT_EQ(e.code(), errc::invalid_data);
      EXPECT_EQ(e.message(), "rank 3: what was written to disk is not what came back: 2097157 bytes at offset 12288 "
                             "of its file in \"" +
                                 here.path + '"');
      EXPECT_THAT(e.hint(), HasSubstr("the disk"));
      ASSERT_EQ(pwrite(store_peer::fd(s), &was, 1, where), 1);
      EXPECT_EQ(s.read(place), bytes_of(2, 2 * mebi + 5));
    }
    ASSERT_EQ(ftruncate(store_peer::fd(s), static_cast<off_t>(place.offset + mebi)), 0);
    EXPECT_EQ(thrown_by([&] { s.read(place); }).code(), errc::invalid_data) << "cut";
    ASSERT_EQ(ftruncate(store_peer::fd(s), static_cast<off_t>(place.offset)), 0);
    EXPECT_EQ(thrown_by([&] { s.read(place); }).code(), errc::invalid_data) << "gone";
    EXPECT_EQ(s.read(before), bytes_of(1, 10'000));
  }
}

TEST(store, refuses_what_is_not_there) {
  const folder here;
  object_store s({.directory = here.path}, "rank 3");
  const stored place = s.write(bytes_of(1, 5000));
  EXPECT_EQ(thrown_by([&] { s.read({4096, 5000, 0}); }).code(), errc::invalid_argument);
  EXPECT_EQ(thrown_by([&] { s.read({0, 50'000, 0}); }).code(), errc::invalid_argument);
  s.drop({4096, 5000, 0}); // is logged
  EXPECT_EQ(s.bytes(), 8192u);
  EXPECT_EQ(s.read(place), bytes_of(1, 5000));
  s.drop(place);
  EXPECT_EQ(thrown_by([&] { s.read(place); }).code(), errc::invalid_argument);
}

TEST(store, gives_room_back_to_the_file_system) {
  const folder here;
  object_store s({.directory = here.path, .inline_io = true}, "rank 3");
  const stored first = s.write(bytes_of(0, mebi));
  const byte_buffer large = bytes_of(1, mebi);
  std::vector<stored> places;
  for (int i = 0; i < 40; ++i) places.push_back(s.write(large));
  EXPECT_GE(blocks_of(s), 41 * mebi);
  while (places.size() > 2) {
    s.drop(places.back());
    places.pop_back();
  }
  EXPECT_LE(blocks_of(s), 20 * mebi);
  EXPECT_EQ(store_peer::end(s), 3 * mebi);
  EXPECT_EQ(s.read(first), bytes_of(0, mebi));
  for (int i = 0; i < 10; ++i) places.push_back(s.write(large));
  for (const stored& p : places) EXPECT_EQ(s.read(p), large);
}

TEST(store, gives_room_back_while_others_write) {
  const folder here;
  object_store s({.directory = here.path}, "rank 3");
  for (int round = 0; round < 3; ++round) {
    std::vector<stored> places;
    const byte_buffer large = bytes_of(1, 2 * mebi);
    for (int i = 0; i < 12; ++i) places.push_back(s.write(large));
    for (const stored& p : places) s.drop(p);
    write_read_drop(s, 5, 10); // beside a thread that punches, or before or after it
  }
  EXPECT_EQ(s.bytes(), 0u);
  while (s.bytes() == 0 && store_peer::end(s) != 0) std::this_thread::yield();
}

/// Writes until it fails; then all can be read, and there is room again where something is dropped.
void fill(object_store& s, const std::string& reason) {
  std::vector<stored> places;
  std::string said;
  std::uint64_t held = 0;
  while (said.empty() && places.size() < 1000) {
    held = s.bytes();
    try {
      places.push_back(s.write(bytes_of(places.size(), 100'000)));
    } catch (const error& e) {
      EXPECT_EQ(e.code(), errc::io);
      said = e.what();
    }
  }
  EXPECT_THAT(said, AllOf(HasSubstr("rank 3 cannot put 100000 bytes on disk: " + reason + " in \""),
                          HasSubstr("where it has stored " + std::to_string(held) + " bytes"),
                          HasSubstr("give it a directory with more room")));
  EXPECT_EQ(s.bytes(), held) << "the place is given back";
  ASSERT_GT(places.size(), 2u);
  for (std::size_t i = 0; i < places.size(); ++i) ASSERT_EQ(s.read(places[i]), bytes_of(i, 100'000));
  s.drop(places[1]);
  places[1] = s.write(bytes_of(1, 100'000));
  EXPECT_THROW(s.write(bytes_of(0, 200'000)), error);
  for (std::size_t i = 0; i < places.size(); ++i) ASSERT_EQ(s.read(places[i]), bytes_of(i, 100'000));
}

TEST(store, a_full_file_system_loses_nothing) {
  const folder here;
  int failed = 0; // errno
  // Mounted for this thread alone, and for those that it starts, so that nothing can be left over.
  std::thread([&] {
    if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        mount("tern", here.path.c_str(), "tmpfs", 0, "size=1m") != 0) {
      failed = errno;
      return;
    }
    for (const bool by_itself : {false, true}) {
      object_store s({.directory = here.path, .inline_io = by_itself}, "rank 3");
      fill(s, "No space left on device");
    }
    EXPECT_TRUE(nothing_in(here.path));
  }).join();
  if (failed != 0) GTEST_SKIP() << "a small file system cannot be mounted here: " << std::strerror(failed);
}

TEST(store, a_limit_of_the_process_is_no_room_either) {
  const auto child = test_support::in_child([] {
    const folder here;
    rlimit limit{};
    ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = mebi;
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
    {
      object_store s({.directory = here.path}, "rank 3");
      fill(s, "File too large"); // its threads take no signal
    }
    std::signal(SIGXFSZ, SIG_IGN);
    object_store s({.directory = here.path, .inline_io = true}, "rank 3");
    fill(s, "File too large");
  });
  EXPECT_EQ(child.code, 0) << child.out << child.err;
}

TEST(store, leaves_nothing_when_it_is_killed) {
  static constexpr const char* variable = "STORE_TEST_DIRECTORY"; // not TERN_…, which children do not inherit
  std::optional<folder> here;
  if (!std::getenv(variable)) {
    here.emplace();
    setenv(variable, here->path.c_str(), 1);
  }
  const auto child = test_support::in_child([] {
    object_store s({.directory = std::getenv(variable)}, "rank 3");
    const stored place = s.write(bytes_of(1, mebi));
    if (s.read(place) == bytes_of(1, mebi)) std::raise(SIGKILL);
  });
  unsetenv(variable);
  EXPECT_EQ(child.code, test_support::by_signal + SIGKILL) << child.out << child.err;
  EXPECT_TRUE(nothing_in(here->path));
}

} // namespace
} // namespace tern::detail
