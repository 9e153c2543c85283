// SPDX-License-Identifier: Apache-2.0
/// \file
/// Recording: rings, names, threads, kills; each read back through a merge.
#include "tests/trace/support/parts.hpp"

#include <atomic>
#include <csignal>
#include <memory>
#include <thread>

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <tern/base/error.hpp>
#include <tern/trace/record/events.hpp>
#include <tern/trace/record/session.hpp>

using namespace tern::trace;
using namespace tern::trace::test;

namespace {

struct traced {
  explicit traced(recorder_settings s = {}) : settings(std::move(s)) {
    settings.folder = in / "t.parts";
    prepare_parts(settings.folder);
    it = std::make_unique<recorder>(settings);
  }
  merge_summary merged() {
    if (it) it->end();
    return merge(settings.folder, in / "t.json");
  }
  std::string text() const { return contents(in / "t.json"); }
  std::string file() const { return in / "t.json"; }

  temporary in;
  recorder_settings settings;
  std::unique_ptr<recorder> it;
};

TEST(recording, off_does_nothing) {
  EXPECT_FALSE(on());
  const region r("nothing");
  counter("nothing", 1);
  instant("nothing");
}

TEST(recording, regions_counters_and_moments) {
  traced t;
  EXPECT_TRUE(on());
  {
    const region outer("outer");
    counter("elements", 2.5);
    {
      const region inner("inner");
      instant("now");
    }
  }
  const auto s = t.merged();
  EXPECT_FALSE(on());
  EXPECT_TRUE(s.complete()) << s.text();
  EXPECT_EQ(s.records, 6u);
  check(t.file(), {"--complete"});
  EXPECT_EQ(lines_with(t.text(), {"\"outer\"", "\"ph\":\"B\"", "\"pid\":1"}).size(), 1u) << t.text();
  EXPECT_EQ(lines_with(t.text(), {"\"inner\"", "\"ph\":\"X\""}).size(), 1u) << t.text();
  EXPECT_EQ(lines_with(t.text(), {"\"ph\":\"C\"", "\"elements\"", "{\"value\":2.5}"}).size(), 1u) << t.text();
  EXPECT_EQ(lines_with(t.text(), {"\"ph\":\"i\"", "\"now\""}).size(), 1u) << t.text();
}

TEST(recording, one_at_a_time_and_settings_are_checked) {
  traced t;
  EXPECT_THROW(recorder({.folder = t.settings.folder}), tern::error);
  t.it->end();
  EXPECT_THROW(recorder({.folder = {}}), tern::error);
  EXPECT_THROW(recorder({.folder = t.settings.folder, .ring_kib = 10}), tern::error);
  EXPECT_THROW(recorder({.folder = t.settings.folder, .ranks = 2, .rank = 2}), tern::error);
  try {
    const recorder r({.folder = "/proc/no/such"});
    FAIL();
  } catch (const tern::error& e) {
    EXPECT_EQ(e.code(), tern::errc::io);
    EXPECT_TRUE(has(e.what(), "/proc/no/such")) << e.what();
  }
}

TEST(recording, a_region_that_outlives_it_is_cut_off) {
  traced t;
  auto r = std::make_unique<region>("long");
  const auto s = t.merged();
  EXPECT_TRUE(s.complete());
  check(t.file());
  EXPECT_EQ(lines_with(t.text(), {"\"long\"", "the record ends here"}).size(), 1u) << t.text();
  traced next; // another recording: the region's end must not go there
  r.reset();
  EXPECT_EQ(next.merged().records, 0u);
}

// What objects are called stays when the events of the time are overwritten.
TEST(recording, objects_keep_their_names) {
  traced t({.ring_kib = 256, .most_names = 16});
  on_track(new_track(0, 0));
  name_object(17, "south");
  name_object(17, "north");
  name_object(17, "north");
  for (std::uint64_t i = 100; i < 110; ++i) name_object(i, i % 2 == 0 ? "even" : "odd"); // two too many
  for (int i = 0; i < 100'000; ++i) instant("i");
  fiber_enters(5, name_number("work"), true);
  works_on(name_number("pole"), 17);
  fiber_ends(5);
  fiber_enters(6, name_number("work"), true);
  works_on(name_number("pole"), 106);
  fiber_ends(6);
  fiber_enters(7, name_number("work"), true);
  works_on(name_number("pole"), 109);
  fiber_ends(7);
  const auto s = t.merged();
  check(t.file());
  EXPECT_EQ(lines_with(t.text(), {"\"work\"", R"~("object":"north (pole#0:17)")~"}).size(), 1U) << s.text();
  EXPECT_EQ(lines_with(t.text(), {"\"work\"", R"~("object":"even (pole#0:106)")~"}).size(), 1U) << s.text();
  EXPECT_EQ(lines_with(t.text(), {"\"work\"", R"("object":"pole#0:109")"}).size(), 1U) << s.text();
  EXPECT_TRUE(has(s.text(), "had more different names than the trace may have")) << s.text();
}

TEST(rings, overwrite_the_oldest_and_count_them) {
  traced t({.ring_kib = 256});
  constexpr int n = 100'000;
  for (int i = 0; i < n; ++i) counter("i", i);
  const auto s = t.merged();
  EXPECT_EQ(s.records + s.lost, static_cast<std::uint64_t>(n)) << s.text();
  EXPECT_GT(s.lost, 0u);
  EXPECT_GE(s.records, 3 * records_in(page));
  EXPECT_FALSE(s.complete());
  check(t.file());
  EXPECT_EQ(lines_with(t.text(), {"\"value\":99999}"}).size(), 1u);
  EXPECT_TRUE(lines_with(t.text(), {"\"value\":10}"}).empty());
  EXPECT_FALSE(lines_with(t.text(), {"INCOMPLETE", "overwritten"}).empty());
  EXPECT_EQ(std::filesystem::file_size(t.it->part()), page * (1 + 4 + 1)); // header, ring, table
}

TEST(rings, lossless_ones_grow) {
  traced t({.ring_kib = 256, .lossless = true});
  constexpr int n = 100'000;
  for (int i = 0; i < n; ++i) counter("i", i);
  const auto s = t.merged();
  EXPECT_EQ(s.records, static_cast<std::uint64_t>(n));
  EXPECT_TRUE(s.complete()) << s.text();
  check(t.file(), {"--complete"});
}

// In a process of its own, where there is no room but for the header.
int record_without_room(const recorder_settings& s) {
  rlimit limit{};
  ::getrlimit(RLIMIT_FSIZE, &limit);
  limit.rlim_cur = page;
  ::setrlimit(RLIMIT_FSIZE, &limit);
  recorder r(s);
  const std::int64_t before = clock_ns();
  for (int i = 0; i < 100'000; ++i) counter("i", i);
  const bool quick = clock_ns() - before < retry_ns;
  if (std::filesystem::file_size(r.part()) != page) return 1;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_FSIZE, &limit);
  counter("too soon", 0);
  if (quick && clock_ns() - before < retry_ns && std::filesystem::file_size(r.part()) != page) return 2;
  std::this_thread::sleep_for(std::chrono::nanoseconds(retry_ns + retry_ns / 20));
  counter("then", 0);
  return 0;
}

TEST(rings, begin_when_there_is_room_again) {
  const temporary in;
  const recorder_settings s{.folder = in / "t.parts"};
  prepare_parts(s.folder);
  const pid_t child = fork();
  if (child == 0) _exit(record_without_room(s));
  int status = 1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  const auto m = merge(s.folder, in / "t.json");
  EXPECT_EQ(m.lost, 100'001u) << m.text();
  EXPECT_EQ(m.records, 1u);
  EXPECT_FALSE(lines_with(contents(in / "t.json"), {"\"then\""}).empty());
}

TEST(folders, keep_what_is_being_recorded) {
  traced t;
  const std::string part = t.it->part();
  static_cast<void>(t.in.write("t.parts/old-1-1.part", "old"));
  for (const bool prepare : {true, false}) {
    testing::internal::CaptureStderr();
    if (prepare)
      prepare_parts(t.settings.folder);
    else
      remove_parts(t.settings.folder);
    EXPECT_TRUE(has(testing::internal::GetCapturedStderr(), part));
    EXPECT_TRUE(std::filesystem::exists(part));
    EXPECT_FALSE(std::filesystem::exists(t.in / "t.parts/old-1-1.part"));
  }
  t.it->end();
  remove_parts(t.settings.folder);
  EXPECT_FALSE(std::filesystem::exists(t.settings.folder));
}

TEST(rings, threads_have_their_own_and_later_ones_take_over) {
  traced t({.lossless = true});
  constexpr int threads = 4, rounds = 3, each = TERN_SANITIZED ? 2'000 : 20'000;
  for (int round = 0; round < rounds; ++round) {
    std::vector<std::thread> all;
    for (int i = 0; i < threads; ++i)
      all.emplace_back([] {
        for (int k = 0; k < each; ++k) {
          const region r("work");
          counter("k", k);
        }
      });
    for (auto& x : all) x.join();
  }
  const auto s = t.merged();
  EXPECT_EQ(s.records, 3ull * threads * rounds * each);
  check(t.file(), {"--complete"});
  EXPECT_EQ(lines_with(t.text(), {"thread_name"}).size(), static_cast<std::size_t>(threads * rounds));
}

TEST(rings, recordings_may_end_while_threads_write) {
  std::atomic<bool> stop{false};
  std::vector<std::thread> all;
  for (int i = 0; i < 2; ++i)
    all.emplace_back([&stop, i] {
      for (int k = 0; !stop; ++k) {
        const region r(k % 16 ? "often" : "seldom " + std::to_string(k % 4096));
        counter("k", k + i);
      }
    });
  for (int round = 0; round < 5; ++round) {
    traced t({.ring_kib = 256});
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    static_cast<void>(t.merged());
    check(t.file());
  }
  stop = true;
  for (auto& x : all) x.join();
}

TEST(names, are_limited_in_number_and_length) {
  traced t({.most_names = 16});
  for (int i = 0; i < 100; ++i) instant("name " + std::to_string(i));
  auto s = t.merged();
  EXPECT_EQ(s.records, 100u);
  EXPECT_FALSE(s.complete());
  check(t.file());
  EXPECT_TRUE(has(t.text(), "\"name 3\""));
  EXPECT_FALSE(has(t.text(), "\"name 50\""));
  EXPECT_TRUE(has(t.text(), "more names than the trace may have"));

  traced longer;
  const std::string umlauts = [] {
    std::string text;
    for (int i = 0; i < 300; ++i) text += "ä";
    return text;
  }();
  instant(umlauts);
  s = longer.merged();
  check(longer.file());
  EXPECT_TRUE(has(longer.text(), "\"" + umlauts.substr(0, 254) + "\"")) << longer.text();
}

TEST(names, of_any_bytes_are_good_json) {
  traced t;
  instant("say \"hi\"\\ \n\x01\x7f \xff\xc0\xaf \xed\xa0\x80 \xf4\x90\x80\x80 gr\xc3\xbc\xc3\x9f \xe2\x82");
  instant("");
  instant(std::string_view("a\0b", 3));
  EXPECT_EQ(t.merged().records, 3u);
  check(t.file(), {"--complete"});
  EXPECT_TRUE(has(t.text(), "say \\\"hi\\\"\\\\ \\u000a\\u0001\\u007f \\ufffd\\ufffd\\ufffd ")) << t.text();
  EXPECT_TRUE(has(t.text(), "grüß \\ufffd\\ufffd\"")) << t.text();
  EXPECT_TRUE(has(t.text(), "a\\u0000b"));
}

// The thread that notices what a device does records it on the device's track. Its own track does
// not change.
TEST(recording, devices_have_tracks_of_their_own) {
  kernel_begins(no_track, 1); // nothing is recorded
  traced t({.ranks = 2});
  const auto device = new_track(1, first_of_devices, "fake0 kernels");
  const auto kernel = name_number("spread"), bytes = name_number("fake0 bytes");
  std::thread([&] { kernel_begins(device, kernel); }).join(); // has no track, and gets none by this
  const auto mine = new_track(0, 0);
  on_track(mine);
  device_ends(device, false);
  copy_begins(device, name_number("copy within"), 7, 0);
  device_counts(device, bytes, 7);
  device_ends(device, true);
  kernel_begins(no_track, kernel);
  instant("mine");
  EXPECT_EQ(t.merged().records, 6u);
  check(t.file(), {"--complete"});
  EXPECT_EQ(lines_with(t.text(), {"\"spread\"", "\"ph\":\"X\"", "\"pid\":2", "\"cat\":\"kernel\"}"}).size(), 1u)
      << t.text();
  EXPECT_EQ(lines_with(t.text(), {"\"copy within\"", "\"pid\":2", "{\"bytes\":7,\"failed\":true}"}).size(), 1u)
      << t.text();
  EXPECT_EQ(lines_with(t.text(), {"\"ph\":\"C\"", "\"pid\":2", "{\"value\":7}"}).size(), 1u) << t.text();
  EXPECT_EQ(lines_with(t.text(), {"\"mine\"", "\"pid\":1,\"tid\":1,"}).size(), 1u) << t.text();
  EXPECT_EQ(lines_with(t.text(), {"thread_name"}).size(), 2u) << t.text();
}

std::int64_t virtual_now = 0;

// \return the trace's text.
std::string simulate() {
  virtual_now = 1'000'000;
  std::vector<std::unique_ptr<region>> on_stacks; // of fibers that are given up
  traced t({.ranks = 3, .clock = [] { return virtual_now; }});
  std::uint32_t tracks[3];
  for (int rank = 0; rank < 3; ++rank) tracks[rank] = new_track(rank, 0);
  const auto work = name_number("work"), future = name_number("future");
  for (std::uint64_t i = 0; i < 9; ++i) {
    on_track(tracks[i % 3]);
    virtual_now += 1000;
    fiber_enters(7, work, i < 3); // the number repeats on each rank
    if (i < 3) on_stacks.push_back(std::make_unique<region>("over waits"));
    virtual_now += 500;
    if (i < 6)
      fiber_waits(7, future, &t);
    else
      fiber_ends(7);
  }
  const auto s = t.merged();
  EXPECT_TRUE(s.complete()) << s.text();
  EXPECT_EQ(s.ranks, 3);
  EXPECT_DOUBLE_EQ(s.seconds, 12.5e-6);
  check(t.file(), {"--complete"});
  EXPECT_EQ(lines_with(t.text(), {"\"ph\":\"X\"", "\"work\"", "\"dur\":0.500", "\"waits for\":\"future\"}"}).size(), 6u)
      << t.text();
  EXPECT_EQ(lines_with(t.text(), {"\"ph\":\"X\"", "\"work\"", "\"left\":\"ended\""}).size(), 3u) << t.text();
  EXPECT_EQ(lines_with(t.text(), {"\"ph\":\"b\"", "\"id\":\"r2f7\""}).size(), 1u) << t.text();
  return t.text();
}

TEST(simulated, one_thread_is_many_tracks_in_virtual_time) {
  const std::string once = simulate();
  EXPECT_EQ(once, simulate()); // to the byte
}

// What a child does until it is killed; it tells when it has written some.
[[noreturn]] void write_until_killed(const recorder_settings& s, int tell) {
  recorder* const r = new recorder(s);
  static_cast<void>(r);
  on_track(new_track(s.rank, 0));
  const auto name = name_number("endless");
  for (std::uint64_t i = 0;; ++i) {
    fiber_enters(i, name, true);
    {
      const region inside("inside");
      counter("i", static_cast<double>(i));
    }
    if (i == 10'000) static_cast<void>(!::write(tell, "x", 1));
    if (i % 3 == 0)
      fiber_ends(i);
    else
      fiber_yields(i);
  }
}

class killed : public testing::TestWithParam<bool> {};

TEST_P(killed, processes_leave_what_they_have_written) {
  const temporary in;
  recorder_settings s{.folder = in / "t.parts", .ranks = 3, .lossless = GetParam()};
  prepare_parts(s.folder);
  for (s.rank = 0; s.rank < 2; ++s.rank) {
    int ends[2];
    ASSERT_EQ(pipe(ends), 0);
    const pid_t child = fork();
    if (child == 0) write_until_killed(s, ends[1]);
    char c = 0;
    EXPECT_EQ(::read(ends[0], &c, 1), 1);
    EXPECT_EQ(kill(child, SIGKILL), 0);
    int status = 0;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFSIGNALED(status));
    ::close(ends[0]);
    ::close(ends[1]);
  }
  const auto m = merge(s.folder, in / "t.json");
  EXPECT_GT(m.records, 2u * 30'000) << m.text();
  EXPECT_EQ(m.damaged, 0u) << m.text();
  // Two that did not end and one that is absent; and each that had time to fill its ring has lost
  // something.
  EXPECT_GE(m.missing.size(), m.lost != 0 ? 4u : 3u) << m.text();
  EXPECT_LE(m.missing.size(), m.lost != 0 ? 5u : 3u) << m.text();
  EXPECT_TRUE(has(m.text(), "rank 0 (process ")) << m.text();
  EXPECT_TRUE(has(m.text(), "did not end")) << m.text();
  EXPECT_TRUE(has(m.text(), "rank 2: nothing was recorded")) << m.text();
  check(in / "t.json");
  const std::string text = contents(in / "t.json");
  EXPECT_FALSE(lines_with(text, {"process_labels", "INCOMPLETE: did not end"}).empty());
  EXPECT_FALSE(lines_with(text, {"rank 2 (absent)"}).empty());
  // The merged file too may be cut off.
  std::filesystem::resize_file(in / "t.json", text.size() / 2);
  check(in / "t.json", {"--cut"});
}
INSTANTIATE_TEST_SUITE_P(rings, killed, testing::Bool(),
                         [](const auto& p) { return p.param ? "lossless" : "overwriting"; });

TEST(forked, children_record_nothing) {
  traced t;
  instant("before");
  const pid_t child = fork();
  if (child == 0) {
    instant("in the child");
    _exit(on() ? 1 : 0);
  }
  int status = 1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  instant("after");
  EXPECT_EQ(t.merged().records, 2u);
}

} // namespace
