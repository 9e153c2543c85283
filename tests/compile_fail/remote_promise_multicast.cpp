// SPDX-License-Identifier: Apache-2.0
// expect: a remote_promise cannot go to many ranks at once
#include <tern/tern.hpp>

void finish(tern::remote_promise<int> x) { x.set_value(1); }
int main() {
  tern::remote_promise<int> p;
#ifdef FINE
  for (int r = 0; r < tern::size(); ++r) tern::send<&finish>(r, p);
#else
  tern::multicast<&finish>(tern::all_ranks, p);
#endif
}
