// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The library's own policies. Each is defined in its file in policies/, which also defines the
/// function `detail::NAME_kind()` that describes it. CMake makes the table of these functions from
/// its list of policies. The table takes the place of static objects, because a linker leaves out a
/// file of a static library that no other file refers to.

#include <memory>
#include <vector>

#include <tern/balance/policy.hpp>

namespace tern::balance::detail {

/// In the order of CMake's list.
std::vector<policy_kind> builtin_policies();

/// \param name as users write it. \param what it does, in a line. P is constructible from
/// (policy_context&, parameters&).
template <class P> policy_kind kind_of(const char* name, const char* what) {
  return {name, what,
          [](policy_context& here, parameters& p) -> std::unique_ptr<policy> { return std::make_unique<P>(here, p); }};
}

} // namespace tern::balance::detail
