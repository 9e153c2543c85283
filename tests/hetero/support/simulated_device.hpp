// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// For tests of simulated devices by themselves: kernels as they take them, and a clock that stands
/// still.

#include <cstdint>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include <tern/base/error.hpp>
#include <tern/hetero/device/simulated/simulated_device.hpp>
#include <tern/hetero/kernel/host_groups.hpp>

namespace tern::hetero::detail {

// A kernel as the device takes it.
template <class Group, class... Params, std::size_t... I>
void call(const kernel<Group, Params...>& k, const grid& g, std::int64_t first, std::int64_t last, char* dynamic,
          [[maybe_unused]] const void* const* values, std::index_sequence<I...>) {
  run_groups<Group, Params...>(k, g, first, last, dynamic, *static_cast<const Params*>(values[I])...);
}
template <class Group, class... Params>
void thunk(const void* k, const grid& g, std::int64_t first, std::int64_t last, char* dynamic,
           const void* const* values) {
  call(*static_cast<const kernel<Group, Params...>*>(k), g, first, last, dynamic, values,
       std::index_sequence_for<Params...>());
}
template <class Group, class... Params> kernel_code code_of(const kernel<Group, Params...>& k) {
  return {k.name, k.source, k.fixed_size, &thunk<Group, Params...>, &k};
}

inline std::int64_t moment = 0; // what the test's clock says
inline std::int64_t test_clock() { return moment; }

inline simulated_settings still() { // takes no time, has little memory
  simulated_settings s;
  s.bandwidth = s.latency = s.launch = s.item = 0;
  s.memory = 1 << 20;
  s.now = &test_clock;
  return s;
}

template <class F> std::string refusal(errc code, F&& f) {
  try {
    f();
  } catch (const error& e) {
    EXPECT_EQ(e.code(), code) << e.what();
    return e.message() + (e.hint().empty() ? "" : "; " + e.hint());
  }
  ADD_FAILURE() << "nothing was thrown";
  return {};
}

inline void expect_nothing_left(const simulated_device& d) {
  EXPECT_EQ(d.counters().allocations, 0u);
  EXPECT_EQ(d.counters().bytes, 0u);
  EXPECT_EQ(d.counters().tickets, 0u);
}

} // namespace tern::hetero::detail
