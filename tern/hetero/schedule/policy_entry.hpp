// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What each file of schedule/policies/ defines: its policy's name and how to make it. Internal.

#include <tern/hetero/policy.hpp>

namespace tern::hetero::detail {

/// `NAME_policy` of schedule/policies/NAME.cpp. CMakeLists.txt lists the names.
struct policy_entry {
  const char* name; ///< of the option
  policy_maker make;
  policy_maker_with_parameters make_with = nullptr; ///< in the place of `make`, if it has parameters
};

} // namespace tern::hetero::detail
