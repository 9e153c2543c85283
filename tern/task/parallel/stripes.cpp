// SPDX-License-Identifier: Apache-2.0
#include <tern/task/parallel/stripes.hpp>

#include <new>

#include <tern/task/task_group.hpp>

namespace tern::detail {

void run_stripes(std::size_t n, void (*f)(void* data, std::size_t i), void* data, const std::source_location& made) {
  task_group group(made);
  group.run_and_wait([&] {
    std::size_t here = 1;
    try {
      for (; here < n; ++here) group.run([f, data, i = here] { f(data, i); });
    } catch (const std::bad_alloc&) { // then the others are done here
    }
    f(data, 0);
    for (; here < n; ++here) f(data, here);
  });
}

} // namespace tern::detail
