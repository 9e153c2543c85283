// SPDX-License-Identifier: Apache-2.0
#include <tern/net/packing/packing.hpp>

#include <string>
#include <utility>

#include <tern/base/error.hpp>
#include <tern/net/handler.hpp>

namespace tern::net::detail {

// Errors --------------------------------------------------------------------------------------------------------------

void bad_body(std::size_t wanted, std::size_t there) {
  throw error(errc::invalid_data, "a message says that its body has " + std::to_string(wanted) +
                                      " elements, but it has " + std::to_string(there) + " bytes");
}

std::string argument_name::operator()() const {
  return "argument " + std::to_string(number) + " of '" + handler_table::at(handler).name() + "'";
}

void changed_while_packed() {
  throw error(errc::invalid_data,
              "an argument took another number of bytes when it was packed than when it was counted",
              "do not change arguments while send or call packs them");
}

void bad_body_use(bool twice) {
  throw error(errc::invalid_data, twice ? "a message says that two of its ranges are its body"
                                        : "a message has a body, but says that none of its ranges is that");
}

} // namespace tern::net::detail
