// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Drivers and the compilers in them take over signals that Tern and the program handle (LLVM those
/// that end a program or ask it for something, PoCL arithmetic ones), and LLVM gives the thread
/// another stack to handle them on: they get both back. Internal.

#include <csignal>

namespace tern::hetero::detail {

/// While it lives, what changes the handlers of the usual signals, or the stack on which this
/// thread handles them, does so for that time only. Handlers are the process's, and several threads
/// may have one of these: the handlers that were there before the first come back with the end of
/// the last. Meanwhile they must not be changed on purpose. Ends in the thread in which it began.
class signal_guard {
public:
  signal_guard() noexcept;
  ~signal_guard();
  signal_guard(const signal_guard&) = delete;
  signal_guard& operator=(const signal_guard&) = delete;

private:
  stack_t stack_{};
  bool known_stack_ = false;
};

} // namespace tern::hetero::detail
