// SPDX-License-Identifier: Apache-2.0
// A device kind and a policy that no file of Tern names: own_device.cpp, own_policy.cpp.
#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <tern/base/error.hpp>
#include <tern/hetero/device/device_kind.hpp>
#include <tern/hetero/dialect.hpp>
#include <tern/hetero/hetero_object.hpp>
#include <tern/hetero/hetero_task.hpp>
#include <tern/hetero/policy.hpp>
#include <tern/hetero/statistics.hpp>
#include <tern/task/scheduler.hpp>

TERN_KERNELS_BEGIN(own)
TERN_KERNEL(add, int nx, int ny, int a, int px, TERN_GLOBAL int* x) {
  TERN_REGION_IN(nx, ny, 1) { x[item.y * px + item.x] += a; };
}
TERN_KERNELS_END(own)

namespace tern::hetero {
namespace {

using testing::HasSubstr;

template <class F> void with(const std::string& devices, const std::string& policy, F&& f) {
  options opts;
  opts.set(hetero_devices, devices);
  opts.set(hetero_policy, policy);
  scheduler s({.workers = 2, .opts = &opts});
  EXPECT_EQ(s.run(f), 0u);
}

std::uint64_t tasks_on(const std::string& id) {
  for (const auto& d : count().devices)
    if (d.id == id) return d.tasks;
  return 0;
}

device_info info_of_it() {
  options opts;
  opts.set(hetero_devices, "host,inline");
  const auto all = devices(opts);
  const auto found = std::find_if(all.begin(), all.end(), [](const device_info& i) { return i.id == "inline0"; });
  EXPECT_NE(found, all.end());
  return found == all.end() ? device_info() : *found;
}

TEST(out_of_tree, a_kind_is_found_and_named) {
  const device_info i = info_of_it();
  EXPECT_EQ(i.name, "runs at once");
  EXPECT_STREQ(name_of(i.kind), "inline");
  for (const device_kind other : {device_kind::host, device_kind::opencl, device_kind::cuda, device_kind::simulated})
    EXPECT_NE(i.kind, other);
}

TEST(out_of_tree, tasks_run_on_a_kind_with_memory_of_its_own) {
  with("inline", "locality", [] {
    hetero_object<int, 2> x({12, 10}, 1);
    for (int i = 0; i < 5; ++i) submit(own::add, items(10, 12), 10, 12, 2, pitch(x), read_write(x));
    const auto part = x.part({3, 2}, {6, 7});
    submit(own::add, items(5, 3), 5, 3, 100, pitch(part), read_write(part));
    const auto seen = x.host(access_mode::read).get();
    for (int row = 0; row < 12; ++row)
      for (int column = 0; column < 10; ++column)
        EXPECT_EQ(seen(row, column), row >= 3 && row < 6 && column >= 2 && column < 7 ? 111 : 11);
    EXPECT_EQ(tasks_on("inline0"), 6u);
    EXPECT_GE(count().copies_to_devices, 1u);
    EXPECT_GE(count().copies_from_devices, 1u);
  });
}

TEST(out_of_tree, a_task_names_a_kind_or_a_device_of_it) {
  const device_kind kind = info_of_it().kind;
  with("host,inline", "eager", [kind] {
    hetero_object<int, 2> x({1, 100}, 0);
    hetero_task(own::add, items(100), 100, 1, 1, pitch(x), read_write(x)).on(kind).submit();
    hetero_task(own::add, items(100), 100, 1, 2, pitch(x), read_write(x)).on("inline0").submit();
    hetero_task(own::add, items(100), 100, 1, 4, pitch(x), read_write(x)).on(device_kind::host).submit();
    wait_all();
    EXPECT_EQ(tasks_on("inline0"), 2u);
    EXPECT_EQ(tasks_on("host"), 1u);
    EXPECT_EQ(x.host(access_mode::read).get()(0, 99), 7);
  });
}

TEST(out_of_tree, a_policy_places_tasks) {
  with("host,inline", "last", [] {
    hetero_object<int, 2> x({1, 100}, 0);
    for (int i = 0; i < 8; ++i) submit(own::add, items(100), 100, 1, 1, pitch(x), read_write(x));
    wait_all();
    EXPECT_EQ(tasks_on("inline0"), 8u);
    EXPECT_EQ(x.host(access_mode::read).get()(0, 0), 8);
  });
}

TEST(out_of_tree, a_policy_has_parameters) {
  with("host,inline", "last:skip=1", [] {
    hetero_object<int, 2> x({1, 100}, 0);
    for (int i = 0; i < 8; ++i) submit(own::add, items(100), 100, 1, 1, pitch(x), read_write(x));
    wait_all();
    EXPECT_EQ(tasks_on("inline0"), 0u);
    EXPECT_EQ(tasks_on("host"), 8u);
  });
}

std::string text_of_error(const std::function<void()>& f) {
  try {
    f();
  } catch (const error& e) {
    return e.what();
  }
  return "nothing was thrown";
}

TEST(out_of_tree, names_are_offered_where_one_is_wrong) {
  options opts;
  EXPECT_THAT(text_of_error([&] { opts.set(hetero_devices, "host,inlne0"); }),
              AllOf(HasSubstr("there is no device 'inlne0'; did you mean inline0?"), HasSubstr("simulated0, inline")));
  EXPECT_THAT(text_of_error([] { make_policy("lsat"); }),
              AllOf(HasSubstr("there is no policy 'lsat'"), HasSubstr("last")));
  EXPECT_THAT(text_of_error([] { make_policy("last:skp=1"); }),
              AllOf(HasSubstr("policy last has no parameter \"skp\"; did you mean skip?")));
}

TEST(out_of_tree, a_name_is_taken_once) {
  const auto none = [](detail::device_search&) { return std::vector<std::unique_ptr<detail::device>>(); };
  const auto add = [&](const char* name) {
    return device_kind_registration({.name = name, .order = 0, .find = none}).kind();
  };
  const auto text_of = [&](const char* name) { return text_of_error([&] { add(name); }); };
  EXPECT_THAT(text_of("cuda"), HasSubstr("two kinds of devices are called 'cuda'"));
  EXPECT_THAT(text_of("inline"), HasSubstr("two kinds of devices are called 'inline'"));
  const char* const more[] = {"a", "b", "c"};
  for (const char* name : more) EXPECT_STREQ(name_of(add(name)), name);
  EXPECT_THAT(text_of("d"), HasSubstr("at most 8 kinds are told apart"));
}

} // namespace
} // namespace tern::hetero
