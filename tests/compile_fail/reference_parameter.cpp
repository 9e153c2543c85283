// SPDX-License-Identifier: Apache-2.0
// expect: a handler's parameters travel by value
#include <tern/tern.hpp>

#ifdef FINE
void grow(const int& x) { static_cast<void>(x); }
#else
void grow(int& x) { ++x; }
#endif

int main() { tern::send<&grow>(0, 1); }
