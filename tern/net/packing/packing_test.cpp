// SPDX-License-Identifier: Apache-2.0
// Messages that claim what is not so. (tests/fuzz tries more of them.)
#include <tern/net/packing/packing.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <tern/net/message.hpp>

namespace tern::net::detail {
namespace {

using testing::HasSubstr;

template <class... P> std::string refusal(const byte_buffer& arguments, std::size_t body) {
  payload message{byte_buffer(sizeof(wire_header)), byte_buffer(body)};
  message.bytes.append(arguments);
  try {
    static_cast<void>(unpack_call<typename signature<void, P...>::arguments>(message));
  } catch (const error& e) {
    EXPECT_EQ(e.code(), errc::invalid_data);
    return e.what();
  }
  return "accepted";
}
constexpr std::uint64_t in_body(std::uint64_t n) { return n << 1 | 1; }

TEST(packing, a_body_is_one_range) {
  using view = std::span<const double>;
  EXPECT_EQ(refusal<view>(pack(in_body(2)), 16), "accepted");
  EXPECT_EQ((refusal<view, buffer<double>>(pack(std::uint64_t{0}, in_body(2)), 16)), "accepted");
  // The buffer would own what the view looks at, and a handler may destroy the one before it reads
  // the other.
  EXPECT_THAT((refusal<view, buffer<double>>(pack(in_body(2), in_body(2)), 16)), HasSubstr("two of its ranges"));
  EXPECT_THAT((refusal<view, view>(pack(in_body(2), in_body(2)), 16)), HasSubstr("two of its ranges"));
}

TEST(packing, a_body_belongs_to_a_range) {
  EXPECT_THAT(refusal<int>(pack(1), 16), HasSubstr("none of its ranges"));
  EXPECT_THAT(refusal<std::span<const double>>(pack(std::uint64_t{0}), 16), HasSubstr("none of its ranges"));
  EXPECT_EQ(refusal<int>(pack(1), 0), "accepted");
}

TEST(packing, a_body_has_the_size_that_is_announced) {
  EXPECT_THAT(refusal<std::span<const double>>(pack(in_body(3)), 16), HasSubstr("3 elements, but it has 16 bytes"));
  EXPECT_THAT(refusal<std::span<const double>>(pack(in_body(2)), 17), HasSubstr("2 elements, but it has 17 bytes"));
  EXPECT_THAT(refusal<buffer<double>>(pack(~std::uint64_t{0}), 16), HasSubstr("but it has 16 bytes"));
}

// A range that travels as a body, as `become_body` makes it; and as `unpack_call` gives it out.
template <class Range> payload with_body(Range range) {
  std::optional<loan> owed;
  payload message{byte_buffer(sizeof(wire_header)), {}};
  EXPECT_TRUE(range.become_body(message.body, owed));
  message.bytes.append(pack(range));
  return message;
}
template <class Parameter> Parameter received(payload& message) {
  return std::get<0>(unpack_call<std::tuple<Parameter>>(message));
}

TEST(packing, a_shared_buffer_is_received_as_another_share) {
  const shared_buffer shared(std::vector<double>(4096, 1.5));
  const std::weak_ptr<const void> memory = buffer_access::owner(shared);
  {
    payload first = with_body(range_out<double>(shared)), second = with_body(range_out<double>(shared));
    EXPECT_EQ(shared.use_count(), 3);
    const auto one = received<shared_buffer<double>>(first), other = received<shared_buffer<double>>(second);
    EXPECT_EQ(shared.use_count(), 3) << "a share of the message's is left";
    EXPECT_EQ(one.data(), shared.data());
    EXPECT_EQ(other.data(), shared.data());
    payload passed_on = with_body(range_out<double>(one));
    EXPECT_EQ(received<shared_buffer<double>>(passed_on).data(), shared.data());
  }
  EXPECT_EQ(shared.use_count(), 1);
  EXPECT_FALSE(memory.expired());
  shared_buffer<double> last(shared);
  EXPECT_EQ(last.size(), 4096U);
}

TEST(packing, the_last_share_frees_the_elements) {
  std::weak_ptr<const void> memory;
  {
    payload message;
    {
      const shared_buffer shared(buffer<int>(8192));
      memory = buffer_access::owner(shared);
      message = with_body(range_out<int>(shared));
    }
    EXPECT_FALSE(memory.expired()) << "the message has a share";
    auto kept = received<shared_buffer<int>>(message);
    EXPECT_EQ(kept.use_count(), 1);
    shared_buffer<int> moved = std::move(kept);
    EXPECT_TRUE(kept.empty()); // NOLINT(bugprone-use-after-move): that it is
    EXPECT_EQ(kept.data(), nullptr);
    EXPECT_FALSE(memory.expired());
  }
  EXPECT_TRUE(memory.expired());
  payload never_received = with_body(range_out<int>(shared_buffer<int>(buffer<int>(8192))));
}

TEST(packing, a_shared_buffer_copies_what_may_change) {
  const auto vector = std::make_shared<std::vector<double>>(4096, 1.5);
  const auto l = lend(vector);
  payload message = with_body(range_out<double>(l));
  const auto kept = received<shared_buffer<double>>(message);
  vector->at(0) = 2;
  EXPECT_NE(kept.data(), vector->data());
  EXPECT_EQ(kept[0], 1.5);

  const shared_buffer constant(std::vector<double>(4096, 1.5));
  payload other = with_body(range_out<double>(constant));
  auto own = received<buffer<double>>(other); // may be written to
  EXPECT_NE(own.data(), constant.data());
  own[0] = 2;
  EXPECT_EQ(constant[0], 1.5);
}

TEST(packing, a_shared_buffer_takes_over_a_body_of_its_own) {
  std::vector<double> elements(4096, 1.5);
  const double* const where = elements.data();
  payload message = with_body(range_out<double>(std::move(elements)));
  EXPECT_EQ(received<shared_buffer<double>>(message).data(), where);
}

TEST(packing, a_shared_buffer_in_an_archive_is_checked) {
  const shared_buffer shared(std::vector<double>{1, 2, 3});
  const auto loaded = unpack<shared_buffer<double>>(pack(shared));
  EXPECT_EQ(std::vector<double>(loaded.begin(), loaded.end()), (std::vector<double>{1, 2, 3}));
  EXPECT_NE(loaded.data(), shared.data());
  EXPECT_EQ(pack(shared), pack(std::vector<double>{1, 2, 3}));
  EXPECT_TRUE(unpack<shared_buffer<double>>(pack(shared_buffer<double>())).empty());
  for (const std::uint64_t n : {std::uint64_t{4}, ~std::uint64_t{0} / 8, ~std::uint64_t{0}}) {
    byte_buffer hostile = pack(n);
    hostile.append(pack(1.0, 2.0, 3.0));
    try {
      static_cast<void>(unpack<shared_buffer<double>>(hostile));
      ADD_FAILURE() << n << " elements in 24 bytes";
    } catch (const error& e) {
      EXPECT_EQ(e.code(), errc::invalid_data);
    }
  }
  EXPECT_THAT(refusal<shared_buffer<double>>(pack(~std::uint64_t{0}), 16), HasSubstr("but it has 16 bytes"));
  EXPECT_THAT(refusal<shared_buffer<double>>(pack(in_body(3)), 16), HasSubstr("3 elements, but it has 16 bytes"));
  EXPECT_THAT((refusal<std::span<const double>, shared_buffer<double>>(pack(in_body(2), in_body(2)), 16)),
              HasSubstr("two of its ranges"));
}

} // namespace
} // namespace tern::net::detail
