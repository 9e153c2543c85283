// SPDX-License-Identifier: Apache-2.0
// expect: a handler's parameters travel by value
#include <string>

#include <tern/tern.hpp>

#ifdef FINE
std::size_t length(const std::string& text) { return text.size(); }
#else
std::size_t length(const char* text) { return std::string(text).size(); }
#endif

int main() { return static_cast<int>(tern::call<&length>(0, "four").get()); }
