// SPDX-License-Identifier: Apache-2.0
#include <tern/hetero/device/discovery.hpp>

#include <exception>

#include <pthread.h>

#include <tern/task/boundary/own_threads.hpp>
#include <tern/task/scheduler/scheduler_core.hpp>

namespace tern::hetero::detail {
namespace {

struct thread_work {
  const std::function<void()>& f;
  std::exception_ptr failed;
};
void* run_in_thread(void* given) {
  const tern::detail::own_thread listed;
  auto& work = *static_cast<thread_work*>(given);
  try {
    work.f();
  } catch (...) {
    work.failed = std::current_exception();
  }
  return nullptr;
}

} // namespace

void on_thread_stack(const std::function<void()>& f) {
  constexpr std::size_t bytes = std::size_t{16} << 20; // NVRTC's compiler needs some
  if (!tern::detail::this_worker()) return f();
  thread_work work{f, nullptr};
  pthread_attr_t how;
  pthread_t thread{};
  if (::pthread_attr_init(&how) != 0) return f();
  const bool begun =
      ::pthread_attr_setstacksize(&how, bytes) == 0 && ::pthread_create(&thread, &how, &run_in_thread, &work) == 0;
  ::pthread_attr_destroy(&how);
  if (!begun) return f(); // no thread to be had: the fiber's stack has room for most drivers (stack_needed)
  ::pthread_join(thread, nullptr);
  if (work.failed) std::rethrow_exception(work.failed);
}

std::unique_lock<std::mutex> lock_discovery() {
  static constinit std::mutex one; // trivially destroyed: runtimes may end after static objects have
  return std::unique_lock(one);
}

} // namespace tern::hetero::detail
