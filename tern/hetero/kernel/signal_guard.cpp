// SPDX-License-Identifier: Apache-2.0
#include <tern/hetero/kernel/signal_guard.hpp>

#include <array>
#include <cstddef>
#include <mutex>

namespace tern::hetero::detail {
namespace {

constexpr int last_signal = 32;
std::size_t at(int s) noexcept { return static_cast<std::size_t>(s); }

// Signals are the process's, and so is what is known of them here (docs/decisions/0036).
constinit std::mutex guard;
constinit int holders = 0;
constinit std::array<struct sigaction, last_signal> previous{};
constinit std::array<bool, last_signal> known{};

} // namespace

signal_guard::signal_guard() noexcept {
  known_stack_ = ::sigaltstack(nullptr, &stack_) == 0;
  const std::lock_guard hold(guard);
  if (holders++ > 0) return;
  for (int s = 1; s < last_signal; ++s) known[at(s)] = ::sigaction(s, nullptr, &previous[at(s)]) == 0;
}

signal_guard::~signal_guard() {
  if (stack_t now{}; known_stack_ && ::sigaltstack(nullptr, &now) == 0 && now.ss_sp != stack_.ss_sp)
    ::sigaltstack(&stack_, nullptr);
  const std::lock_guard hold(guard);
  if (--holders > 0) return;
  for (int s = 1; s < last_signal; ++s) {
    struct sigaction now;
    if (!known[at(s)] || ::sigaction(s, nullptr, &now) != 0) continue;
    if (now.sa_sigaction != previous[at(s)].sa_sigaction) ::sigaction(s, &previous[at(s)], nullptr);
  }
}

} // namespace tern::hetero::detail
