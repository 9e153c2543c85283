// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What load is. Internal; load.hpp is for programs.

#include <cstdint>

namespace tern::mobile {

/// What an invocation counts as load, if it is watched.
enum class load_model : std::uint8_t {
  declared, ///< what its class says, else as measured
  measured, ///< the seconds that the object's invocations ran lately
  constant  ///< 1
};

} // namespace tern::mobile
