// SPDX-License-Identifier: Apache-2.0
// The order of tasks: by the objects that they use, and by explicit dependencies.
#include <cstdio>
#include <functional>
#include <stdexcept>

#include <tern/tern.hpp>

int main(int argc, char** argv) {
  return tern::run(argc, argv, [] {
    tern::hetero_object<int> x(1, 0), sum(1, 0), list(1, 0);
    // By use: the results are those of a serial run. Tasks without conflicts run in parallel.
    for (int i = 1; i <= 10; ++i) tern::submit([i](int* v) { *v = *v * 2 + i; }, tern::read_write(x));
    tern::submit([](const int* from, int* to) { *to = *from; }, tern::read(x), tern::write(list));
    // Commuting tasks run in any order, but never two at once.
    for (int i = 0; i < 10; ++i) tern::submit([](int* v) { *v += 1; }, tern::commute(list));
    // Reductions run in parallel, each into its own part. The next other use adds the parts.
    for (int i = 1; i <= 100; ++i) tern::submit([i](int* v) { *v += i; }, tern::reduce(sum, std::plus<>(), 0));

    // By explicit dependencies.
    int step = 0;
    tern::hetero_task first([&] { step = 1; }), second([&] { step = step == 1 ? 2 : -1; });
    second.after(first).submit();
    first.submit();
    second.wait();

    // A task that reads what a failed task was to write is not run.
    tern::hetero_object<int> broken(1, 0);
    tern::submit([](int*) { throw std::runtime_error("no such cell"); }, tern::read_write(broken));
    tern::hetero_task never([](const int*) {}, tern::read(broken));
    never.name("report").submit();
    try {
      never.wait();
    } catch (const tern::error& e) {
      if (tern::rank() == 0) std::printf("%s\n", e.message().c_str());
    }
    try {
      tern::wait_all();
    } catch (const std::runtime_error& e) {
      if (tern::rank() == 0) std::printf("%s\n", e.what());
    }
    const int a = list.host(tern::access_mode::read).get()[0], b = sum.host(tern::access_mode::read).get()[0];
    if (tern::rank() == 0) std::printf("%d %d %d\n", a, b, step);
    return a == 2046 && b == 5050 && step == 2 ? 0 : 1;
  });
}
