// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// From a message that has arrived to the handler that it is for and what that gets. Nothing here
/// trusts the message, and nothing needs a rank: tests/fuzz calls it with any bytes. Internal.

#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <utility>

#include <tern/base/error.hpp>
#include <tern/net/handler.hpp>
#include <tern/net/transport.hpp>

namespace tern::net::detail {

/// Says why it is none. \pre too short, or for a handler that there is not.
[[noreturn]] inline void no_message(const arrival& message) {
  wire_header h;
  const std::string source = "rank " + std::to_string(message.source);
  if (message.head.size() < sizeof h)
    throw error(errc::invalid_data, source + " sent a message of " + std::to_string(message.head.size()) +
                                        " bytes, shorter than any header");
  std::memcpy(&h, message.head.data(), sizeof h);
  throw error(errc::invalid_data,
              source + " sent a message for handler " + std::to_string(h.handler) + ", but there are " +
                  std::to_string(handler_table::size()),
              "all ranks must run the same program");
}

/// \throws error(invalid_data); error(out_of_memory) where parts must be copied. `message` is empty
/// afterwards: what is not handed on has been given back to the transport.
inline void take_parts(arrival& message, const wire_header& h, payload& into) {
  if (message.body.empty()) [[likely]] {
    into.bytes = std::move(message.head);
  } else if ((h.flags & flag_joined) != 0) {
    std::uint64_t arguments = 0;
    if (message.head.size() != sizeof h + sizeof arguments)
      throw error(errc::invalid_data, "a joined message's head has " + std::to_string(message.head.size()) + " bytes");
    std::memcpy(&arguments, message.head.data() + sizeof h, sizeof arguments);
    const auto all = message.body.bytes();
    if (arguments > all.size() || arguments < sizeof h)
      throw error(errc::invalid_data, "a joined message of " + std::to_string(all.size()) + " bytes says that " +
                                          std::to_string(arguments) + " are its arguments");
    into = {byte_buffer::copy_of(all.first(arguments)), byte_buffer::copy_of(all.subspan(arguments))};
    message.head = {};
    message.body = {};
  } else if ((h.flags & flag_range) != 0) {
    into = {std::move(message.head), std::move(message.body)};
  } else if (message.body.size() < sizeof h) {
    throw error(errc::invalid_data, "a message's body has " + std::to_string(message.body.size()) + " bytes");
  } else {
    into.bytes = std::move(message.body);
    message.head = {};
  }
}

/// A message taken apart.
struct parsed {
  wire_header header;
  const handler_record& handler;
  payload message; ///< at least a header
};
/// As `node::deliver` does it. \throws as `take_parts` and `no_message`. \pre the table is frozen.
inline parsed parse(arrival&& message) {
  wire_header h;
  if (message.head.size() >= sizeof h) std::memcpy(&h, message.head.data(), sizeof h);
  if (message.head.size() < sizeof h || h.handler >= handler_table::size()) no_message(message);
  parsed p{h, handler_table::at(h.handler), {}};
  take_parts(message, h, p.message);
  return p;
}

} // namespace tern::net::detail
