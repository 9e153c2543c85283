// SPDX-License-Identifier: Apache-2.0
// expect: the number of arguments differs from the handler's parameters
#include <tern/tern.hpp>

double power(double base, int exponent) { return exponent == 0 ? 1 : base * power(base, exponent - 1); }

#ifdef FINE
int main() { return static_cast<int>(tern::call<&power>(0, 2.0, 3).get()); }
#else
int main() { return static_cast<int>(tern::call<&power>(0, 2.0).get()); }
#endif
