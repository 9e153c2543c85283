// SPDX-License-Identifier: Apache-2.0
#include <tern/task/channel.hpp>

#include <tern/base/error.hpp>

namespace tern::detail {

void throw_channel_closed() {
  throw error(errc::invalid_state, "a value was pushed into a tern::channel that is closed",
              "close it when no context pushes any more, or let those that push stop first");
}

void throw_no_capacity() {
  throw error(errc::invalid_argument, "a tern::channel cannot have capacity 0", "give it room for 1 or more");
}

} // namespace tern::detail
