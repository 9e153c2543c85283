// SPDX-License-Identifier: Apache-2.0
// expect: a future cannot travel
#include <tern/tern.hpp>

#ifdef FINE
void print(int x) { static_cast<void>(x); }
int main() {
  tern::multicast<&print>(tern::all_ranks, tern::async([] { return 1; }).get());
}
#else
void print(tern::shared_future<int> x) { static_cast<void>(x.get()); }
int main() {
  tern::multicast<&print>(tern::all_ranks, tern::async([] { return 1; }).share());
}
#endif
