// SPDX-License-Identifier: Apache-2.0
/// \file
/// Access that an invocation lends.
#include <tern/mobile/hold.hpp>

#include <tuple>
#include <utility>

#include <tern/task/when.hpp>

namespace tern::mobile::detail {

void* wait_for_loan(future<void*> got, future<bool> answer) {
  auto first = when_any(std::move(got), std::move(answer)).get();
  if (first.index == 0) return std::get<0>(first.futures).get();
  static_cast<void>(std::get<1>(first.futures).get()); // false: it has moved; or why not
  return nullptr;
}

} // namespace tern::mobile::detail
