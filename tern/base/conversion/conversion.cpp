// SPDX-License-Identifier: Apache-2.0
#include <tern/base/conversion/conversion.hpp>

#include <cstdio>

#include <tern/base/error.hpp>

namespace tern::detail {

void does_not_fit(const std::string& what, const std::string& value, std::string_view type) {
  throw error(errc::invalid_argument,
              what + " is " + value + ", which its parameter, " + std::string(type) + ", cannot hold",
              "make the parameter wider, or cast the argument if what remains of it is meant");
}

std::string text_of_number(long double value) {
  char text[64];
  std::snprintf(text, sizeof text, "%.10Lg", value);
  return text;
}

} // namespace tern::detail
