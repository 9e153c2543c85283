// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// One error type for everything fallible in Tern: a code for programs, a message that says what
/// happened and to what, a hint that says what to do about it, and the place in the source that
/// noticed it.

#include <tern/base/language/compiler.hpp>

#include <cstdint>
#include <source_location>
#include <stdexcept>
#include <string>
#include <string_view>

namespace tern {

/// What kind of failure an `error` is. The numbers travel between ranks: append, never renumber.
enum class errc : std::uint16_t {
  internal = 0,         ///< a bug in Tern itself
  invalid_argument = 1, ///< a caller passed something outside the contract (rank, size, null pointer)
  invalid_option = 2,   ///< a command-line option, environment variable or options file
  invalid_state = 3,    ///< the call is right, the moment is not (before start, after shutdown, from the wrong thread)
  invalid_data = 4,     ///< a message, archive or file whose content cannot be right
  not_found = 5,        ///< no such object, handler, file or device
  already_exists = 6,   ///< a name or value that may be set once was set twice
  io = 7,               ///< reading or writing a file failed
  out_of_memory = 8,    ///< memory, stacks or address space ran out
  system = 9,           ///< an operating-system call failed
  transport = 10,       ///< the network layer or MPI failed
  remote = 11,          ///< a handler on another rank threw something that is not a tern::error
  broken_promise = 12,  ///< a promise was destroyed before its value was set
  unsupported = 13,     ///< this build, machine or version cannot do it
  deadlock = 14,        ///< what was asked for could never come: what could bring it waits for the caller
  cancelled = 15,       ///< the program asked for it to be given up
  timeout = 16,         ///< it took longer than the caller wanted to wait
  device_failed = 17,   ///< an accelerator reported an error
  device_lost = 18,     ///< an accelerator does not work any more, and what it alone had is gone
  rank_lost = 19        ///< a rank has died, and what waited for it, or worked with it, is given up
};

/// "invalid_argument", …: the enumerator's own name; "unknown" for a number that is none.
std::string_view name_of(errc code) noexcept;

/// Thrown by every fallible function of Tern. Copyable; copies share nothing. Thread-safe to read.
/// `what()` reads `message; hint [code at file:line]`, with the parts that are there.
class error : public std::runtime_error {
public:
  /// \param message what happened and to which object, without a final full stop.
  /// \param hint what the reader can do about it; may be empty.
  explicit error(errc code, std::string message, std::string hint = {},
                 std::source_location where = std::source_location::current());
  /// For an error that was raised elsewhere (another rank): the place is given as text,
  /// `file:line`.
  error(errc code, std::string message, std::string hint, std::string place);

  errc code() const noexcept { return code_; }
  const std::string& message() const noexcept { return message_; }
  const std::string& hint() const noexcept { return hint_; }
  /// `file:line`; the file without the directories above the project.
  const std::string& place() const noexcept { return place_; }

private:
  errc code_;
  std::string message_, hint_, place_;
};

} // namespace tern
