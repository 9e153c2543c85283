// SPDX-License-Identifier: Apache-2.0
// expect: argument 2 is floating-point and its parameter an integer, so its fraction would be lost
#include <tern/hetero/hetero_task.hpp>

int main() {
  tern::hetero_object<double> x(3, 1.0);
  const auto fill = [](tern::host_view<double, 1> v, int n) { v[0] = n; };
#ifdef FINE
  tern::submit(fill, tern::write(x), 2);
#else
  tern::submit(fill, tern::write(x), 2.5);
#endif
}
