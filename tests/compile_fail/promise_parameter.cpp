// SPDX-License-Identifier: Apache-2.0
// expect: a promise can as a remote_promise
#include <tern/tern.hpp>

#ifdef FINE
void finish(tern::remote_promise<int> x) { x.set_value(1); }
int main() { tern::send<&finish>(0, tern::remote_promise<int>()); }
#else
void finish(tern::promise<int> x) { x.set_value(1); }
int main() { tern::send<&finish>(0, tern::promise<int>()); }
#endif
