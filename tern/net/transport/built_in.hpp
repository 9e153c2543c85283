// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The transports that Tern has. The body is generated from the list in CMakeLists.txt, and calls a
/// function `const transport_kind& NAME_transport()` of each: a static library would else leave out
/// what nothing refers to. Internal.

namespace tern::net::detail {

/// Once made, they are in `transport_kinds`.
void make_built_in_transports();

} // namespace tern::net::detail
