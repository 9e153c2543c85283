// SPDX-License-Identifier: Apache-2.0
/// \file
/// Stack overflows are told apart from other invalid accesses, and say which fiber needs more.
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>

#include <unistd.h>

#include <tern/task/boundary/diagnosis.hpp>
#include <tern/task/fiber/sanitizer.hpp>
#include <tern/task/fiber/worker_head.hpp>
#include <tern/task/stack/stack_pool.hpp>

namespace tern::detail {
namespace {

[[maybe_unused]] constexpr std::size_t handler_stack_bytes = std::size_t{64} * 1024; // not under the address sanitizer
struct sigaction previous[2];                                                        // what SIGSEGV and SIGBUS did

// In a signal handler: no allocation, no locks.
void say_overflow(const fiber& f) noexcept {
  char text[400];
  const int n = std::snprintf(
      text, sizeof text,
      "tern: stack overflow in fiber %llu '%s', made at %s:%u: its stack of %zu KiB is used up\n"
      "      give it more: fiber_options{.stack_bytes = ...}, scheduler::settings::stack_bytes, or --tern-stack-kib\n",
      static_cast<unsigned long long>(f.id.load(std::memory_order_relaxed)), f.name, f.made.file_name(),
      static_cast<unsigned>(f.made.line()), (f.size + 1023) / 1024);
  if (n > 0) (void)!write(STDERR_FILENO, text, std::min(static_cast<std::size_t>(n), sizeof text - 1));
}

void handle(int number, siginfo_t* info, void* context) {
  if (const fiber* const f = running_fiber()) {
    // How far a frame can reach beyond the stack before it meets other memory.
    // address: only the distance from the stack's end counts
    const auto at = reinterpret_cast<std::uintptr_t>(info->si_addr), low = reinterpret_cast<std::uintptr_t>(f->low);
    if (at < low + 256 && low - at <= stack_pool::guard_bytes) say_overflow(*f);
  }
  const struct sigaction& old = previous[number == SIGSEGV ? 0 : 1];
  if ((old.sa_flags & SA_SIGINFO) != 0 && old.sa_sigaction) {
    old.sa_sigaction(number, info, context);
  } else if (old.sa_handler != SIG_DFL && old.sa_handler != SIG_IGN) {
    old.sa_handler(number);
  } else {
    signal(number, SIG_DFL); // the instruction is tried again, and ends the program as it would have
  }
}

[[maybe_unused]] void install() { // not under the address sanitizer
  struct sigaction mine {};
  mine.sa_sigaction = handle;
  mine.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigemptyset(&mine.sa_mask);
  sigaction(SIGSEGV, &mine, &previous[0]);
  sigaction(SIGBUS, &mine, &previous[1]);
}

} // namespace

void overflowed(const fiber& f) noexcept {
  say_overflow(f);
  std::abort();
}

overflow_watch::overflow_watch() noexcept {
#ifndef TERN_ASAN // it has its own, which says the same better
  static std::once_flag once;
  std::call_once(once, install);
  stack_t now{};
  if (sigaltstack(nullptr, &now) == 0 && (now.ss_flags & SS_DISABLE) == 0) return; // the one that is set will do
  memory_ = std::malloc(handler_stack_bytes);
  if (!memory_) return; // then an overflow ends the program without saying why
  stack_t mine{};
  mine.ss_sp = memory_;
  mine.ss_size = handler_stack_bytes;
  sigaltstack(&mine, nullptr);
#endif
}

overflow_watch::~overflow_watch() {
  if (!memory_) return;
  stack_t none{};
  none.ss_flags = SS_DISABLE;
  sigaltstack(&none, nullptr);
  std::free(memory_);
}

} // namespace tern::detail
