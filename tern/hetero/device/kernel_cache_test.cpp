// SPDX-License-Identifier: Apache-2.0
// Compiled kernels on disk: what is stored is found again, whatever happened to the file meanwhile.
#include <tern/hetero/device/kernel_cache.hpp>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include <sys/stat.h>

#include <tern/hetero/device/device_list.hpp>
#include <tern/hetero/device/opencl/opencl_device.hpp>
#include <tern/hetero/device/settings.hpp>
#include <tern/hetero/devices.hpp>

namespace tern::hetero::detail {
namespace {

namespace fs = std::filesystem;

std::vector<std::byte> bytes_of(const std::string& text) {
  const auto* p = reinterpret_cast<const std::byte*>(text.data());
  return {p, p + text.size()};
}

class kernel_cache_test : public testing::Test {
protected:
  ~kernel_cache_test() override { fs::remove_all(top); }

  std::vector<fs::path> files() const {
    std::vector<fs::path> all;
    if (fs::exists(cache.folder()))
      for (const auto& e : fs::directory_iterator(cache.folder())) all.push_back(e.path());
    return all;
  }
  std::string content(const fs::path& file) const {
    std::ifstream in(file, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  void write(const fs::path& file, const std::string& text) const { std::ofstream(file, std::ios::binary) << text; }

  static fs::path new_folder() {
    std::string name = (fs::temp_directory_path() / "tern-cache-XXXXXX").string();
    return mkdtemp(name.data());
  }
  const fs::path top = new_folder();
  const kernel_cache cache{top / "a" / "b"};
};

TEST_F(kernel_cache_test, finds_what_was_stored) {
  EXPECT_FALSE(cache.find("key"));
  const auto one = bytes_of(std::string("\0\1\2", 3)), two = bytes_of("other");
  cache.store("key", one);
  cache.store("key 2", two);
  cache.store("nothing in it", {});
  EXPECT_EQ(cache.find("key"), one);
  EXPECT_EQ(cache.find("key 2"), two);
  EXPECT_EQ(cache.find("nothing in it"), std::vector<std::byte>());
  EXPECT_FALSE(cache.find("key 3"));
  cache.store("key", two);
  EXPECT_EQ(cache.find("key"), two);
  EXPECT_EQ(files().size(), 3u); // and no drafts
  cache.remove("key");
  EXPECT_FALSE(cache.find("key"));

  struct stat what {};
  ASSERT_EQ(::stat(cache.folder().c_str(), &what), 0);
  EXPECT_EQ(what.st_mode & 0777, 0700u) << "others could put their code there";
}

TEST_F(kernel_cache_test, any_damage_is_a_miss_and_is_removed) {
  const auto bytes = bytes_of("compiled");
  cache.store("key", bytes);
  const fs::path file = files().at(0);
  const std::string right = content(file);
  const auto expect_miss = [&](const std::string& text, const std::string& how) {
    write(file, text);
    EXPECT_FALSE(cache.find("key")) << how;
    EXPECT_FALSE(fs::exists(file)) << how;
  };
  for (std::size_t i = 0; i < right.size(); ++i) {
    std::string wrong = right;
    wrong[i] = static_cast<char>(wrong[i] ^ 0x40);
    expect_miss(wrong, "byte " + std::to_string(i));
    expect_miss(right.substr(0, i), "cut to " + std::to_string(i));
  }
  expect_miss(right + "x", "longer");
  expect_miss("something else altogether, and longer than the header is", "foreign");
  // The sum of these sizes is right only because it wraps.
  std::string wraps = right;
  for (std::size_t i = 8; i < 24; ++i) wraps[i] = '\xff';
  expect_miss(wraps, "sizes");
  write(file, right);
  EXPECT_EQ(cache.find("key"), bytes);
}

TEST_F(kernel_cache_test, another_key_of_the_same_hash_is_a_miss) {
  cache.store("key", bytes_of("compiled"));
  const fs::path file = files().at(0);
  const std::string one = content(file);
  cache.store("yek", bytes_of("compiled too"));
  for (const fs::path& other : files())
    if (other != file) write(other, one);
  EXPECT_FALSE(cache.find("yek"));
  EXPECT_EQ(cache.find("key"), bytes_of("compiled"));
}

TEST_F(kernel_cache_test, what_is_no_file_is_a_miss) {
  cache.store("key", bytes_of("compiled"));
  const fs::path file = files().at(0);
  fs::remove(file);
  fs::create_directory(file);
  EXPECT_FALSE(cache.find("key"));
  cache.store("key", bytes_of("compiled")); // cannot take the folder's place
  EXPECT_EQ(files().size(), 1u);
  fs::remove(file);
  ASSERT_EQ(::mkfifo(file.c_str(), 0600), 0);
  EXPECT_FALSE(cache.find("key"));
}

TEST_F(kernel_cache_test, a_folder_that_cannot_be_written_is_harmless) {
  for (const char* folder : {"/proc/nowhere/tern", "/dev/null", "/dev/null/tern"}) {
    const kernel_cache none{fs::path(folder)};
    none.store("key", bytes_of("compiled"));
    EXPECT_FALSE(none.find("key")) << folder;
    none.remove("key");
  }
}

TEST_F(kernel_cache_test, several_write_at_a_time) {
  std::vector<std::thread> writers;
  for (int n = 0; n < 4; ++n)
    writers.emplace_back([&, n] {
      const auto mine = bytes_of(std::string(1000, static_cast<char>('a' + n)));
      for (int i = 0; i < 50; ++i) {
        cache.store("key", mine);
        const auto found = cache.find("key");
        ASSERT_TRUE(found);
        ASSERT_EQ(*found, std::vector<std::byte>(1000, found->front()));
      }
    });
  for (auto& w : writers) w.join();
  EXPECT_EQ(files().size(), 1u);
}

// Puts back what the environment was.
class variable {
public:
  variable(const char* name, const char* value) : name_(name) {
    if (const char* const before = std::getenv(name)) before_ = before;
    if (value)
      ::setenv(name, value, 1);
    else
      ::unsetenv(name);
  }
  ~variable() {
    if (before_)
      ::setenv(name_, before_->c_str(), 1);
    else
      ::unsetenv(name_);
  }
  variable(const variable&) = delete;
  variable& operator=(const variable&) = delete;

private:
  const char* const name_;
  std::optional<std::string> before_;
};

TEST_F(kernel_cache_test, the_option_names_the_folder) {
  options opts;
  {
    const variable cache_home("XDG_CACHE_HOME", "/c"), home("HOME", "/h");
    EXPECT_EQ(kernel_cache(opts).folder(), "/c/tern");
    opts.set(hetero_cache, "some/folder");
    EXPECT_EQ(kernel_cache(opts).folder(), "some/folder");
    opts.set(hetero_cache, "off");
    EXPECT_EQ(kernel_cache(opts).folder(), "");
    opts.set(hetero_cache, "");
  }
  {
    const variable cache_home("XDG_CACHE_HOME", "not/absolute"), home("HOME", "/h");
    EXPECT_EQ(kernel_cache(opts).folder(), "/h/.cache/tern");
  }
  const variable cache_home("XDG_CACHE_HOME", nullptr), home("HOME", nullptr);
  EXPECT_EQ(kernel_cache(opts).folder(), "");
}

TEST_F(kernel_cache_test, where_no_folder_can_be_written_the_process_keeps_them) {
  options opts;
  const variable cache_home("XDG_CACHE_HOME", nullptr);
  for (const char* const folder : {static_cast<const char*>(nullptr), "/dev/null/nobody"}) {
    const variable home("HOME", folder);
    const std::string key = folder ? folder : "none";
    EXPECT_TRUE(kernel_cache(opts).keeps());
    EXPECT_FALSE(kernel_cache(opts).find(key));
    kernel_cache(opts).store(key, bytes_of("compiled"));
    EXPECT_EQ(kernel_cache(opts).find(key), bytes_of("compiled"));
    kernel_cache(opts).remove(key);
    EXPECT_FALSE(kernel_cache(opts).find(key));
  }
  // One that was asked for is not replaced.
  opts.set(hetero_cache, "/dev/null/nobody");
  kernel_cache(opts).store("key", bytes_of("compiled"));
  EXPECT_FALSE(kernel_cache(opts).find("key"));
}

TEST(settings, bytes_have_units) {
  EXPECT_EQ(bytes_in("4096"), 4096u);
  EXPECT_EQ(bytes_in("2K"), 2048u);
  EXPECT_EQ(bytes_in("2g"), 2ull << 30);
  EXPECT_EQ(bytes_in("16777215T"), 16777215ull << 40);
  for (const char* wrong : {"", "G", "-1", "1.5G", "1GB", "16777216T", " 1", "99999999999999999999"})
    EXPECT_FALSE(bytes_in(wrong)) << wrong;
  options opts;
  EXPECT_ANY_THROW(opts.set(hetero_memory, "lots"));
  opts.set(hetero_memory, "2G");
}

class environment {
public:
  environment(const char* name, const char* value) : name_(name) {
    if (const char* const before = std::getenv(name)) before_ = before;
    value ? ::setenv(name, value, 1) : ::unsetenv(name);
  }
  ~environment() { before_ ? ::setenv(name_, before_->c_str(), 1) : ::unsetenv(name_); }
  environment(const environment&) = delete;
  environment& operator=(const environment&) = delete;

private:
  const char* const name_;
  std::optional<std::string> before_;
};

TEST(settings, memory_is_divided_between_those_that_share_it) {
  const environment open_mpi("OMPI_COMM_WORLD_LOCAL_SIZE", nullptr), mpich("MPI_LOCALNRANKS", nullptr);
  options opts;
  EXPECT_EQ(share_of_memory(1000, opts), 900u);
  opts.set(hetero_share, 3);
  EXPECT_EQ(share_of_memory(1000, opts), 300u);
  {
    const environment launched("OMPI_COMM_WORLD_LOCAL_SIZE", "9");
    EXPECT_EQ(share_of_memory(1000, opts), 300u) << "what is said counts";
    opts.set(hetero_share, 0);
    EXPECT_EQ(share_of_memory(1000, opts), 100u);
  }
  {
    const environment launched("MPI_LOCALNRANKS", "2");
    EXPECT_EQ(share_of_memory(1000, opts), 450u);
  }
  for (const char* const wrong : {"", "0", "-2", "two", "2 "}) {
    const environment launched("OMPI_COMM_WORLD_LOCAL_SIZE", wrong);
    EXPECT_EQ(share_of_memory(1000, opts), 900u) << wrong;
  }
  EXPECT_ANY_THROW(opts.set(hetero_share, -1));
  opts.set(hetero_share, 3);
  EXPECT_EQ(share_of_memory(1000, opts, true), 900u) << "no other rank uses it";
}

TEST(settings, memory_is_divided_between_ranks_that_are_threads_of_a_process) {
  const environment open_mpi("OMPI_COMM_WORLD_LOCAL_SIZE", nullptr), mpich("MPI_LOCALNRANKS", nullptr);
  options opts;
  EXPECT_EQ(share_of_memory(1000, with_sharers(opts, 1)), 900u);
  EXPECT_EQ(share_of_memory(1000, with_sharers(opts, 3)), 300u);
  EXPECT_EQ(sharing_ranks(with_sharers(opts, 1 << 20)), 1024) << "the most that can be said";
  {
    const environment launched("OMPI_COMM_WORLD_LOCAL_SIZE", "9");
    EXPECT_EQ(sharing_ranks(with_sharers(opts, 3)), 9);
  }
  opts.set(hetero_share, 2);
  EXPECT_EQ(sharing_ranks(with_sharers(opts, 3)), 2) << "what is said counts";
}

// What the layer above tells a scheduler reaches the devices that are found, but for simulated
// ones, which each rank has for itself.
TEST(settings, of_sharers_reach_devices) {
  const environment open_mpi("OMPI_COMM_WORLD_LOCAL_SIZE", nullptr), mpich("MPI_LOCALNRANKS", nullptr);
  const auto limits = [](int sharers, int given) {
    options opts;
    opts.set(hetero_cache, "off");
    opts.set(hetero_share, given);
    opts.set(hetero_simulated, "1:memory=1200");
    opts.set(hetero_opencl_memory, "buffers");
    std::vector<device_note> notes;
    std::vector<std::pair<device_kind, std::size_t>> all;
    for (const auto& d : find_devices(opts, 1, false, notes, nullptr, sharers).devices)
      if (d) all.emplace_back(d->info().kind, d->memory_limit());
    return all;
  };
  const auto alone = limits(1, 0), of_three = limits(3, 0), of_four = limits(3, 4);
  ASSERT_EQ(of_three.size(), alone.size());
  ASSERT_EQ(of_four.size(), alone.size());
  for (std::size_t i = 0; i < alone.size(); ++i) {
    const auto [kind, bytes] = alone[i];
    EXPECT_EQ(of_three[i].second, kind == device_kind::simulated ? bytes : bytes / 3) << i;
    EXPECT_EQ(of_four[i].second, bytes / 4) << i;
  }
}

TEST(devices_of_ranks, are_divided_if_there_are_enough) {
  const environment size("OMPI_COMM_WORLD_LOCAL_SIZE", nullptr), number("OMPI_COMM_WORLD_LOCAL_RANK", nullptr),
      mpich_size("MPI_LOCALNRANKS", nullptr), mpich_number("MPI_LOCALRANKID", nullptr);
  options opts;
  const auto uses = [&](int devices) {
    std::string all;
    const local_rank here = rank_on_machine(opts);
    for (int n = 0; n < devices; ++n)
      if (here.uses(n, devices)) all += std::to_string(n);
    return all + (here.divides(devices) ? "" : " shared");
  };
  EXPECT_EQ(uses(3), "012 shared");
  opts.set(hetero_own, "1/2");
  EXPECT_EQ(uses(1), "0 shared");
  EXPECT_EQ(uses(2), "1");
  EXPECT_EQ(uses(5), "13");
  opts.set(hetero_own, "0/2");
  EXPECT_EQ(uses(5), "024");
  opts.set(hetero_own, "auto");
  EXPECT_EQ(uses(2), "01 shared") << "no launcher";
  {
    const environment open_mpi("OMPI_COMM_WORLD_LOCAL_SIZE", "4"), its("OMPI_COMM_WORLD_LOCAL_RANK", "3");
    EXPECT_EQ(uses(4), "3");
    EXPECT_EQ(uses(3), "012 shared");
  }
  {
    const environment mpich("MPI_LOCALNRANKS", "2"), its("MPI_LOCALRANKID", "0");
    EXPECT_EQ(uses(2), "0");
  }
  {
    const environment without_a_number("OMPI_COMM_WORLD_LOCAL_SIZE", "2");
    EXPECT_EQ(uses(2), "01 shared");
  }
  for (const char* const wrong : {"own", "2/2", "-1/2", "1/", "/2", "1/2/3", "0/0"})
    EXPECT_ANY_THROW(opts.set(hetero_own, wrong)) << wrong;
}

} // namespace
} // namespace tern::hetero::detail
