// SPDX-License-Identifier: Apache-2.0
// The host's memory is limited, and something goes wrong: the disk is full, fails or is damaged,
// something can never fit, the program holds what would have to go.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <numeric>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "child.hpp"
#include "tests/hetero/support/graph_kernels.hpp"
#include "tests/hetero/support/tasks.hpp"
#include "tests/task/support/executors.hpp"
#include <tern/hetero/paging/host_limit.hpp>
#include <tern/hetero/recorded.hpp>
#include <tern/task/sim.hpp>

namespace tern::hetero {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using object = hetero_object<unsigned>;

using folder = test::temporary_on_disk;

/// The descriptor of the file without a name that is in a folder; -1: there is none.
int file_in(const std::string& path) {
  for (const auto& one : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    if (std::filesystem::read_symlink(one.path(), gone).string().starts_with(path + "/"))
      return std::atoi(one.path().filename().c_str());
  }
  return -1;
}
/// Until its end another file is in the place of that one.
class replaced {
public:
  replaced(int fd, const char* by, int flags) : fd_(fd), kept_(dup(fd)) {
    const int other = open(by, flags | O_CLOEXEC);
    if (fd < 0 || kept_ < 0 || other < 0 || dup2(other, fd) < 0) throw std::runtime_error("cannot replace a file");
    close(other);
  }
  ~replaced() {
    dup2(kept_, fd_);
    close(kept_);
  }
  replaced(const replaced&) = delete;
  replaced& operator=(const replaced&) = delete;

private:
  int fd_, kept_;
};

constexpr std::int64_t elements = 16 * 1024, bytes = elements * std::int64_t{sizeof(unsigned)}; // 64 KiB
constexpr std::size_t fit = 4;                                                                  // objects
const std::string limit = std::to_string(fit * bytes);

int size_of(const object& o) { return static_cast<int>(o.extent(0)); }
items over(const object& o) { return items(o.extent(0), 1); }
hetero_task mix(const object& x, const object& y, const object& z) {
  hetero_task t([](host_view<const unsigned, 1> a, host_view<const unsigned, 1> b,
                   host_view<unsigned, 1> c) { c(0) += a(0) + b(0); },
                read(x), read(y), read_write(z));
  t.name("mix");
  return t;
}
std::vector<object> objects_of(std::size_t n) {
  std::vector<object> all;
  for (std::size_t i = 0; i < n; ++i) {
    all.emplace_back(elements, static_cast<unsigned>(i + 1));
    all.back().name("o" + std::to_string(i));
  }
  return all;
}
std::uint64_t sum_of(const object& o) {
  const auto host = o.host(access_mode::read).get();
  return std::accumulate(host.begin(), host.end(), std::uint64_t{0});
}
void expect_all(const std::vector<object>& all) {
  for (std::size_t i = 0; i < all.size(); ++i) EXPECT_EQ(sum_of(all[i]), (i + 1) * elements) << i;
}
std::size_t lines_of(const std::string& text) {
  return static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
}

// Disks ---------------------------------------------------------------------------------------------------------------

TEST(host_disk, a_full_one_leaves_data_in_memory_and_says_so_once) {
  const folder here;
  testing::internal::CaptureStderr();
  on({.workers = 2, .host_memory = limit, .disk = here.path + ":128K"}, [&] {
    const auto all = objects_of(4 * fit);
    for (int i = 0; i < 3; ++i) expect_all(all);
    EXPECT_LE(count().disk_bytes, 128 * 1024);
    EXPECT_GT(count().host_bytes, static_cast<std::int64_t>(fit) * bytes);
  });
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_THAT(said,
              AllOf(HasSubstr("objects stay in memory beyond --tern-hetero-host-memory, and the program goes on: "
                              "hetero cannot put 65536 bytes on disk: no more than 131072 bytes may be stored in \"" +
                              here.path + '"'),
                    HasSubstr("name a folder with more room (--tern-hetero-disk=DIR:SIZE), or raise "
                              "--tern-hetero-host-memory")));
  EXPECT_LE(lines_of(said), 2u) << said; // with the hint
}

TEST(host_disk, one_that_fails_to_write_is_used_again_when_it_can_be) {
  const folder here;
  testing::internal::CaptureStderr();
  on({.workers = 2, .host_memory = limit, .disk = here.path}, [&] {
    const object first(elements, 1u); // which makes the runtime, and so the file
    std::vector<object> all;
    {
      const replaced full(file_in(here.path), "/dev/full", O_WRONLY);
      all = objects_of(3 * fit);
      expect_all(all);
      EXPECT_EQ(count().copies_to_disk, 0u);
      EXPECT_EQ(count().host_bytes, static_cast<std::int64_t>(all.size() + 1) * bytes);
    }
    const object more(elements, 1u);
    const auto begin = std::chrono::steady_clock::now(); // it is tried again after a second
    const auto beyond = [] { return count().host_bytes > static_cast<std::int64_t>(fit) * bytes; };
    do expect_all(all);
    while (beyond() && std::chrono::steady_clock::now() - begin < std::chrono::seconds(30));
    EXPECT_GT(count().copies_to_disk, 0u);
    EXPECT_LE(count().host_bytes, static_cast<std::int64_t>(fit) * bytes);
  });
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("No space left on device"));
}

TEST(host_disk, what_cannot_be_read_fails_those_that_need_it_and_is_tried_again) {
  const folder here;
  on({.workers = 2, .host_memory = limit, .disk = here.path}, [&] {
    const auto all = objects_of(3 * fit);
    expect_all(all);
    {
      const replaced broken(file_in(here.path), "/dev/null", O_WRONLY);
      const std::string why = text_of_error([&] { sum_of(all[0]); });
      EXPECT_THAT(why, AllOf(HasSubstr("hetero_object<unsigned int> 'o0' of 16384 did not come back from disk: "),
                             HasSubstr("hetero cannot read back 65536 bytes at offset "),
                             HasSubstr("of its file in \"" + here.path + "\": Bad file descriptor"),
                             HasSubstr("--tern-hetero-disk=DIR")));
      EXPECT_EQ(sum_of(all.back()), all.size() * elements) << "it is in memory";
      hetero_task t = mix(all[1], all[2], all[3]);
      t.submit();
      EXPECT_THAT(text_of_error([&] { t.wait(); }), HasSubstr("did not come back from disk"));
    }
    EXPECT_EQ(sum_of(all[0]), 1u * elements);
    EXPECT_EQ(sum_of(all[2]), 3u * elements);
  });
}

TEST(host_disk, what_is_damaged_is_told_and_never_used) {
  const folder here;
  on({.workers = 2, .host_memory = limit, .disk = here.path}, [&] {
    const auto all = objects_of(3 * fit);
    expect_all(all);
    const int file = open(("/proc/self/fd/" + std::to_string(file_in(here.path))).c_str(), O_WRONLY | O_CLOEXEC);
    struct stat about {};
    ASSERT_EQ(fstat(file, &about), 0);
    for (off_t at = 100; at < about.st_size; at += 4096) ASSERT_EQ(pwrite(file, "!", 1, at), 1);
    ASSERT_EQ(fsync(file), 0);
    close(file);
    std::size_t damaged = 0;
    for (std::size_t i = 0; i < all.size(); ++i) {
      try {
        EXPECT_EQ(sum_of(all[i]), (i + 1) * elements) << "it is in memory";
      } catch (const error& e) {
        ++damaged;
        EXPECT_EQ(e.code(), errc::invalid_data);
        EXPECT_THAT(e.what(), AllOf(HasSubstr("hetero_object<unsigned int> 'o" + std::to_string(i) + "' of 16384"),
                                    HasSubstr("what was written to disk is not what came back"), HasSubstr(here.path)));
      }
    }
    EXPECT_GE(damaged, 2 * fit);
    for (const object& o : all) { // what is written anew is right
      hetero_task([](host_view<unsigned, 1> v) { std::fill(v.begin(), v.end(), 7u); }, write(o)).submit();
    }
    for (const object& o : all) EXPECT_EQ(sum_of(o), 7u * elements);
  });
}

// Input ---------------------------------------------------------------------------------------------------------------

TEST(host_disk, folders_that_are_none_are_refused) {
  const folder here;
  const auto refusal = [](const std::string& text) {
    return text_of_error([&] { detail::verify_disk(text, options()); });
  };
  EXPECT_EQ(refusal(here.path), "nothing was thrown");
  EXPECT_EQ(refusal(here.path + ":16M"), "nothing was thrown");
  EXPECT_EQ(refusal(""), "nothing was thrown");
  EXPECT_THAT(
      refusal(here.path + "/none:1G"),
      AllOf(HasSubstr("hetero-disk cannot make a file in \"" + here.path + "/none\": No such file or directory"),
            HasSubstr("name a folder on a disk that may be written to: --tern-hetero-disk=DIR or DIR:SIZE")));
  EXPECT_THAT(refusal("/proc/self/exe"),
              HasSubstr("hetero-disk cannot make a file in \"/proc/self/exe\": Not a directory"));
  EXPECT_THAT(refusal("/proc"), HasSubstr("hetero-disk cannot make a file in \"/proc\": "));
  EXPECT_THAT(refusal("/dev/shm"),
              HasSubstr("hetero-disk: \"/dev/shm\" is memory itself (tmpfs): what goes there frees none"));
  EXPECT_TRUE(std::filesystem::is_empty(here.path));
}

TEST(host_disk, a_folder_that_is_only_read_is_refused) {
  const folder here;
  const auto refusal = [](const std::string& where) {
    return text_of_error([&] { detail::verify_disk(where, options()); });
  };
  const char* const at = here.path.c_str();
  const std::string cannot = "hetero-disk cannot make a file in \"" + here.path + "\": ";
  if (mount(at, at, nullptr, MS_BIND, nullptr) == 0) {
    if (mount(nullptr, at, nullptr, MS_BIND | MS_REMOUNT | MS_RDONLY, nullptr) == 0) {
      EXPECT_THAT(refusal(here.path), HasSubstr(cannot + "Read-only file system"));
    }
    umount(at);
  } else if (geteuid() != 0) { // who may not mount may not write here either
    std::filesystem::permissions(here.path, std::filesystem::perms::owner_read | std::filesystem::perms::owner_exec);
    EXPECT_THAT(refusal(here.path), HasSubstr(cannot + "Permission denied"));
  }
  EXPECT_THAT(refusal("/sys"), HasSubstr("hetero-disk cannot make a file in \"/sys\": "));
}

TEST(host_disk, a_limit_that_nothing_sets_is_divided_between_ranks) {
  const folder here;
  const auto limit_of = [&](int sharing) {
    options opts;
    opts.set(hetero_disk, here.path);
    opts.set(hetero_share, sharing);
    return detail::host_limit_of(opts, false)->limit;
  };
  EXPECT_GT(limit_of(1), 0u);
  EXPECT_EQ(limit_of(8), limit_of(1) / 8);
}

TEST(host_disk, options_say_where_and_how_much) {
  using detail::disk_place_in;
  EXPECT_EQ(disk_place_in("/a/b").directory, "/a/b");
  EXPECT_EQ(disk_place_in("/a/b").most_bytes, 0u);
  EXPECT_EQ(disk_place_in("/a:b:2K").directory, "/a:b");
  EXPECT_EQ(disk_place_in("/a:b:2K").most_bytes, 2048u);
  EXPECT_EQ(disk_place_in("/a:b").directory, "/a:b");
  const folder here;
  options opts;
  EXPECT_FALSE(detail::host_limit_of(opts, false).has_value());
  opts.set(hetero_disk, here.path);
  EXPECT_GT(detail::host_limit_of(opts, false)->limit, std::size_t{1} << 26) << "most of the machine's memory";
  opts.set(hetero_host_memory, std::string("2M"));
  EXPECT_EQ(detail::host_limit_of(opts, false)->limit, std::size_t{2} << 20);
  opts.set(hetero_disk, std::string());
  EXPECT_FALSE(detail::host_limit_of(opts, false)->disk.directory.empty());
  opts.set(hetero_disk, here.path + ":3G");
  opts.set(hetero_host_memory, std::string("1536M"));
  EXPECT_THAT(describe_host_limit(opts),
              AllOf(HasSubstr("objects take up to 1.5 GiB of memory, then go to \"" + here.path + "\", which has "),
                    HasSubstr(" GiB free, of which they take up to 3.0 GiB")));
  EXPECT_EQ(describe_host_limit(options()), "");
  EXPECT_THAT(text_of_error([&] { opts.set(hetero_host_memory, std::string("much")); }),
              HasSubstr("a number of bytes, such as 512M or 16G, or nothing"));
}

TEST(host_disk, what_can_never_fit_is_refused_with_sizes) {
  const folder here;
  on({.workers = 2,
      .devices = "host,simulated",
      .simulated = "1",
      .host_memory = std::to_string(2 * bytes),
      .disk = here.path},
     [&] {
       const auto all = objects_of(4);
       hetero_task t = mix(all[0], all[1], object(elements, 1u));
       t.submit();
       EXPECT_THAT(text_of_error([&] { t.wait(); }),
                   AllOf(HasSubstr("task 'mix' uses 3 objects with 196608 bytes, but objects may take 131072 bytes of "
                                   "the host's memory"),
                         HasSubstr("raise --tern-hetero-host-memory, or use smaller objects")));
       EXPECT_THAT(
           text_of_error([&] { object(3 * elements, 1u); }),
           HasSubstr("hetero_object<unsigned int> of 49152 has 196608 bytes, but objects may take 131072 bytes"));
       const object large(3 * elements); // fits a device, and cannot come home
       hetero_task(graph_kernels::fill, over(large), size_of(large), 1, 5u, 1, write(large)).on("simulated0").submit();
       EXPECT_THAT(text_of_error([&] { sum_of(large); }),
                   HasSubstr(" 196608 bytes, but objects may take 131072 bytes"));
       expect_all(all);
       EXPECT_LE(count().host_bytes, 2 * bytes);
     });
}

// What stays ----------------------------------------------------------------------------------------------------------

TEST(host_disk, accesses_stay_where_they_are) {
  const folder here;
  on({.workers = 2, .host_memory = limit, .disk = here.path}, [&] {
    const auto all = objects_of(3 * fit);
    {
      std::vector<host_access<unsigned, 1>> open;
      for (std::size_t i = 0; i < fit; ++i) open.push_back(all[i].host(access_mode::read_write).get());
      EXPECT_EQ(sum_of(all[fit]), (fit + 1) * elements) << "beyond the limit, as nothing can go";
      for (std::size_t i = fit; i < all.size(); ++i) EXPECT_EQ(sum_of(all[i]), (i + 1) * elements);
      for (std::size_t i = 0; i < fit; ++i) open[i](5) += 10;
      EXPECT_LE(count().host_bytes, static_cast<std::int64_t>(fit + 2) * bytes);
    }
    for (std::size_t i = 0; i < all.size(); ++i) EXPECT_EQ(sum_of(all[i]), (i + 1) * elements + (i < fit ? 10 : 0));
    EXPECT_LE(count().host_bytes, static_cast<std::int64_t>(fit) * bytes);
  });
}

// What will not be used soon goes before what was used longer ago.
TEST(host_disk, what_is_not_wanted_goes_first) {
  const folder here;
  on({.workers = 1, .host_memory = limit, .disk = here.path}, [&] {
    const auto all = objects_of(fit);
    for (const object& o : all) sum_of(o); // the first is the longest unused
    all[2].wont_use();
    wait_all();
    const object more(elements, 1u);
    const auto read_before = count().copies_from_disk;
    for (const std::size_t i : {0, 1, 3}) EXPECT_EQ(sum_of(all[i]), (i + 1) * elements);
    EXPECT_EQ(count().copies_from_disk, read_before) << "they have stayed";
    EXPECT_EQ(sum_of(all[2]), 3u * elements);
    EXPECT_EQ(count().copies_from_disk, read_before + 1);
  });
}

TEST(host_disk, lent_memory_neither_goes_nor_counts) {
  const folder here;
  on({.workers = 2, .host_memory = limit, .disk = here.path}, [&] {
    std::vector<unsigned> mine(static_cast<std::size_t>(8 * elements), 3u);
    const auto lent = object::adopt(mine.data(), extents<1>{8 * elements});
    const auto all = objects_of(3 * fit);
    expect_all(all);
    tern::submit([](host_view<unsigned, 1> v) { v(0) = 4; }, read_write(lent));
    wait_all();
    EXPECT_EQ(mine[0], 4u);
    EXPECT_LE(count().host_bytes, static_cast<std::int64_t>(fit) * bytes);
  });
}

// A task that waits for others holds what it uses: after a second without progress these get their
// memory beyond the limit.
TEST(host_disk, a_task_may_wait_for_others) {
  const folder here;
  on({.workers = 2, .host_memory = limit, .disk = here.path}, [&] {
    const auto all = objects_of(2 * fit);
    hetero_task outer([&](host_view<unsigned, 1> a, host_view<unsigned, 1>, host_view<unsigned, 1>,
                          host_view<unsigned, 1>) { a(0) += static_cast<unsigned>(sum_of(all[fit + 1])); },
                      read_write(all[0]), read_write(all[1]), read_write(all[2]), read_write(all[3]));
    outer.submit();
    outer.wait();
    EXPECT_EQ(sum_of(all[0]), elements + (fit + 2) * elements);
  });
}

TEST(host_disk, many_fibers_access_what_comes_and_goes) {
  const folder here;
  on({.workers = 3, .host_memory = limit, .disk = here.path}, [&] {
    const auto all = objects_of(3 * fit);
    std::vector<fiber> fibers;
    constexpr int rounds = 60, count_of_fibers = 6;
    for (int f = 0; f < count_of_fibers; ++f)
      fibers.emplace_back([&all, f] {
        for (int i = 0; i < rounds; ++i) {
          const auto host = all[static_cast<std::size_t>(i * 7 + f) % all.size()].host(access_mode::read_write).get();
          host(static_cast<std::int64_t>(f)) += 1;
        }
      });
    for (fiber& f : fibers) f.join();
    std::uint64_t sum = 0, before = 0;
    for (std::size_t i = 0; i < all.size(); ++i) {
      sum += sum_of(all[i]);
      before += (i + 1) * elements;
    }
    EXPECT_EQ(sum, before + rounds * count_of_fibers);
  });
}

TEST(host_disk, recorded_tasks_hold_what_they_use) {
  const folder here;
  on({.workers = 3, .host_memory = limit, .disk = here.path}, [&] {
    const auto all = objects_of(3 * fit);
    recorded steps("steps");
    for (int i = 0; i < 5; ++i)
      for (std::size_t k = 0; k + 1 < all.size(); k += 3)
        steps.submit([&] {
          tern::submit([](host_view<unsigned, 1> v) { v(0) += 1; }, read_write(all[k]));
          tern::submit([](host_view<const unsigned, 1> v, host_view<unsigned, 1> w) { w(1) += v(0); }, read(all[k]),
                       read_write(all[k + 1]));
        });
    wait_all();
    EXPECT_EQ(sum_of(all[3]), 4u * elements + 5);
    EXPECT_EQ(sum_of(all[4]), 5u * elements + (5u + 6 + 7 + 8 + 9));
  });
}

// The disk is memory there, and takes virtual time.
TEST(host_disk, simulations_repeat) {
  const auto run_once = [](std::uint64_t seed) {
    options opts;
    opts.set(hetero_devices, "host,simulated");
    opts.set(hetero_simulated, "1:memory=300000");
    opts.set(hetero_policy, "random");
    opts.set(hetero_host_memory, limit);
    sim::simulation world({.seed = seed});
    scheduler s({.workers = 3, .simulation = &world, .opts = &opts});
    std::vector<std::uint64_t> found;
    EXPECT_EQ(s.run([&] {
      {
        const auto all = objects_of(3 * fit);
        for (int i = 0; i < 60; ++i) {
          const std::size_t x = static_cast<std::size_t>(i) * 5 % all.size(),
                            y = (x + 1 + static_cast<std::size_t>(i) % 7) % all.size();
          if (x != y)
            hetero_task(graph_kernels::mix, over(all[x]), size_of(all[x]), 1, 1u, 1, read(all[x]), 1,
                        read_write(all[y]))
                .submit();
        }
        wait_all();
        for (const object& o : all) found.push_back(sum_of(o));
        const statistics c = count();
        EXPECT_GT(c.copies_to_disk, 0u);
        found.push_back(c.copies_to_disk);
        found.push_back(c.copies_from_disk);
        found.push_back(c.bytes_to_devices);
      }
      expect_nothing_left();
    }),
              0u);
    return found;
  };
  const std::size_t results = 3 * fit;
  const auto first = run_once(1);
  for (std::uint64_t seed = 1; seed <= test_support::some<std::uint64_t>(30) && !testing::Test::HasFailure(); ++seed) {
    const auto found = run_once(seed);
    EXPECT_EQ(found, run_once(seed)) << seed;
    EXPECT_TRUE(std::equal(first.begin(), first.begin() + results, found.begin())) << seed;
  }
}

} // namespace
} // namespace tern::hetero
