// SPDX-License-Identifier: Apache-2.0
#include <tern/global/transfer/descriptor.hpp>

#include <functional>
#include <string>

#include <gtest/gtest.h>

#include <tern/base/error.hpp>

namespace tern::global::detail {
namespace {

descriptor sound() {
  descriptor d;
  d.number = 7;
  d.element = element_of<double, 2>().hash;
  d.extent = {1, 3, 4};
  d.origin = 2;
  d.how = form::follows;
  return d;
}

/// What reading it says; "" if it is accepted.
std::string reading(const descriptor& d) {
  const byte_buffer bytes = pack(d);
  input_archive ar(bytes);
  try {
    read_descriptor(ar, element_of<double, 2>(), 4);
    return "";
  } catch (const error& e) {
    EXPECT_EQ(e.code(), errc::invalid_data);
    return e.what();
  }
}

TEST(descriptor, comes_through) {
  const descriptor d = sound();
  const byte_buffer bytes = pack(d);
  input_archive ar(bytes);
  const descriptor read = read_descriptor(ar, element_of<double, 2>(), 4);
  EXPECT_EQ(read.number, 7u);
  EXPECT_EQ(read.count(), 12u);
  EXPECT_EQ(read.origin, 2);
  EXPECT_EQ(read.how, form::follows);
}

TEST(descriptor, each_damaged_field_is_refused) {
  const auto damaged = [](const std::function<void(descriptor&)>& damage) {
    descriptor d = sound();
    damage(d);
    return reading(d);
  };
  const auto says = [](const std::string& what, const std::string& part) {
    EXPECT_NE(what.find(part), std::string::npos) << what;
  };
  says(damaged([](descriptor& d) { d.how = static_cast<form>(9); }), "has form 9");
  says(damaged([](descriptor& d) { d.element = element_of<float, 2>().hash; }), "elements of another type");
  says(damaged([](descriptor& d) { d.element = element_of<double, 1>().hash; }), "or other dimensions");
  says(damaged([](descriptor& d) { d.extent[1] = 0; }), "has extent 0");
  says(damaged([](descriptor& d) { d.extent[2] = -5; }), "has extent -5");
  says(damaged([](descriptor& d) { d.extent[0] = 2; }), "has extent 2"); // it has two dimensions
  says(damaged([](descriptor& d) { d.extent = {1, INT32_MAX, INT32_MAX}; }), "more elements than any memory");
  says(damaged([](descriptor& d) { d.origin = 4; }), "is of rank 4");
  says(damaged([](descriptor& d) { d.origin = -1; }), "is of rank -1");
  says(damaged([](descriptor& d) { d.number = 0; }), "has number 0");
  says(damaged([](descriptor& d) { d.how = form::body; }), "has number 7");
  says(damaged([](descriptor& d) { d.room = 95; }), "has room for 95 bytes, and needs 96");
  says(damaged([](descriptor& d) {
         d.how = form::inside;
         d.number = 0;
       }),
       "where there is no room");
  says(damaged([](descriptor& d) { d.how = form::none; }), "is none, and has elements");
  says(damaged([](descriptor& d) { d.how = form::stored; }), "is of rank 2");
  says(damaged([](descriptor& d) {
         d.how = form::stored;
         d.origin = -1;
       }),
       "has number 7");
}

TEST(descriptor, elements_differ_by_type_size_and_dimensions) {
  EXPECT_NE((element_of<double, 1>().hash), (element_of<double, 2>().hash));
  EXPECT_NE((element_of<double, 1>().hash), (element_of<float, 1>().hash));
  EXPECT_NE((element_of<int, 1>().hash), (element_of<unsigned, 1>().hash));
}

} // namespace
} // namespace tern::global::detail
