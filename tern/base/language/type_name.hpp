// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// A type's name for error messages. Compilers spell names differently: never send or compare it.

#include <tern/base/language/compiler.hpp>

#include <string>
#include <string_view>
#include <typeinfo>

namespace tern::detail {

/// The same for a type that is known only when the program runs.
std::string type_name(const std::type_info& type);

template <class T> constexpr std::string_view type_name() noexcept {
  // gcc: "constexpr std::string_view … [with T = int; std::string_view = …]"; clang:
  // "std::string_view … [T = int]".
  constexpr std::string_view text = __PRETTY_FUNCTION__;
  constexpr std::size_t begin = text.find("T = ") + 4;
  constexpr std::size_t semicolon = text.find("; std::string_view", begin);
  constexpr std::size_t end = semicolon != std::string_view::npos ? semicolon : text.rfind(']');
  return text.substr(begin, end - begin);
}

} // namespace tern::detail
