// SPDX-License-Identifier: Apache-2.0
// expect: a remote promise holds values
#include <tern/tern.hpp>

#ifdef FINE
using value = int;
#else
using value = int&;
#endif
int main() {
  tern::remote_promise<value> p;
  static_cast<void>(p.get_future());
}
