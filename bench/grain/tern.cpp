// SPDX-License-Identifier: Apache-2.0
/// \file
/// Tern's contestant whose tasks are spread over ranks.
///
///     bench_grain_tern messages SECONDS PROBLEM…      ranks of one worker
///     bench_grain_tern objects SECONDS PROBLEM…       ranks of any number of workers

#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <string>

#include <tern/balance/balance.hpp>
#include <tern/net/collectives.hpp>
#include <tern/net/message.hpp>
#include <tern/net/runtime.hpp>
#include <tern/task/scheduler.hpp>

#include "bench/grain/tern.hpp"
#include "bench/harness/timing.hpp"

namespace {

using namespace tern::bench;
using namespace tern::bench::grain;

void measure_all(const request& asked) {
  const int workers = tern::scheduler::current()->workers(), cores = tern::size() * workers;
  if (asked.carrier == "messages" && workers != 1)
    throw std::invalid_argument("messages: start ranks of one worker (--tern-workers=1)");
  report found(asked.seconds);
  for (const auto& name : asked.problems) {
    const problem p(name);
    double per_iteration = 0;
    if (asked.seconds > 0) { // all cores at once: the peak is that of all
      tern::barrier();
      const double sum = tern::allreduce(calibrate(p.work, workers), [](double a, double b) { return a + b; });
      per_iteration = sum / tern::size();
    }
    if (tern::rank() == 0) {
      if (asked.carrier == "messages")
        found.measure(p, cores, per_iteration, by_messages(p));
      else if (asked.carrier == "objects")
        found.measure(p, cores, per_iteration, by_objects(p));
      else
        throw std::invalid_argument("no carrier is called " + asked.carrier);
    }
    tern::barrier(); // the others wait here meanwhile
  }
  if (asked.carrier == "objects") found.note("policy", tern::balance::in_use());
  if (tern::rank() == 0) found.print();
}

} // namespace

int main(int argc, char** argv) {
  int code = 0;
  const int failed = guarded("bench_grain_tern", [&] {
    if (!std::getenv("BENCH_GRAIN_AS_STARTED")) bind_to_core(); // else as the launcher wants it
    code = tern::run(argc, argv, [](int count, char** arguments) { measure_all(request_of(count, arguments)); });
  });
  return failed ? failed : code;
}
