// SPDX-License-Identifier: Apache-2.0
// A race between ranks: right on every machine that was tried, wrong in some orders of messages.
#include <cstdio>
#include <cstring>

#include <tern/tern.hpp>

const tern::rank_local<double> heat; // one for each rank

void store(double value) { *heat = value; }
double load() { return *heat; }

int main(int argc, char** argv) {
  const bool mended = argc > 1 && std::strcmp(argv[1], "mended") == 0;
  return tern::run(argc, argv, [mended] {
    const int keeper = tern::size() - 1;
    if (tern::rank() == 1) {
      if (mended)
        tern::call<&store>(keeper, 20.5).get(); // `store` has run when `get` returns
      else
        tern::send<&store>(keeper, 20.5); // `store` may run later
    }
    tern::barrier(); // waits for all ranks, not for all messages
    if (tern::rank() != 0) return 0;
    const double found = tern::call<&load>(keeper).get();
    if (found == 20.5) return 0;
    std::printf("the keeper has %g\n", found);
    return 1;
  });
}
