// SPDX-License-Identifier: Apache-2.0
#include <tern/base/topology.hpp>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <set>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <unistd.h>

#include <tern/base/error.hpp>

namespace {

using tern::binding;
using tern::plan_binding;
using testing::ElementsAre;
using testing::HasSubstr;
using lists = std::vector<std::vector<int>>;

TEST(topology, machine_is_consistent) {
  const tern::machine m = tern::describe_machine();
  EXPECT_GE(m.packages, 1);
  EXPECT_GE(m.numa_nodes, 1);
  EXPECT_GE(m.cores, 1);
  EXPECT_GE(m.pus, m.cores);
  EXPECT_GT(m.memory_bytes, 1u << 20);
  EXPECT_EQ(m.allowed_cpus, tern::allowed_cpus());
  EXPECT_TRUE(std::is_sorted(m.allowed_cpus.begin(), m.allowed_cpus.end()));
  std::multiset<int> covered;
  for (const auto& core : m.allowed_cores) covered.insert(core.pus.begin(), core.pus.end());
  EXPECT_EQ(std::vector<int>(covered.begin(), covered.end()), m.allowed_cpus);
}

TEST(topology, usable_cpus) {
  EXPECT_EQ(tern::usable_cpus(8, std::nullopt), 8);
  EXPECT_EQ(tern::usable_cpus(8, 2.0), 2);
  EXPECT_EQ(tern::usable_cpus(8, 2.9), 2);
  EXPECT_EQ(tern::usable_cpus(8, 0.3), 1);
  EXPECT_EQ(tern::usable_cpus(2, 100.0), 2);
  EXPECT_EQ(tern::usable_cpus(0, std::nullopt), 1);
  EXPECT_EQ(tern::usable_cpus(1, 1e300), 1);
  EXPECT_GE(tern::usable_cpus(), 1);
  EXPECT_LE(tern::usable_cpus(), static_cast<int>(tern::allowed_cpus().size()));
}

/// A control-group tree in a temporary folder.
class cgroup : public testing::Test {
protected:
  void SetUp() override {
    root_ = std::filesystem::temp_directory_path() / ("tern-cgroup-" + std::to_string(::getpid()) + "-" +
                                                      testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::create_directories(root_);
  }
  void TearDown() override { std::filesystem::remove_all(root_); }
  void put(const std::string& path, const std::string& text) {
    std::filesystem::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text;
  }
  void put_v1(const std::string& folder, const std::string& quota, const std::string& period) {
    put(folder + "/cpu.cfs_quota_us", quota + "\n");
    put(folder + "/cpu.cfs_period_us", period + "\n");
  }
  std::optional<double> read(const std::string& text) const { return tern::read_cgroup_quota(root_.string(), text); }
  std::filesystem::path root_;
};

TEST_F(cgroup, nothing_there) {
  EXPECT_EQ(read(""), std::nullopt);
  EXPECT_EQ(read("0::/\n"), std::nullopt);
  EXPECT_EQ(read("garbage\n:\n::\n1:cpu\n"), std::nullopt);
  EXPECT_EQ(tern::read_cgroup_quota("/does/not/exist", "0::/a/b\n4:cpu:/x\n"), std::nullopt);
}

TEST_F(cgroup, v2_smallest_of_all_levels) {
  put("cpu.max", "max 100000\n");
  put("a/cpu.max", "150000 100000\n");
  put("a/b/cpu.max", "400000 100000\n");
  put("a/b/c/cpu.max", "max 100000\n");
  EXPECT_EQ(read("0::/a/b/c\n"), 1.5);
  EXPECT_EQ(read("0::/a\n"), 1.5);
  EXPECT_EQ(read("0::/\n"), std::nullopt);
  put("a/b/c/cpu.max", "50000 100000\n");
  EXPECT_EQ(read("0::/a/b/c\n"), 0.5);
}

TEST_F(cgroup, v2_container_sees_only_its_own_root) {
  put("cpu.max", "200000 100000\n"); // the path is the host's, the mount is the container's
  EXPECT_EQ(read("0::/system.slice/docker-abc.scope\n"), 2.0);
  EXPECT_EQ(read("0::/../other\n"), 2.0);
}

TEST_F(cgroup, v2_malformed_is_no_limit) {
  for (const char* text : {"", "max", "100000", "x y", "-5 100000", "100000 0", "100000 100000 7", "1e5junk 100000"}) {
    put("cpu.max", text);
    EXPECT_EQ(read("0::/\n"), std::nullopt) << text;
  }
}

TEST_F(cgroup, v1_named_by_both_controllers) {
  put_v1("cpu,cpuacct/docker/abc", "250000", "100000");
  put_v1("cpu,cpuacct", "-1", "100000");
  const std::string self = "12:pids:/x\n4:cpu,cpuacct:/docker/abc\n3:cpuset:/\n1:name=systemd:/init\n";
  EXPECT_EQ(read(self), 2.5);
  put_v1("cpu,cpuacct/docker", "100000", "50000");
  EXPECT_EQ(read(self), 2.0);
}

TEST_F(cgroup, v1_mounted_as_cpu) {
  put_v1("cpu/job", "30000", "100000");
  EXPECT_EQ(read("2:cpu:/job\n"), 0.3);
  EXPECT_EQ(read("2:cpuacct,cpu:/job\n"), 0.3);
  EXPECT_EQ(read("2:cpuset:/job\n"), std::nullopt); // another controller
}

TEST_F(cgroup, hybrid_takes_the_smaller) {
  put_v1("cpu/job", "300000", "100000");
  put("unified/job/cpu.max", "200000 100000\n");
  EXPECT_EQ(read("1:cpu:/job\n0::/job\n"), 2.0);
  put_v1("cpu/job", "100000", "100000");
  EXPECT_EQ(read("1:cpu:/job\n0::/job\n"), 1.0);
}

TEST_F(cgroup, memory_of_the_smallest_level) {
  const auto bytes = [&](const std::string& text) { return tern::read_cgroup_memory(root_.string(), text); };
  EXPECT_EQ(bytes("0::/a/b\n"), std::nullopt);
  put("a/memory.max", "1073741824\n");
  put("a/b/memory.max", "max\n");
  EXPECT_EQ(bytes("0::/a/b\n"), std::uint64_t{1} << 30);
  put("memory/job/memory.limit_in_bytes", "9223372036854771712\n"); // what no limit looks like
  EXPECT_EQ(bytes("5:memory:/job\n"), std::nullopt);
  put("memory/job/memory.limit_in_bytes", "4096\n");
  EXPECT_EQ(bytes("5:memory:/job\n0::/a\n"), std::uint64_t{4096});
}

std::vector<tern::cpu_core> four_cores() { return {{0, {0, 4}}, {0, {1, 5}}, {1, {2, 6}}, {1, {3, 7}}}; }

TEST(plan, none_binds_nothing) {
  EXPECT_EQ(plan_binding(binding::none, 3, 0, 1, four_cores()), lists(3));
  EXPECT_EQ(plan_binding(binding::none, 2, 0, 1), lists(2));
  EXPECT_EQ(plan_binding(binding::core, 2, 0, 1, {}), lists(2));
  EXPECT_TRUE(plan_binding(binding::core, 0, 0, 1, four_cores()).empty());
}

TEST(plan, core_gives_each_worker_its_own) {
  EXPECT_EQ(plan_binding(binding::core, 4, 0, 1, four_cores()), (lists{{0, 4}, {1, 5}, {2, 6}, {3, 7}}));
  EXPECT_EQ(plan_binding(binding::core, 2, 0, 2, four_cores()), (lists{{0, 4}, {1, 5}}));
  EXPECT_EQ(plan_binding(binding::core, 2, 1, 2, four_cores()), (lists{{2, 6}, {3, 7}}));
}

TEST(plan, more_workers_than_cores_share) {
  EXPECT_EQ(plan_binding(binding::core, 3, 1, 2, four_cores()), (lists{{2, 6}, {3, 7}, {2, 6}}));
  EXPECT_EQ(plan_binding(binding::core, 1, 5, 6, four_cores()), (lists{{1, 5}})); // more ranks than cores
}

TEST(plan, blocks_of_ranks_cover_all_cores_once) {
  std::vector<tern::cpu_core> cores;
  for (int i = 0; i < 13; ++i) cores.push_back({i / 7, {i}});
  for (int ranks = 1; ranks <= 13; ++ranks) {
    std::vector<int> seen;
    for (int r = 0; r < ranks; ++r) {
      const int block = (r + 1) * 13 / ranks - r * 13 / ranks;
      for (const auto& cpus : plan_binding(binding::core, block, r, ranks, cores)) seen.push_back(cpus.at(0));
    }
    ASSERT_EQ(seen.size(), 13u);
    for (int i = 0; i < 13; ++i) EXPECT_EQ(seen[static_cast<std::size_t>(i)], i) << ranks;
  }
}

TEST(plan, numa_gives_whole_nodes_and_spreads) {
  const std::vector<int> node0{0, 1, 4, 5}, node1{2, 3, 6, 7};
  EXPECT_EQ(plan_binding(binding::numa, 2, 0, 1, four_cores()), (lists{node0, node1}));
  EXPECT_EQ(plan_binding(binding::numa, 4, 0, 1, four_cores()), (lists{node0, node0, node1, node1}));
  EXPECT_EQ(plan_binding(binding::numa, 1, 1, 2, four_cores()), (lists{node1}));
  EXPECT_EQ(plan_binding(binding::numa, 6, 0, 1, four_cores()).size(), 6u);
}

TEST(plan, refuses_impossible_places) {
  for (const auto& [workers, rank, size] :
       {std::array{-1, 0, 1}, std::array{1, 1, 1}, std::array{1, -1, 1}, std::array{1, 0, 0}})
    try {
      plan_binding(binding::core, workers, rank, size, four_cores());
      FAIL();
    } catch (const tern::error& e) {
      EXPECT_EQ(e.code(), tern::errc::invalid_argument);
      EXPECT_THAT(e.what(), HasSubstr("of rank " + std::to_string(rank) + " of " + std::to_string(size)));
    }
}

TEST(topology, binding_names) {
  for (const auto kind : {binding::none, binding::core, binding::numa})
    EXPECT_EQ(tern::binding_from(tern::name_of(kind)), kind);
  EXPECT_EQ(tern::name_of(static_cast<binding>(9)), "unknown");
  EXPECT_THROW(tern::binding_from("socket"), tern::error);
}

TEST(topology, binds_this_thread) {
  std::thread([] {
    const auto allowed = tern::allowed_cpus();
    tern::bind_this_thread({});
    EXPECT_EQ(tern::allowed_cpus(), allowed);
    tern::bind_this_thread({allowed.back()});
    EXPECT_THAT(tern::allowed_cpus(), ElementsAre(allowed.back()));
    EXPECT_EQ(tern::usable_cpus(), 1);
  }).join();
}

TEST(topology, binding_errors_say_what_failed) {
  std::thread([] {
    try {
      tern::bind_this_thread({100000, 100001});
      FAIL();
    } catch (const tern::error& e) {
      EXPECT_EQ(e.code(), tern::errc::system);
      EXPECT_THAT(e.what(), HasSubstr("cannot bind a thread to CPUs 100000,100001: Invalid argument"));
    }
    EXPECT_THROW(tern::bind_this_thread({-1}), tern::error);
    EXPECT_THROW(tern::bind_this_thread({1 << 30}), tern::error);
  }).join();
}

TEST(topology, names_threads) {
  std::thread([] {
    char name[16] = {};
    tern::name_this_thread("a-name-that-is-too-long");
    ::pthread_getname_np(::pthread_self(), name, sizeof name);
    EXPECT_STREQ(name, "a-name-that-is-");
    tern::name_this_thread("");
    ::pthread_getname_np(::pthread_self(), name, sizeof name);
    EXPECT_STREQ(name, "");
  }).join();
}

} // namespace
