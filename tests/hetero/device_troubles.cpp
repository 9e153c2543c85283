// SPDX-License-Identifier: Apache-2.0
/// \file
/// A job on devices that does what its first argument names. Each rank has objects and tasks of its
/// own.
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include <unistd.h>

#include <tern/hetero/policy.hpp>
#include <tern/tern.hpp>

TERN_KERNELS_BEGIN(troubles)
TERN_KERNEL(add, int n, int a, TERN_GLOBAL int* x) {
  TERN_REGION_IN(n, 1, 1) { x[item.x] += a; };
}
TERN_KERNELS_END(troubles)

namespace {

const tern::hetero::policy_registration own("own-policy", [](std::uint64_t seed) {
  return tern::hetero::make_policy("round-robin", seed);
});

constexpr int n = 1024;
using object = tern::hetero_object<int>;

void say_ready() {
  std::printf("ready %d of process %d\n", tern::rank(), static_cast<int>(getpid()));
  std::fflush(stdout);
}

/// Runs some kernels and checks their results.
int compute() {
  object x(n, 1);
  for (int i = 0; i < 4; ++i) tern::submit(troubles::add, tern::items(n), n, i, tern::read_write(x));
  const auto seen = x.host(tern::access_mode::read).get();
  int wrong = 0;
  for (int i = 0; i < n; ++i) wrong += seen[i] != 7;
  return wrong == 0 ? 0 : 1;
}

/// An access is held, and another one asked for: for ever.
void hold() {
  object x(n, 1);
  x.name("grid");
  auto held = x.host(tern::access_mode::write).get();
  tern::hetero_task(troubles::add, tern::items(n), n, 1, tern::read_write(x)).name("later").submit();
  auto wanted = x.host(tern::access_mode::read);
  say_ready();
  wanted.get();
}

/// A device is at a kernel that takes very long; another task wants the memory.
void stay_at_device() {
  object x(n, 1), y(n, 1);
  tern::hetero_task(troubles::add, tern::items(n), n, 1, tern::read_write(x)).name("long").submit();
  tern::hetero_task(troubles::add, tern::items(n), n, 1, tern::read_write(y)).name("next").submit();
  auto wanted = x.host(tern::access_mode::read);
  say_ready();
  wanted.get();
}

int run(std::string_view what) {
  if (what == "compute") return compute();
  if (what == "hold") hold();
  if (what == "stay") stay_at_device();
  std::fprintf(stderr, "device_troubles compute|hold|stay\n");
  return 3;
}

} // namespace

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  return tern::run(argc, argv, [&] { return run(what); });
}
