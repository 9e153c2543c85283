// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Ranks as threads of one process. Internal.

#include <memory>
#include <vector>

#include <tern/net/transport.hpp>

namespace tern::net {

/// The ranks of one process as threads: `ranks` ends that reach each other.
/// \throws error(invalid_argument) for ranks < 1.
std::vector<std::unique_ptr<transport>> make_inproc(int ranks);

} // namespace tern::net
