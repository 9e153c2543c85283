// SPDX-License-Identifier: Apache-2.0
// Models on disk: several processes, damage, other versions, folders that cannot be written.
#include <tern/hetero/models/model_file.hpp>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "child.hpp"
#include "tests/hetero/support/models.hpp"
#include <tern/base/error.hpp>
#include <tern/hetero/devices.hpp>
#include <tern/hetero/models/model_text.hpp>

namespace tern::hetero::detail {
namespace {

namespace fs = std::filesystem;
using test::fresh_models;
using test::key_of;
using test::today;
using testing::HasSubstr;

class model_file_test : public testing::Test {
protected:
  model_file file(model_file::access how = model_file::access::write) const {
    return model_file(top.path / "a" / "b", how, "machine");
  }
  bool store(model_file& into, const model_set& what) const {
    return into.store([&] { return what; }, today, true);
  }
  fs::path path() const { return file().path(); }
  std::string content() const { return content(path()); }
  static std::string content(const fs::path& of) {
    std::ifstream in(of, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  void write(const std::string& text) const {
    fs::create_directories(path().parent_path());
    std::ofstream(path(), std::ios::binary) << text;
  }
  std::vector<std::string> names() const {
    std::vector<std::string> all;
    for (const auto& e : fs::directory_iterator(path().parent_path())) all.push_back(e.path().filename());
    std::sort(all.begin(), all.end());
    return all;
  }
  // What is told while `f` runs.
  template <class F> static std::string told(F&& f) {
    testing::internal::CaptureStderr();
    f();
    return testing::internal::GetCapturedStderr();
  }
  const tern::test::temporary top;
};

TEST_F(model_file_test, is_made_with_its_folder) {
  model_file one = file(), two = file();
  EXPECT_TRUE(one.read(today).empty());
  EXPECT_TRUE(store(one, fresh_models("a", 5)));
  EXPECT_TRUE(store(two, fresh_models("b", 4)));
  EXPECT_TRUE(store(one, fresh_models("a", 2)));
  const model_set all = two.read(today);
  EXPECT_EQ(all.kernels.at(key_of("a")).times.size(), 7u);
  EXPECT_EQ(all.kernels.at(key_of("b")).times.size(), 4u);
  EXPECT_EQ(names(), (std::vector<std::string>{"machine.lock", "machine.models"}));
}

TEST_F(model_file_test, to_read_is_not_to_write) {
  model_file writer = file(), reader = file(model_file::access::read);
  EXPECT_TRUE(store(writer, fresh_models("a", 5)));
  EXPECT_EQ(reader.read(today).kernels.size(), 1u);
  EXPECT_FALSE(store(reader, fresh_models("b", 5)));
  EXPECT_EQ(reader.read(today).kernels.size(), 1u);
  try {
    reader.change([](model_set&) {}, today);
    FAIL();
  } catch (const error& e) {
    EXPECT_EQ(e.code(), errc::invalid_state);
    EXPECT_THAT(e.what(), HasSubstr(path().string() + " are not to be written"));
  }
  model_file none;
  EXPECT_TRUE(none.read(today).empty());
  EXPECT_FALSE(store(none, fresh_models("b", 5)));
}

TEST_F(model_file_test, what_has_expired_goes) {
  model_file f = file();
  store(f, fresh_models("a", 5));
  EXPECT_TRUE(f.read(today + model_set::expires_after + 1).empty());
  f.store([&] { return fresh_models("b", 3); }, today + model_set::expires_after + 1, true);
  EXPECT_EQ(parse_models(content()).models.kernels.size(), 0u) << "b's date has expired then, too";
}

TEST_F(model_file_test, changes_what_is_stored) {
  model_file f = file();
  store(f, fresh_models("a", 5));
  store(f, fresh_models("b", 5));
  f.change([](model_set& all) { all.kernels.erase(key_of("a")); }, today);
  EXPECT_EQ(f.read(today).kernels.size(), 1u);
}

TEST_F(model_file_test, processes_store_at_the_same_time) {
  constexpr int processes = 4, rounds = 15;
  std::vector<pid_t> children;
  for (int p = 0; p < processes; ++p) {
    const pid_t child = ::fork();
    if (child == 0) {
      model_file f = file();
      bool good = true;
      for (int i = 0; i < rounds; ++i) {
        good = store(f, fresh_models("shared", 1)) && good;
        good = store(f, fresh_models("of " + std::to_string(p) + " " + std::to_string(i), 3)) && good;
        good = f.read(today).kernels.contains(key_of("shared")) && good;
      }
      ::_exit(good ? 0 : 1);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = -1;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  const parsed_models all = parse_models(content());
  EXPECT_TRUE(all.wrong_lines.empty());
  EXPECT_EQ(all.models.kernels.size(), 1u + processes * rounds);
  EXPECT_EQ(all.models.kernels.at(key_of("shared")).times.size(), static_cast<std::size_t>(processes * rounds));
  EXPECT_EQ(names().size(), 2u) << "no drafts";
}

TEST_F(model_file_test, need_not_wait_for_another_that_stores) {
  model_file f = file();
  store(f, fresh_models("a", 3));
  const int lock = ::open((path().parent_path() / "machine.lock").c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_GE(lock, 0);
  ASSERT_EQ(::flock(lock, LOCK_EX), 0);
  bool taken = false;
  const auto take = [&] {
    taken = true;
    return fresh_models("a", 3);
  };
  EXPECT_FALSE(f.store(take, today, false));
  EXPECT_FALSE(taken) << "they are fresh still";
  ::close(lock);
  EXPECT_TRUE(f.store(take, today, false));
}

TEST_F(model_file_test, a_damaged_line_is_skipped_and_told_once) {
  model_file f = file();
  for (const char* name : {"a", "b", "c", "d"}) store(f, fresh_models(name, 3));
  std::string text = content();
  std::size_t third = 0;
  for (int i = 0; i < 2; ++i) third = text.find('\n', third) + 1;
  text[third + 12] ^= 1;
  write(text);
  const std::string once = told([&] {
    EXPECT_EQ(f.load(today).kernels.size(), 3u);
    EXPECT_EQ(f.load(today).kernels.size(), 3u);
  });
  EXPECT_THAT(once, HasSubstr("warning] " + path().string() + ":3: this line is damaged, and skipped\n"));
  EXPECT_EQ(tern::test::count(once, "\n"), 1);
  text[third - 12] ^= 1;
  write(text);
  model_file other = file();
  EXPECT_THAT(told([&] { EXPECT_EQ(other.load(today).kernels.size(), 2u); }),
              HasSubstr(":2: this line is damaged, and skipped (2 such lines in all)\n"));
  store(other, fresh_models("e", 3));
  EXPECT_TRUE(parse_models(content()).wrong_lines.empty()) << "the next time it is whole";
}

TEST_F(model_file_test, each_byte_may_be_damaged) {
  model_file f = file();
  for (const char* name : {"a", "b"}) store(f, fresh_models(name, 3));
  const std::string right = content();
  const std::size_t first_line = right.find('\n');
  for (std::size_t i = 0; i < right.size(); ++i) {
    std::string wrong = right;
    wrong[i] = static_cast<char>(wrong[i] ^ 0x04);
    write(wrong);
    model_file now = file();
    std::size_t found = 0;
    const std::string text = told([&] {
      found = now.load(today).kernels.size();
      EXPECT_TRUE(store(now, fresh_models("c", 3))) << i;
    });
    const fs::path aside = path().string() + ".kept-1";
    if (i <= first_line) {
      EXPECT_EQ(found, 0u) << i;
      EXPECT_EQ(content(aside), wrong) << i << ": kept aside as it was";
      fs::remove(aside);
    } else {
      EXPECT_LE(found, 1u) << i;
      EXPECT_FALSE(fs::exists(aside)) << i;
      EXPECT_EQ(tern::test::count(text, "\n"), 1) << i << text;
    }
    EXPECT_EQ(parse_models(content()).models.kernels.size(), found + 1) << i;
  }
}

TEST_F(model_file_test, another_version_is_kept_aside) {
  const std::string other = "{\"tern models\":7}\nin words that this version does not know\n";
  for (int n = 1; n <= model_file::kept_aside_most; ++n) {
    write(other);
    model_file f = file();
    EXPECT_THAT(told([&] { EXPECT_TRUE(f.load(today).empty()); }),
                HasSubstr(path().string() + ":1: these performance models are of another version of Tern"));
    EXPECT_EQ(content(), other) << "to read it changes nothing";
    const std::string aside = path().string() + ".kept-" + std::to_string(n);
    EXPECT_THAT(told([&] { EXPECT_TRUE(store(f, fresh_models("a", 3))); }),
                HasSubstr("cannot be used, and were renamed to " + aside + "\n"));
    EXPECT_EQ(content(aside), other);
    EXPECT_EQ(f.read(today).kernels.size(), 1u);
  }
  write(other);
  model_file f = file();
  EXPECT_THAT(told([&] { EXPECT_FALSE(store(f, fresh_models("a", 3))); }),
              HasSubstr("and there are 8 files .kept-1, … beside it already"));
  EXPECT_EQ(content(), other) << "not overwritten";
}

TEST_F(model_file_test, a_folder_that_cannot_be_had_is_told_once) {
  for (const char* folder : {"/proc/nowhere/tern", "/dev/null/tern"}) {
    model_file f(fs::path(folder), model_file::access::write, "machine");
    const std::string text = told([&] {
      EXPECT_TRUE(f.load(today).empty());
      for (int i = 0; i < 3; ++i) EXPECT_FALSE(store(f, fresh_models("a", 3)));
    });
    EXPECT_THAT(text, HasSubstr("performance models are not stored: ")) << folder;
    EXPECT_THAT(text, HasSubstr(" cannot be made: ")) << folder;
    EXPECT_EQ(tern::test::count(text, "not stored"), 1) << text;
    EXPECT_ANY_THROW(f.change([](model_set&) {}, today));
  }
}

// Root may write all the same, so another user looks there.
TEST_F(model_file_test, a_read_only_folder_is_read) {
  model_file f = file();
  store(f, fresh_models("a", 3));
  const std::string before = content();
  constexpr uid_t nobody = 65534;
  const fs::path folder = path().parent_path();
  if (::geteuid() == 0) {
    for (const fs::path& each : {top.path, folder.parent_path(), folder, path(), folder / "machine.lock"})
      ASSERT_EQ(::chown(each.c_str(), nobody, static_cast<gid_t>(-1)), 0);
  }
  ASSERT_EQ(::chmod(folder.c_str(), 0500), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    if (::geteuid() == 0 && ::setuid(nobody) != 0) ::_exit(2);
    bool read = false, stored = false;
    const std::string text = told([&] {
      read = f.load(today).kernels.size() == 1;
      for (int i = 0; i < 3; ++i) stored = store(f, fresh_models("a", 3)) || stored;
    });
    const std::string once =
        "performance models are not stored: " + folder.string() + " cannot be written: Permission denied\n";
    const bool right = tern::test::has(text, once) && tern::test::count(text, "\n") == 1;
    ::_exit(read && !stored && right ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(content(), before);
  ASSERT_EQ(::chmod(folder.c_str(), 0700), 0);
}

// A limit on the size of files stands for a disk that is full: the write fails in the middle.
TEST_F(model_file_test, a_full_disk_leaves_the_file_as_it_was) {
  model_file f = file();
  store(f, fresh_models("a", 3));
  const std::string before = content();
  const pid_t child = ::fork();
  if (child == 0) {
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit small{30, 30};
    bool good = ::setrlimit(RLIMIT_FSIZE, &small) == 0;
    for (int i = 0; i < 3; ++i) good = !store(f, fresh_models("b", 3)) && good;
    ::_exit(good ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(content(), before);
  EXPECT_EQ(names(), (std::vector<std::string>{"machine.lock", "machine.models"}));
  EXPECT_TRUE(store(f, fresh_models("b", 3)));
}

TEST_F(model_file_test, what_is_no_file_is_told) {
  fs::create_directories(path());
  model_file f = file();
  EXPECT_THAT(told([&] { EXPECT_TRUE(f.load(today).empty()); }),
              HasSubstr("performance models of earlier runs are not used: cannot read " + path().string() +
                        ": Is a directory\n"));
  EXPECT_THAT(told([&] { EXPECT_FALSE(store(f, fresh_models("a", 3))); }),
              HasSubstr("performance models are not stored: "));
  fs::remove(path());
  ASSERT_EQ(::mkfifo(path().c_str(), 0600), 0);
  model_file other = file();
  EXPECT_THAT(told([&] { EXPECT_TRUE(other.load(today).empty()); }), HasSubstr("cannot read"));
}

TEST_F(model_file_test, a_link_is_not_written_through) {
  model_file f = file();
  store(f, fresh_models("a", 3));
  const fs::path elsewhere = top.path / "elsewhere";
  std::ofstream(elsewhere) << "precious";
  fs::create_symlink(elsewhere, path().parent_path() / "machine.draft");
  EXPECT_FALSE(store(f, fresh_models("a", 3)));
  EXPECT_EQ(content(elsewhere), "precious");
}

TEST_F(model_file_test, the_option_names_the_folder) {
  options opts;
  const std::string name = host_name() + ".models";
  opts.set(hetero_models, "some/folder");
  EXPECT_EQ(model_file(opts).path(), "some/folder/" + name);
  EXPECT_EQ(model_file(opts).how(), model_file::access::write);
  opts.set(hetero_models, "read:some/folder");
  EXPECT_EQ(model_file(opts).path(), "some/folder/" + name);
  EXPECT_EQ(model_file(opts).how(), model_file::access::read);
  opts.set(hetero_models, "off");
  EXPECT_EQ(model_file(opts).how(), model_file::access::none);
  EXPECT_TRUE(model_file(opts).path().empty());
}

} // namespace
} // namespace tern::hetero::detail
