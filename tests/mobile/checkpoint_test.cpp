// SPDX-License-Identifier: Apache-2.0
// What a checkpoint refuses, and what it says then; and jobs that end within one.
#include <tern/mobile/checkpoint.hpp>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <tern/mobile/array.hpp>
#include <tern/mobile/checkpoint/checkpoint_file.hpp>
#include <tern/mobile/checkpoint/saved_tables.hpp>
#include <tern/mobile/hold.hpp>
#include <tern/mobile/names.hpp>
#include <tern/net/collectives.hpp>
#include <tern/net/epoch.hpp>
#include <tern/net/rank_local.hpp>
#include <tern/net/remote_promise.hpp>
#include <tern/net/simulate.hpp>

#include "child.hpp"

namespace tern::mobile {
namespace {

using test::temporary;
using ::testing::AllOf;
using ::testing::HasSubstr;
namespace fs = std::filesystem;

class pail {
public:
  pail() = default;
  explicit pail(long n) : n_(n) {}
  long get() const { return n_; }
  template <class A> void serialize(A& ar) { ar(n_); }

private:
  long n_ = 0;
};
struct fixed {
  fixed() = default;
  fixed(const fixed&) = delete;
  long get() const { return 1; }
};
class refuses {
public:
  template <class A> void serialize(A&) {
    if constexpr (A::is_saving) throw std::runtime_error("never");
  }
  long get() const { return 1; }
};

void job(int ranks, const std::string& from, const std::function<void()>& main) {
  options o;
  if (!from.empty()) o.set(restart_option, from);
  sim::run(
      sim::parse_world("ranks=" + std::to_string(ranks)), [&] { return main(), 0; }, o);
}
// `main` makes what is to be saved; the checkpoint's error, the same on all ranks.
std::string refused(const std::function<void()>& checkpoint) {
  std::string text;
  try {
    checkpoint();
  } catch (const error& e) {
    text = e.what();
  }
  const auto all = communicator::world().allgather(text);
  for (const std::string& other : all) EXPECT_EQ(other, text);
  return text;
}
// A job of two ranks that is saved as often, with a pail a rank; the roots are their pointers.
void save(const std::string& folder, int times) {
  job(2, "", [&] {
    const auto mine = create<pail>(10 + rank());
    const auto all = communicator::world().allgather(mine);
    for (int n = 1; n <= times; ++n) checkpoint(folder, all, n);
  });
}
// \return the number of the checkpoint that it went on from, or the error's text.
std::string go_on(const std::string& folder, int ranks = 2) {
  std::string found;
  job(ranks, folder, [&] {
    std::vector<mobile_ptr<pail>> all;
    int n = 0;
    const std::string text = refused([&] { restored(all, n); });
    if (rank() == 0) found = text;
    if (!text.empty()) return;
    for (std::size_t i = 0; i < all.size(); ++i) EXPECT_EQ(call<&pail::get>(all[i]).get(), 10 + static_cast<long>(i));
    if (rank() == 0) found = std::to_string(n);
  });
  return found;
}
std::string contents(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}
void replace(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc)
      .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}
void change_head(const std::string& path, const std::function<void(detail::checkpoint_head&)>& change) {
  std::string bytes = contents(path);
  detail::checkpoint_head h;
  std::memcpy(&h, bytes.data(), sizeof h);
  change(h);
  h.sum = XXH3_64bits(&h, offsetof(detail::checkpoint_head, sum));
  std::memcpy(bytes.data(), &h, sizeof h);
  replace(path, bytes);
}

TEST(checkpoint, goes_on_and_keeps_two) {
  const temporary t;
  save(t / "run", 4);
  EXPECT_EQ(go_on(t / "run"), "4");
  EXPECT_EQ(go_on(t / "run", 1), "4");
  EXPECT_EQ(go_on(t / "run", 5), "4");
  std::vector<std::string> there;
  for (const auto& f : fs::directory_iterator(t / "run")) there.push_back(f.path().filename());
  std::sort(there.begin(), there.end());
  EXPECT_EQ(there, (std::vector<std::string>{"checkpoint-000003", "checkpoint-000004"}));
}

TEST(checkpoint, is_of_its_run_only) {
  const temporary t;
  save(t / "run", 2);
  save(t / "run", 1); // anew
  std::vector<std::string> there;
  for (const auto& f : fs::directory_iterator(t / "run")) there.push_back(f.path().filename());
  EXPECT_EQ(there, (std::vector<std::string>{"checkpoint-000003"}));
}

TEST(checkpoint, any_wrong_byte_is_found_and_the_older_one_is_used) {
  const temporary t;
  save(t / "run", 2);
  for (const std::string file : {"rank-00000", "rank-00001"}) {
    const std::string path = t / ("run/checkpoint-000002/" + file), whole = contents(path);
    // Each byte of the head, of the parts' heads and of the end; of names and tables some.
    const std::size_t step = 37;
    for (std::size_t at = 0; at < whole.size(); at += at < 110 || at + 110 > whole.size() ? 1 : step) {
      std::string bytes = whole;
      bytes[at] = static_cast<char>(bytes[at] ^ 1 << at % 8);
      replace(path, bytes);
      ASSERT_EQ(go_on(t / "run"), "1") << file << ", byte " << at;
    }
    for (const std::size_t length : {std::size_t{0}, std::size_t{63}, whole.size() / 2, whole.size() - 1}) {
      replace(path, whole.substr(0, length));
      ASSERT_EQ(go_on(t / "run"), "1") << file << ", " << length << " bytes";
    }
    replace(path, whole + "x");
    ASSERT_EQ(go_on(t / "run"), "1") << file << ", a byte more";
    fs::remove(path);
    ASSERT_EQ(go_on(t / "run"), "1") << file << " is missing";
    replace(path, whole);
  }
  EXPECT_EQ(go_on(t / "run"), "2");
}

TEST(checkpoint, all_damaged) {
  const temporary t;
  save(t / "run", 1);
  const std::string path = t / "run/checkpoint-000001/rank-00001";
  std::string bytes = contents(path);
  bytes[bytes.size() / 2] ^= 4;
  replace(path, bytes);
  EXPECT_THAT(go_on(t / "run"),
              AllOf(HasSubstr("no checkpoint in " + (t / "run") + " can be used: " + path + ": at offset "),
                    HasSubstr("checksum is wrong")));
}

TEST(checkpoint, missing_and_foreign_folders) {
  const temporary t;
  EXPECT_THAT(go_on(t / "none"), HasSubstr("there is no folder of checkpoints " + (t / "none")));
  static_cast<void>(t.write("file", "text"));
  EXPECT_THAT(go_on(t / "file"), HasSubstr("there is no folder of checkpoints"));
  fs::create_directory(t / "other");
  EXPECT_THAT(go_on(t / "other"), HasSubstr("has no checkpoint; give --tern-restart"));
  job(2, "",
      [&] { EXPECT_THAT(refused([&] { checkpoint(t / "file"); }), HasSubstr("of checkpoints cannot be made: ")); });
}

TEST(checkpoint, newer_format) {
  const temporary t;
  save(t / "run", 2);
  change_head(t / "run/checkpoint-000002/rank-00001", [](auto& h) { h.version = 2; });
  EXPECT_THAT(go_on(t / "run"), HasSubstr("rank-00001 has format 2, and this program reads format 1"));
}

// The same file, but for its program's names, or its classes.
void rewrite(const std::string& path, bool other_names, std::uint64_t other_size) {
  using namespace detail;
  const std::string copy = path + ".new";
  {
    checkpoint_reader from(path, 1, 0);
    checkpoint_head head = from.head();
    if (other_names) ++head.program;
    const byte_buffer program = from.program(), bytes = from.tables();
    std::vector<std::string> names;
    unpack_into({program.data(), program.size()}, names);
    saved_tables tables;
    unpack_into({bytes.data(), bytes.size()}, tables);
    if (other_names) names.back() = "solve(int)";
    if (other_size) tables.classes.front().size = other_size;
    checkpoint_writer to(copy, head, false);
    const byte_buffer packed = pack(names);
    to.part(checkpoint_part::program, {packed.data(), packed.size()});
    for (saved_object& o : tables.objects) {
      std::vector<std::byte> object(o.bytes);
      from.read(o.offset, object);
      o.offset = to.add(object);
    }
    const byte_buffer last = pack(tables);
    to.finish({last.data(), last.size()});
  }
  fs::rename(copy, path);
}

TEST(checkpoint, another_program) {
  const temporary t;
  job(1, "", [&] { checkpoint(t / "run", std::vector{create<pail>(10)}, 1); });
  rewrite(t / "run/checkpoint-000001/rank-00000", true, 0);
  EXPECT_THAT(go_on(t / "run"), HasSubstr("was written by another program: this program does not have 'solve(int)'"));
}

TEST(checkpoint, another_class_layout) {
  const temporary t;
  job(1, "", [&] { checkpoint(t / "run", std::vector{create<pail>(10)}, 1); });
  rewrite(t / "run/checkpoint-000001/rank-00000", false, 24);
  EXPECT_THAT(go_on(t / "run"), AllOf(HasSubstr("was written by another version of the program: class '"),
                                      HasSubstr("pail' had 24 bytes, and has " + std::to_string(sizeof(pail)))));
}

TEST(checkpoint, other_roots) {
  const temporary t;
  save(t / "run", 1);
  job(2, t / "run", [&] {
    int n = 0;
    EXPECT_THAT(refused([&] { restored(n); }),
                HasSubstr("tern::restored asks for 1 roots, and tern::checkpoint was given 2"));
  });
  job(2, t / "run", [&] {
    std::vector<mobile_ptr<pail>> all;
    double n = 0;
    EXPECT_THAT(refused([&] { restored(all, n); }),
                HasSubstr("asks for a double as root 2, and tern::checkpoint was given a int"));
  });
}

TEST(checkpoint, wrong_moments) {
  const temporary t;
  save(t / "run", 1);
  job(2, t / "run", [&] {
    if (rank() == 1) create<pail>(1);
    EXPECT_THAT(refused([&] { restored(); }), HasSubstr("when there were mobile objects already"));
    EXPECT_THAT(refused([&] { checkpoint(t / "more"); }),
                HasSubstr("tern::checkpoint was called before tern::restored"));
  });
  job(2, t / "run", [&] {
    std::vector<mobile_ptr<pail>> all;
    int n = 0;
    EXPECT_TRUE(restored(all, n));
    EXPECT_THAT(refused([&] { restored(all, n); }), HasSubstr("tern::restored was called twice"));
  });
}

TEST(checkpoint, what_is_open_is_named) {
  const temporary t;
  const auto text = [&] { return refused([&] { checkpoint(t / "run"); }); };
  job(3, "", [&] {
    const auto mine = create<pail>(1);
    {
      std::unique_ptr<remote_promise<int>> open(rank() == 1 ? new remote_promise<int>() : nullptr);
      std::optional<future<int>> value;
      if (open) value.emplace(open->get_future());
      EXPECT_THAT(text(), AllOf(HasSubstr("rank 1 cannot be saved: a remote_promise has no value yet"),
                                HasSubstr("checkpoint_test.cpp:")));
      if (open) open->set_value(3);
    }
    {
      std::unique_ptr<epoch> open(rank() == 2 ? new epoch("phase") : nullptr);
      EXPECT_THAT(text(), AllOf(HasSubstr("rank 2 cannot be saved: epoch 'phase' of rank 2"),
                                HasSubstr("checkpoint_test.cpp:")));
      if (open) open->wait();
    }
    {
      held_object<pail> held;
      if (rank() == 0) held = hold(mine);
      EXPECT_THAT(text(),
                  HasSubstr("rank 0 cannot be saved: object 0:1 (tern::mobile::(anonymous namespace)::pail) is held"));
    }
    future<mobile_ptr<pail>> found;
    if (rank() == 1) found = find<pail>("later");
    EXPECT_THAT(text(), HasSubstr("tern::find waits for the name 'later', by rank 1"));
    barrier();
    if (rank() == 0) publish("later", mine).get();
    if (rank() == 1) {
      EXPECT_EQ(call<&pail::get>(found.get()).get(), 1);
    }
    EXPECT_EQ(text(), "");
  });
}

TEST(checkpoint, objects_that_cannot_be_saved) {
  const temporary t;
  job(2, "", [&] {
    if (rank() == 1) create<fixed>();
    EXPECT_THAT(refused([&] { checkpoint(t / "run"); }),
                AllOf(HasSubstr("object 1:1 ("), HasSubstr("fixed) cannot be saved; give the class a serialize")));
  });
  job(2, "", [&] {
    if (rank() == 1) create<refuses>();
    EXPECT_THAT(refused([&] { checkpoint(t / "run"); }),
                AllOf(HasSubstr("refuses) cannot be saved: "), HasSubstr("never")));
    EXPECT_TRUE(fs::is_empty(t / "run"));
  });
}

TEST(checkpoint, within_an_invocation) {
  const temporary t;
  job(1, "", [&] {
    const auto one = create<pail>(1);
    constexpr auto save_it = [](pail&, const std::string& folder) { checkpoint(folder); };
    EXPECT_THAT([&] { call<save_it>(one, t / "run").get(); },
                testing::ThrowsMessage<error>(HasSubstr("tern::checkpoint was called by an invocation of object 0:1")));
  });
}

// Other processes -----------------------------------------------------------------------------------------------------

test::surroundings on_ranks(int ranks, const std::string& restart = {}) {
  test::variables v{{"TERN_RANKS", std::to_string(ranks)}, {"TERN_WORKERS", "1"}};
  if (!restart.empty()) v["TERN_RESTART"] = restart;
  return {.environment = v};
}

// A rank that ends ends its job: while that saves again and again, at any moment.
TEST(checkpoint, a_killed_job_goes_on_from_the_last_one) {
  const temporary t;
  for (int n = 0; n < 4; ++n) {
    test::child one({TERN_CHECKPOINT_PROGRAM, t / "run", "100000", "65536"}, on_ranks(3, n ? t / "run" : ""));
    ASSERT_TRUE(one.wait_for_out("saved", 3 + n)) << one.out << one.err;
    one.signal(SIGKILL);
    EXPECT_EQ(one.end(), 1000 + SIGKILL);
    const auto again = test::run({TERN_CHECKPOINT_PROGRAM, t / "again", "0"}, 50, on_ranks(1 + n, t / "run"));
    EXPECT_EQ(again.code, 0) << again.out << again.err;
    EXPECT_THAT(again.out, HasSubstr("restored at step "));
  }
}

TEST(checkpoint, a_full_disk_leaves_the_last_one) {
  const temporary t;
  const auto first = test::run({TERN_CHECKPOINT_PROGRAM, t / "run", "3"}, 50, on_ranks(2));
  ASSERT_EQ(first.code, 0) << first.out;
  const auto full = test::run(
      {"/bin/sh", "-c", "ulimit -f 40; trap '' XFSZ; exec \"$0\" \"$1\" 5", TERN_CHECKPOINT_PROGRAM, t / "run"}, 50,
      on_ranks(2, t / "run"));
  EXPECT_EQ(full.code, 0) << full.out << full.err; // the job goes on
  EXPECT_THAT(full.out,
              AllOf(HasSubstr("not saved: rank 0 cannot write the checkpoint's file"), HasSubstr("File too large"),
                    HasSubstr("make room"), HasSubstr("done at step 5, pages at 5")));
  const auto again = test::run({TERN_CHECKPOINT_PROGRAM, t / "run", "4"}, 50, on_ranks(3, t / "run"));
  EXPECT_EQ(again.code, 0) << again.out;
  EXPECT_THAT(again.out, HasSubstr("restored at step 3, pages at 3"));
}

} // namespace
} // namespace tern::mobile
