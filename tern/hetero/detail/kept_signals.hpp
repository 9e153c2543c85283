// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Drivers and the compilers in them take over signals that Tern and the program handle (LLVM those that end a program
/// or ask it for something, PoCL arithmetic ones), and LLVM gives the thread another stack to handle them on: they get
/// both back. Internal.

#include <array>
#include <csignal>
#include <cstddef>

namespace tern::hetero::detail {

/// While it lives, whoever changes what the usual signals do, or on which stack this thread handles them, does so for
/// that time only. Handlers are the process's: meanwhile no other thread may change them on purpose. In one thread.
class kept_signals {
public:
  kept_signals() noexcept {
    known_stack_ = ::sigaltstack(nullptr, &stack_) == 0;
    for (int s = 1; s < last; ++s) known_[at(s)] = ::sigaction(s, nullptr, &before_[at(s)]) == 0;
  }
  ~kept_signals() {
    if (stack_t now{}; known_stack_ && ::sigaltstack(nullptr, &now) == 0 && now.ss_sp != stack_.ss_sp)
      ::sigaltstack(&stack_, nullptr);
    for (int s = 1; s < last; ++s) {
      struct sigaction now;
      if (!known_[at(s)] || ::sigaction(s, nullptr, &now) != 0) continue;
      if (now.sa_sigaction != before_[at(s)].sa_sigaction) ::sigaction(s, &before_[at(s)], nullptr);
    }
  }
  kept_signals(const kept_signals&) = delete;
  kept_signals& operator=(const kept_signals&) = delete;

private:
  static constexpr int last = 32;
  static std::size_t at(int s) noexcept { return static_cast<std::size_t>(s); }
  std::array<struct sigaction, last> before_;
  std::array<bool, last> known_{};
  stack_t stack_{};
  bool known_stack_ = false;
};

} // namespace tern::hetero::detail
