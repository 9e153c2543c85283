// SPDX-License-Identifier: Apache-2.0
// A race between ranks: right on every machine that we tried, wrong in some order of messages.
#include <cstdio>
#include <cstring>

#include <tern/tern.hpp>

const tern::rank_local<double> heat; // each rank has its own

void store(double value) { *heat = value; }
double load() { return *heat; }

int main(int argc, char** argv) {
  const bool mended = argc > 1 && std::strcmp(argv[1], "mended") == 0;
  return tern::run(argc, argv, [mended] {
    const int keeper = tern::size() - 1;
    if (tern::rank() == 1) {
      if (mended)
        tern::call<&store>(keeper, 20.5).get(); // it has been stored when this returns
      else
        tern::send<&store>(keeper, 20.5); // it is on its way
    }
    tern::barrier(); // all ranks are here; that need not be true of all messages
    if (tern::rank() != 0) return 0;
    const double found = tern::call<&load>(keeper).get();
    if (found == 20.5) return 0;
    std::printf("the keeper has %g\n", found);
    return 1;
  });
}
