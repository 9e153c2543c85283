// SPDX-License-Identifier: Apache-2.0
// expect: argument 1 is a number or a pointer and its parameter a bool: compare it
#include <tern/tern.hpp>

void keep(bool) {}

int main(int argc, char**) {
#ifdef FINE
  tern::send<&keep>(0, argc != 0);
#else
  tern::send<&keep>(0, argc);
#endif
}
