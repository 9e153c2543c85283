// SPDX-License-Identifier: Apache-2.0
// expect: argument 1 is floating-point and its parameter an integer, so its fraction would be lost
#include <string>

#include <tern/tern.hpp>

struct grid {
  grid(int, const std::string&) {}
};

int main() {
#ifdef FINE
  static_cast<void>(tern::create_on<grid>(0, 3, "name"));
#else
  static_cast<void>(tern::create_on<grid>(0, 3.7, "name"));
#endif
}
