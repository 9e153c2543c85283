// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The threads that Tern starts beside the workers. A job stands still only if no other
/// thread could bring anything, so the search for that must tell these from threads of the program.
/// Internal.

namespace tern::detail {

/// The calling thread is one of Tern's, from here to the destructor, which runs on the same thread.
/// It makes fibers ready only while `worker_parking::working_outside` counts it, or what waits for
/// it.
class own_thread {
public:
  own_thread() noexcept;
  ~own_thread();
  own_thread(const own_thread&) = delete;
  own_thread& operator=(const own_thread&) = delete;

private:
  friend bool is_own_thread(int number) noexcept;
  const int number_;
  own_thread *next_ = nullptr, *previous_ = nullptr;
};

/// Is the thread with this number, the kernel's, one of them? Any thread.
bool is_own_thread(int number) noexcept;

} // namespace tern::detail
