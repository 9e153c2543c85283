// SPDX-License-Identifier: Apache-2.0
#include <tern/hetero/device/dynamic_library.hpp>

#include <dlfcn.h>

namespace tern::hetero::detail {

dynamic_library dynamic_library::open(const std::string& name, std::string& why) {
  dynamic_library made;
  made.handle_ = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!made.handle_) {
    const char* const said = ::dlerror();
    why += (why.empty() ? "" : "; ") + std::string(said ? said : name);
  }
  return made;
}

dynamic_library::~dynamic_library() {
  if (handle_) ::dlclose(handle_);
}

void* dynamic_library::find(const char* symbol) const noexcept { return ::dlsym(handle_, symbol); }

void dynamic_library::add_missing(const char* symbol) {
  missing_ += (missing_.empty() ? "" : ", ") + std::string(symbol);
}

} // namespace tern::hetero::detail
