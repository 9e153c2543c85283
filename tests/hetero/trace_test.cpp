// SPDX-License-Identifier: Apache-2.0
// What devices do, as it is found in traces.
#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/hetero/support/graph_kernels.hpp"
#include "tests/hetero/support/tasks.hpp"
#include "tests/trace/support/parts.hpp"
#include <tern/task/sim.hpp>
#include <tern/task/wait/waiting.hpp>

namespace tern::hetero {
namespace {

using ::testing::ElementsAre;
using object = hetero_object<unsigned, 2>;

/// A kernel or a copy, in microseconds.
struct span {
  std::string track, name, of;
  double begin = 0, end = 0, bytes = 0;
  bool copies = false, failed = false;
};

/// What is behind `key` in a line of the trace; empty: it is not there.
std::string value(const std::string& line, const std::string& key) {
  const std::string begin = "\"" + key + "\":";
  const std::size_t at = line.find(begin);
  if (at == std::string::npos) return {};
  const std::size_t from = at + begin.size();
  if (line[from] == '"') return line.substr(from + 1, line.find('"', from + 1) - from - 1);
  return line.substr(from, line.find_first_of(",}", from) - from);
}
double number(const std::string& line, const std::string& key) {
  const std::string text = value(line, key);
  return text.empty() ? -1 : std::stod(text);
}

class traced {
public:
  explicit traced(std::int64_t (*clock)()) {
    trace::prepare_parts(in_ / "t.parts");
    recorder_ = std::make_unique<trace::recorder>(trace::recorder_settings{.folder = in_ / "t.parts", .clock = clock});
  }

  /// Ends the recording. \return its devices' spans, which are checked; of each track in their
  /// order.
  std::vector<span> spans() {
    recorder_->end();
    EXPECT_TRUE(trace::merge(in_ / "t.parts", in_ / "t.json").complete());
    trace::test::check(in_ / "t.json", {"--complete"});
    text = trace::test::contents(in_ / "t.json");
    std::map<std::string, std::string> tracks;
    for (const auto& line : trace::test::lines_with(text, {"\"thread_name\""}))
      tracks[value(line, "tid")] = line.substr(line.rfind(':') + 2, line.rfind('"') - line.rfind(':') - 2);
    std::vector<span> all;
    std::map<std::string, double> ends;
    for (const char* const kind : {"kernel", "copy"})
      for (const auto& line : trace::test::lines_with(text, {"\"cat\":\"" + std::string(kind) + "\""})) {
        EXPECT_EQ(value(line, "ph"), "X") << line;
        const double begin = number(line, "ts"), took = number(line, "dur");
        EXPECT_GE(took, 0) << line;
        all.push_back({tracks[value(line, "tid")], value(line, "name"), value(line, "of"), begin, begin + took,
                       number(line, "bytes"), *kind == 'c', value(line, "failed") == "true"});
        EXPECT_EQ(value(line, "cut off"), "") << line;
      }
    std::sort(all.begin(), all.end(), [](const span& a, const span& b) {
      return std::tie(a.begin, a.end, a.track) < std::tie(b.begin, b.end, b.track);
    });
    for (const span& s : all) {
      EXPECT_GE(s.begin, ends[s.track] - 1e-3) << s.name << " on " << s.track;
      ends[s.track] = s.end;
    }
    return all;
  }

  std::string text; ///< the trace, once it has been read

private:
  trace::test::temporary in_;
  std::unique_ptr<trace::recorder> recorder_;
};

/// In a simulation of its own.
struct simulated : traced {
  simulated() : traced(&tern::detail::virtual_ticks) {}
  /// \return the virtual microseconds that it took.
  template <class F> static double run(const std::string& simulated, F&& f, int queues = 3) {
    options opts;
    opts.set(hetero_devices, "host,simulated");
    opts.set(hetero_simulated, simulated);
    opts.set(hetero_queues, queues);
    sim::simulation world;
    scheduler s({.workers = 2, .simulation = &world, .opts = &opts});
    EXPECT_EQ(s.run(std::forward<F>(f)), 0u);
    return 1e6 * world.seconds();
  }
};

template <class O> hetero_task adding(const O& o, const char* device) {
  hetero_task t(graph_kernels::add, tern::items(o.extent(1), o.extent(0)), static_cast<int>(o.extent(1)),
                static_cast<int>(o.extent(0)), 1u, pitch(o), read_write(o));
  t.on(device);
  return t;
}
template <class O> void add_to(const O& o, const char* device) { adding(o, device).submit(); }

std::vector<object> objects(int n) {
  std::vector<object> all;
  for (int i = 0; i < n; ++i) all.push_back(object({10, 10}, 0u));
  return all;
}

template <class P> std::vector<span> those(const std::vector<span>& all, P&& which) {
  std::vector<span> some;
  std::copy_if(all.begin(), all.end(), std::back_inserter(some), which);
  return some;
}
std::vector<span> on_track(const std::vector<span>& all, const std::string& track) {
  return those(all, [&](const span& s) { return s.track == track; });
}
std::vector<std::string> names(const std::vector<span>& all) {
  std::vector<std::string> some;
  for (const span& s : all) some.push_back(s.name);
  return some;
}
std::size_t failures(const std::vector<span>& all) {
  return those(all, [](const span& s) { return s.failed; }).size();
}

TEST(device_tracks, kernels_have_the_time_that_was_expected_of_them) {
  simulated t;
  simulated::run("1:launch=50us,item=1us,latency=1us", [] {
    object x({10, 10}, 0u);
    for (int i = 0; i < 8; ++i) {
      add_to(x, "simulated0");
      wait_all();
    }
  });
  EXPECT_EQ(t.spans().size(), 9u); // a copy, too
  const auto kernels = trace::test::lines_with(t.text, {"\"cat\":\"kernel\""});
  ASSERT_EQ(kernels.size(), 8u);
  for (std::size_t i = 0; i < kernels.size(); ++i) {
    const double predicted = number(kernels[i], "predicted");
    if (i < 4) // the first is no sample, three are enough
      EXPECT_EQ(predicted, -1) << kernels[i];
    else
      EXPECT_NEAR(predicted, number(kernels[i], "dur"), 0.1) << kernels[i];
  }
}

std::string two_devices() {
  simulated t;
  statistics done;
  const double took = simulated::run(
      "2:item=100ns,latency=10us",
      [&] {
        object x({10, 10}, 0u), y({10, 10}, 0u);
        x.name("left");
        for (int i = 0; i < 3; ++i) {
          add_to(x, "simulated0");
          adding(y, "simulated1").name(i == 1 ? "the middle one" : nullptr).submit();
        }
        wait_all();
        EXPECT_EQ(x.host(access_mode::read).get()(0, 0), 3u);
        done = count();
      },
      1);
  const auto all = t.spans();
  EXPECT_THAT(names(on_track(all, "simulated0 kernels")), ElementsAre("add", "add", "add"));
  EXPECT_THAT(names(on_track(all, "simulated1 kernels")), ElementsAre("add", "the middle one", "add"));
  const auto in = on_track(all, "simulated0 in"), out = on_track(all, "simulated0 out"),
             other = on_track(all, "simulated1 in");
  EXPECT_THAT(names(in), ElementsAre("copy to device"));
  EXPECT_THAT(names(out), ElementsAre("copy from device"));
  EXPECT_THAT(names(other), ElementsAre("copy to device"));
  EXPECT_EQ(in.size() + other.size(), done.copies_to_devices);
  EXPECT_EQ(out.size(), done.copies_from_devices);
  EXPECT_EQ(all.size(), 9u);
  EXPECT_EQ(failures(all), 0u);
  if (all.size() != 9) return {};

  EXPECT_EQ(in[0].of, "left");
  EXPECT_EQ(other[0].of, "");
  for (const span& s : all) {
    EXPECT_EQ(s.bytes, s.copies ? 400 : -1);
    EXPECT_LE(s.end, took) << "virtual time";
    EXPECT_GE(s.end - s.begin, 10) << s.name; // what the model says that it takes
    EXPECT_LE(s.end - s.begin, s.copies ? 12 : 18) << s.name;
  }
  const auto a = on_track(all, "simulated0 kernels"), b = on_track(all, "simulated1 kernels");
  EXPECT_GE(a[0].begin, in[0].end);
  EXPECT_GE(out[0].begin, a[2].end);
  EXPECT_LT(std::max(a[0].begin, b[0].begin), std::min(a[0].end, b[0].end)) << "at the same time";

  // What is held is a curve of each device.
  EXPECT_EQ(trace::test::lines_with(t.text, {"\"ph\":\"C\"", "\"simulated0 bytes\"", "{\"value\":400}"}).size(), 1u);
  EXPECT_EQ(trace::test::lines_with(t.text, {"\"ph\":\"C\"", "\"simulated1 bytes\"", "{\"value\":400}"}).size(), 1u);
  return t.text;
}

TEST(device_tracks, show_kernels_and_copies_in_virtual_time) {
  const std::string once = two_devices();
  EXPECT_EQ(once, two_devices()); // to the byte
}

// One track for each stream: what overlaps is on different ones.
TEST(device_tracks, streams_have_one_each) {
  simulated t;
  simulated::run("1:item=1us", [] {
    const std::vector<object> all = objects(8);
    for (const object& o : all) add_to(o, "simulated0");
    wait_all();
  });
  const auto spans = t.spans();
  const auto one = on_track(spans, "simulated0 kernels 1"), two = on_track(spans, "simulated0 kernels 2"),
             three = on_track(spans, "simulated0 kernels 3");
  EXPECT_EQ(one.size() + two.size() + three.size(), 8u);
  EXPECT_EQ(on_track(spans, "simulated0 in").size(), 8u);
  ASSERT_FALSE(one.empty() || two.empty());
  EXPECT_LT(two.front().begin, one.front().end);
  EXPECT_TRUE(trace::test::lines_with(t.text, {"simulated0 out"}).empty()) << "nothing came from there";
}

TEST(device_tracks, show_copies_within_a_device) {
  simulated t;
  simulated::run("1", [] {
    object o({100, 16}, 1u);
    add_to(o.rows(40, 41), "simulated0");
    add_to(o, "simulated0");
    wait_all();
  });
  const auto within = those(t.spans(), [](const span& s) { return s.name == "copy within"; });
  ASSERT_EQ(within.size(), 1u);
  EXPECT_EQ(within[0].bytes, 64);
  EXPECT_EQ(within[0].track, "simulated0 kernels 1");
}

TEST(device_tracks, a_kernel_that_fails_has_an_end) {
  simulated t;
  simulated::run(
      "2:fail-kernel=2@0",
      [] {
        object x({10, 10}, 0u), y({10, 10}, 0u);
        for (int i = 0; i < 2; ++i) add_to(x, "simulated0");
        for (int i = 0; i < 3; ++i) add_to(y, "simulated1");
        EXPECT_THAT(text_of_error([] { wait_all(); }), ::testing::HasSubstr("simulated0"));
        object z({10, 10}, 0u);
        add_to(z, "simulated0");
        wait_all();
      },
      1);
  const auto all = t.spans();
  const auto of_first = on_track(all, "simulated0 kernels");
  ASSERT_EQ(of_first.size(), 3u);
  EXPECT_FALSE(of_first[0].failed);
  EXPECT_TRUE(of_first[1].failed);
  EXPECT_FALSE(of_first[2].failed);
  EXPECT_EQ(on_track(all, "simulated1 kernels").size(), 3u);
  EXPECT_EQ(failures(all), 1u);
}

TEST(device_tracks, a_copy_that_fails_has_an_end) {
  simulated t;
  simulated::run("1:fail-copy=1", [] {
    object x({10, 10}, 0u);
    add_to(x, "simulated0");
    EXPECT_NE(text_of_error([] { wait_all(); }), "nothing was thrown");
  });
  const auto all = t.spans();
  EXPECT_THAT(names(all), ElementsAre("copy to device")); // the kernel has not run
  EXPECT_EQ(failures(all), 1u);
}

// A lost device ends everything that it was at; several things in each stream.
TEST(device_tracks, a_lost_device_ends_all) {
  simulated t;
  std::uint64_t copies = 0;
  simulated::run("2:lose=12@0,item=1us,bandwidth=10M", [&] {
    const std::vector<object> all = objects(12);
    for (int round = 0; round < 2; ++round)
      for (const object& o : all) add_to(o, "simulated0");
    EXPECT_NE(text_of_error([] { wait_all(); }), "nothing was thrown");
    add_to(object({10, 10}, 0u), "simulated1");
    wait_all();
    copies = count().copies_to_devices;
  });
  const auto all = t.spans();
  EXPECT_EQ(those(all, [](const span& s) { return s.copies; }).size(), copies);
  EXPECT_GE(failures(all), 2u);
  double lost_at = 0;
  for (const span& s : all)
    if (s.failed) {
      EXPECT_EQ(s.track.rfind("simulated0 ", 0), 0u) << s.track;
      if (lost_at == 0) lost_at = s.end;
      EXPECT_NEAR(s.end, lost_at, 1) << s.name << " on " << s.track;
    }
  const auto later = on_track(all, "simulated1 kernels 1");
  ASSERT_EQ(later.size(), 1u);
  EXPECT_FALSE(later[0].failed);
}

// Two recordings while one runtime lives, and work beyond both.
TEST(device_tracks, are_made_anew_for_each_recording) {
  std::vector<span> first, second;
  on({.devices = "host,simulated", .simulated = "1"}, [&] {
    object x({10, 10}, 0u);
    add_to(x, "simulated0");
    wait_all();
    const auto record = [&] {
      traced t(nullptr);
      adding(x, "simulated0").name("seen").submit();
      wait_all();
      return t.spans();
    };
    first = record();
    add_to(x, "simulated0");
    wait_all();
    second = record();
  });
  EXPECT_THAT(names(first), ElementsAre("seen"));
  EXPECT_THAT(names(second), ElementsAre("seen"));
}

// A kernel that must be compiled first does not run so long: its bar begins when it has been.
TEST(device_tracks, tell_compiling_from_running) {
  options opts;
  opts.set(hetero_devices, "all");
  const auto there = devices(opts);
  const auto opencl =
      std::find_if(there.begin(), there.end(), [](const device_info& i) { return i.kind == device_kind::opencl; });
  if (opencl == there.end()) GTEST_SKIP() << "no OpenCL device";
  traced t(nullptr);
  on({.devices = "host," + opencl->id}, [&] {
    object x({10, 10}, 0u);
    for (int i = 0; i < 2; ++i) add_to(x, opencl->id.c_str());
    wait_all();
  });
  const auto kernels = those(t.spans(), [](const span& s) { return s.name == "add"; });
  const auto compiled = trace::test::lines_with(t.text, {"\"ph\":\"e\"", "\"compile graph_kernels\""});
  ASSERT_EQ(kernels.size(), 2u);
  ASSERT_EQ(compiled.size(), 1u);
  EXPECT_GE(kernels[0].begin, number(compiled[0], "ts"));
  EXPECT_EQ(kernels[0].track.rfind(opencl->id + " kernels", 0), 0u);
}

// Real time, workers that are threads: a device worker moves between them.
TEST(device_tracks, show_all_in_real_time) {
  traced t(nullptr);
  statistics done;
  on({.workers = 3, .devices = "host,simulated", .simulated = "2", .policy = "round-robin"}, [&] {
    const std::vector<object> all = objects(10);
    for (int round = 0; round < 10; ++round)
      for (const object& o : all) {
        hetero_task u(graph_kernels::add, tern::items(10, 10), 10, 10, 1u, pitch(o), read_write(o));
        u.on(device_kind::simulated);
        u.submit();
      }
    wait_all();
    done = count();
  });
  const auto all = t.spans();
  for (const int d : {0, 1}) {
    const std::string id = "simulated" + std::to_string(d);
    const auto kernels = those(all, [&](const span& s) { return s.track.rfind(id + " kernels", 0) == 0; });
    EXPECT_EQ(kernels.size(), done.devices[static_cast<std::size_t>(d) + 1].tasks);
  }
  double to = 0, from = 0;
  for (const span& s : all) {
    if (s.name == "copy to device") to += s.bytes;
    if (s.name == "copy from device") from += s.bytes;
  }
  EXPECT_EQ(to, static_cast<double>(done.bytes_to_devices));
  EXPECT_EQ(from, static_cast<double>(done.bytes_from_devices));
}

} // namespace
} // namespace tern::hetero
