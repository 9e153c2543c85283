// SPDX-License-Identifier: Apache-2.0
#include <tern/hetero/record/function_code.hpp>

#include <cstdlib>
#include <exception>
#include <memory>

#include <cxxabi.h>

namespace tern::hetero::detail {

std::string brief_name(const std::type_info& type) {
  int failed = 0;
  const std::unique_ptr<char, void (*)(void*)> whole(abi::__cxa_demangle(type.name(), nullptr, nullptr, &failed),
                                                     &std::free);
  if (failed || !whole) return type.name();
  std::string brief;
  int depth = 0;
  const std::string_view text = whole.get();
  for (std::size_t i = 0; i < text.size(); ++i) {
    constexpr std::string_view unnamed = "(anonymous namespace)::";
    if (depth == 0 && text.substr(i).starts_with(unnamed)) {
      i += unnamed.size() - 1;
      continue;
    }
    if (text[i] == '(') ++depth;
    if (depth == 0) brief += text[i];
    if (text[i] == ')') --depth;
  }
  return brief;
}

function_code::function_code(const std::type_info& type) noexcept
    : code_{type.name(), nullptr, {}, nullptr, nullptr, code_form::function, type.name()} {
  try {
    name_ = brief_name(type);
    code_.name = name_.c_str();
  } catch (const std::exception&) { // no memory: the mangled name
  }
}

} // namespace tern::hetero::detail
