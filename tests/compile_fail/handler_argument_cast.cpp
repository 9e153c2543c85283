// SPDX-License-Identifier: Apache-2.0
// expect: argument 1 does not become its parameter's type by itself: cast it
#include <tern/tern.hpp>

void keep(long) {}

int main(int argc, char**) {
#ifdef FINE
  tern::send<&keep>(0, argc);
#else
  tern::send<&keep>(0, &argc); // an address
#endif
}
