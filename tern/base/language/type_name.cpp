// SPDX-License-Identifier: Apache-2.0
#include <tern/base/language/type_name.hpp>

#include <cstdlib>
#include <memory>

#include <cxxabi.h>

namespace tern::detail {

std::string type_name(const std::type_info& type) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> text(abi::__cxa_demangle(type.name(), nullptr, nullptr, &status),
                                                    std::free);
  return status == 0 ? text.get() : type.name();
}

} // namespace tern::detail
