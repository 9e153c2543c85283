// SPDX-License-Identifier: Apache-2.0
#include <tern/balance/policies/resources/resources.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <tern/base/error.hpp>

namespace tern::balance::detail {
namespace {

/// A rank of two workers, and of devices as a test says.
class rank_of_test final : public policy_context {
public:
  int rank() const noexcept override { return 0; }
  int size() const noexcept override { return 2; }
  int workers() const noexcept override { return 2; }
  double now() const noexcept override { return 0; }
  double pace() const noexcept override { return 1; }
  int devices() const noexcept override { return devices_here; }
  double device_pace() const noexcept override { return takes; }
  double device_load() const noexcept override { return sum(&object_info::device); }
  double load() const noexcept override { return sum(&object_info::load); }
  double waiting() const noexcept override { return load(); }
  std::size_t ready() const noexcept override { return list.size(); }
  std::vector<object_info> objects() const override { return list; }
  double cost(object_id) const override { return 0; }
  std::vector<contact> contacts(object_id) const override { return {}; }
  void move(object_id, int, std::function<void(bool)>) override {}
  void after(double, std::function<void()>) override {}
  void fiber(std::function<void()>) override {}
  void enter(const std::function<void()>&) override {}
  std::uint64_t random(std::uint64_t) noexcept override { return 0; }
  void place(object_id, int) override {}
  void note(std::string_view, double) override {}
  void post(int, byte_buffer) override {}

  int devices_here = 0;
  double takes = 0;
  std::vector<object_info> list;

private:
  double sum(double object_info::*what) const noexcept {
    double all = 0;
    for (const object_info& x : list) all += x.*what;
    return all;
  }
};

object_info object_of(std::uint64_t number, double load, double device, bool movable = true) {
  object_info x{.id = object_id(0, number)};
  x.load = load;
  x.device = device;
  x.movable = movable;
  return x;
}

TEST(by_parameter_of_policies, is_both_unless_it_says_else) {
  const auto by = [](const char* text) {
    parameters p("greedy", text);
    return by_parameter(p);
  };
  EXPECT_EQ(by(""), counted::both);
  EXPECT_EQ(by("by=both"), counted::both);
  EXPECT_EQ(by("by=worker"), counted::worker);
  EXPECT_EQ(by("by=device"), counted::device);
  try {
    by("by=gpu");
    FAIL();
  } catch (const error& e) {
    EXPECT_EQ(e.code(), errc::invalid_option);
    const std::string text = e.what();
    EXPECT_THAT(text, testing::AllOf(testing::HasSubstr("greedy"), testing::HasSubstr("\"gpu\"")));
    EXPECT_THAT(text,
                testing::AllOf(testing::HasSubstr("both"), testing::HasSubstr("worker"), testing::HasSubstr("device")));
  }
}

TEST(by_parameter_of_policies, is_checked_with_the_option) {
  for (const char* name : {"diffusion", "greedy", "refine", "gossip", "hierarchical"}) {
    check_policy(std::string(name) + ":by=device");
    EXPECT_THROW(check_policy(std::string(name) + ":by=all"), error) << name;
  }
  EXPECT_THROW(check_policy("curve:by=device"), error);
}

TEST(resources_of_a_rank, the_load_is_that_of_what_ends_later) {
  rank_of_test rank;
  rank.list = {object_of(1, 3, 10), object_of(2, 1, 30)};
  rank.devices_here = 4;
  rank.takes = 0.1; // seconds for a unit
  const resources both(rank, counted::both);
  EXPECT_DOUBLE_EQ(both.ahead(resource::worker), 4.0 / 2);
  EXPECT_DOUBLE_EQ(both.ahead(resource::device), 40 * 0.1 / 4);
  EXPECT_EQ(both.critical(), resource::worker);
  rank.takes = 0.4; // slower devices
  EXPECT_DOUBLE_EQ(both.ahead(resource::device), 4);
  EXPECT_EQ(both.critical(), resource::device);
  EXPECT_EQ(resources(rank, counted::worker).critical(), resource::worker);
  rank.takes = 0.1;
  EXPECT_EQ(resources(rank, counted::device).critical(), resource::device);
}

TEST(resources_of_a_rank, devices_of_which_nothing_is_known_do_not_count) {
  rank_of_test rank;
  rank.list = {object_of(1, 0, 10)};
  const resources both(rank, counted::both);
  EXPECT_EQ(both.critical(), resource::worker) << "it has none";
  EXPECT_GT(both.pace(resource::device), 1e20) << "what is for devices should go elsewhere";
  rank.devices_here = 1;
  EXPECT_EQ(both.critical(), resource::worker) << "none has done anything";
  EXPECT_EQ(both.pace(resource::device), 0);
}

TEST(resources_of_a_rank, seen_by_its_devices_objects_load_those) {
  rank_of_test rank;
  rank.list = {object_of(1, 3, 10), object_of(2, 1, 30, false), object_of(3, 2, 20)};
  rank.devices_here = 2;
  rank.takes = 1;
  const resources by(rank, counted::device);
  const policy_context& seen = by.seen();
  EXPECT_EQ(seen.workers(), 2);
  EXPECT_EQ(seen.load(), 60);
  EXPECT_EQ(seen.waiting(), 30) << "the second is busy";
  EXPECT_EQ(seen.running(), (std::vector<double>{15, 15}));
  std::vector<double> loads;
  for (const object_info& x : seen.objects()) loads.push_back(x.load);
  EXPECT_EQ(loads, (std::vector<double>{30, 20, 10})) << "the heaviest first";
}

} // namespace
} // namespace tern::balance::detail
