// SPDX-License-Identifier: Apache-2.0
#include <tern/global/pointer/announcement.hpp>
#include <tern/global/pointer/export_table.hpp>
#include <tern/global/pointer/global_place.hpp>

#include <functional>
#include <source_location>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <tern/base/error.hpp>
#include <tern/hetero/hetero_object.hpp>
#include <tern/task/scheduler.hpp>

namespace tern::global::detail {
namespace {

using testing::HasSubstr;

hetero::detail::box box_of_2d(std::int32_t rows, std::int32_t columns) {
  hetero::detail::box b;
  b.high = {1, rows, columns};
  return b;
}
const element_type doubles = element_of<double, 2>();

/// What it throws; "" if nothing.
std::string problem(errc code, const std::function<void()>& f) {
  try {
    f();
    return "";
  } catch (const error& e) {
    EXPECT_EQ(e.code(), code) << e.what();
    return e.what();
  }
}

TEST(global_place, has_room_for_what_it_says) {
  const global_place p = global_place::make(1048575, 262143, 262143, doubles, box_of_2d(3, 4));
  EXPECT_EQ(p.owner(), 1048575);
  EXPECT_EQ(p.slot(), 262143u);
  EXPECT_EQ(p.generation(), 262143u);
  EXPECT_TRUE(p.fits(doubles));
  EXPECT_FALSE(p.fits(element_of<double, 1>()));
  EXPECT_FALSE(p.fits(element_of<float, 2>()));
  EXPECT_EQ(p.count(), 12);
  EXPECT_TRUE(p.part() == box_of_2d(3, 4));
  EXPECT_FALSE(global_place());
  EXPECT_TRUE(global_place::make(0, 0, 1, doubles, box_of_2d(1, 1)));
}

TEST(global_place, is_narrowed) {
  global_place p = global_place::make(1, 0, 1, doubles, box_of_2d(6, 8));
  p.narrow(1, 2, 5, doubles);
  p.narrow(1, 1, 3, doubles);
  p.narrow(2, 4, 8, doubles);
  EXPECT_EQ(p.low, (std::array<std::int32_t, 3>{0, 3, 4}));
  EXPECT_EQ(p.extent, (std::array<std::int32_t, 3>{1, 2, 4}));
  EXPECT_EQ(p.text(doubles), "global_ptr<double, 2> to 2 x 4 of rank 1");
  for (const auto& [low, high] : std::vector<std::pair<int, int>>{{-1, 1}, {1, 1}, {2, 1}, {0, 5}})
    EXPECT_THAT(problem(errc::invalid_argument, [&, l = low, h = high] { p.narrow(2, l, h, doubles); }),
                HasSubstr("there is no part [" + std::to_string(low) + ", " + std::to_string(high) +
                          ") in dimension 1 of a global_ptr<double, 2> to 2 x 4 of rank 1"));
  EXPECT_EQ(global_place().text(doubles), "global_ptr<double, 2> to nothing");
}

TEST(global_place, damage_is_found) {
  const global_place good = global_place::make(1, 0, 1, doubles, box_of_2d(6, 8));
  EXPECT_TRUE(good.sound());
  for (const auto& damage : std::vector<std::function<void(global_place&)>>{[](global_place& p) { p.low[1] = -1; },
                                                                            [](global_place& p) { p.extent[2] = 0; },
                                                                            [](global_place& p) { p.extent[0] = -4; },
                                                                            [](global_place& p) {
                                                                              p.low[2] = 2147483000;
                                                                              p.extent[2] = 1000;
                                                                            }}) {
    global_place p = good;
    damage(p);
    EXPECT_FALSE(p.sound());
    EXPECT_NE(p, good);
    EXPECT_NE(p.hash(), good.hash());
  }
}

TEST(announcement, each_damaged_field_is_refused) {
  announcement sound;
  sound.operation = 7;
  sound.place = global_place::make(2, 0, 1, doubles, box_of_2d(1, 1));
  sound.data = 9;
  sound.kind = operation_kind::put;
  const auto reading = [&](const std::function<void(announcement&)>& damage) {
    announcement a = sound;
    damage(a);
    const byte_buffer bytes = pack(a);
    return problem(errc::invalid_data, [&] { read_announcement(bytes, 1, 2); });
  };
  EXPECT_EQ(reading([](announcement&) {}), "");
  EXPECT_THAT(reading([](announcement& a) { a.kind = operation_kind{0}; }), HasSubstr("of kind 0"));
  EXPECT_THAT(reading([](announcement& a) { a.kind = operation_kind{6}; }), HasSubstr("of kind 6"));
  EXPECT_THAT(reading([](announcement& a) { a.how = 3; }), HasSubstr("in way 3"));
  EXPECT_THAT(reading([](announcement& a) { a.operation = 0; }), HasSubstr("without a number"));
  EXPECT_THAT(reading([](announcement& a) { a.place.key = 0; }), HasSubstr("of rank 0 to rank 2"));
  EXPECT_THAT(reading([](announcement& a) { a.data = 0; }), HasSubstr("whose data have number 0"));
  EXPECT_THAT(reading([](announcement& a) { a.kind = operation_kind::get; }), HasSubstr("have number 9"));
  EXPECT_THAT(reading([](announcement& a) { a.landing = 5; }), HasSubstr("land under 5"));
  EXPECT_THAT(reading([](announcement& a) { a.kind = operation_kind::fetch; }), HasSubstr("land under 0"));
  const byte_buffer bytes = pack(sound);
  EXPECT_NE(problem(errc::invalid_data,
                    [&] { read_announcement(std::span<const std::byte>(bytes).first(bytes.size() - 1), 1, 2); }),
            "");
}

void within_scheduler(unique_function<void()> body) {
  scheduler s({.workers = 1});
  EXPECT_EQ(s.run(std::move(body)), 0u);
}

TEST(export_table, finds_what_is_exported) {
  within_scheduler([] {
    export_table table(3);
    hetero_object<double, 2> x({6, 8});
    x.name("field");
    const auto enter = [&](std::source_location where = std::source_location::current()) {
      hetero_view<double, 2> view = x.rows(1, 6);
      const hetero::detail::box part = view.inside_part();
      return table.enter(view.release_handle(), part, doubles, where);
    };
    const global_place p = enter();
    EXPECT_EQ(p.owner(), 3);
    EXPECT_EQ(p.part(), x.rows(1, 6).inside_part());
    hetero::detail::object_state* const found = table.find(p, doubles.hash);
    EXPECT_EQ(found, x.inside());
    hetero::detail::drop_handle(found);
    global_place outside = p;
    outside.low[1] = 0; // of the object, but not of what is exported
    EXPECT_THAT(problem(errc::invalid_argument, [&] { table.find(outside, doubles.hash); }),
                AllOf(HasSubstr("names elements outside of"), HasSubstr("'field'"), HasSubstr("of rank 3, exported at"),
                      HasSubstr("global_place_test.cpp:")));
    EXPECT_THAT(problem(errc::invalid_data, [&] { table.find(p, element_of<float, 2>().hash); }),
                AllOf(HasSubstr("'field'"), HasSubstr("elements of another type")));
    global_place strange = p;
    strange.key += std::uint64_t{5} << (global_place::generation_bits + global_place::check_bits);
    EXPECT_THAT(problem(errc::not_found, [&] { table.find(strange, doubles.hash); }),
                HasSubstr("rank 3 has exported nothing that a global pointer names"));
    table.remove(p);
    table.remove(p); // twice does no harm
    EXPECT_EQ(table.size(), 0u);
    EXPECT_THAT(problem(errc::not_found, [&] { table.find(p, doubles.hash); }),
                AllOf(HasSubstr("'field'"), HasSubstr("of rank 3, exported at "), HasSubstr("global_place_test.cpp:"),
                      HasSubstr("is not exported any more"), HasSubstr("keep its exported<>")));
    // Numbers are used again, and old pointers do not name what has them then.
    for (int i = 0; i < 200; ++i) {
      const global_place next = enter();
      EXPECT_NE(next, p);
      EXPECT_LT(next.slot(), 70u);
      table.remove(next);
    }
    EXPECT_THAT(problem(errc::not_found, [&] { table.find(p, doubles.hash); }), HasSubstr("not exported any more"));
  });
}

} // namespace
} // namespace tern::global::detail
