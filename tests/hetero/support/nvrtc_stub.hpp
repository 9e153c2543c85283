// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What the tests' NVRTC (nvrtc_stub.cpp) was asked for.

#include <string>
#include <vector>

namespace tern::hetero::detail {

struct nvrtc_stub_state {
  std::string source, name;
  std::vector<std::string> options;
  int compiled = 0; ///< how often
  int alive = 0;    ///< programs that are not destroyed
};

/// The library has one, `tern_nvrtc_stub`.
using nvrtc_stub_function = nvrtc_stub_state*();

} // namespace tern::hetero::detail
