// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Stacks of this process as text: of fibers that are suspended, and of a thread that a
/// signal has stopped. For reports, which are written while all stands still or goes wrong: no
/// memory is read but through the kernel, so whatever an address holds nothing can crash. Internal.

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace tern::detail {

struct fiber;

/// The registers that are known of a stack, by their DWARF numbers.
struct stopped_at {
  static constexpr unsigned most = 33;
  std::uintptr_t pc = 0;
  std::array<std::uint64_t, most> value{};
  std::uint64_t known = 0; ///< bit mask

  void set(unsigned number, std::uint64_t x) noexcept {
    value[number] = x;
    known |= std::uint64_t{1} << number;
  }
};

/// Where a suspended fiber goes on. `pc` is 0 if that cannot be told: with -DTERN_BOOST_CONTEXT.
stopped_at where_suspended(const fiber& f) noexcept;
/// What a signal handler or `getcontext` was given. Async-signal-safe.
/// \param context a ucontext_t.
stopped_at where_stopped(const void* context) noexcept;

/// Walks stacks and names what it finds. One thread at a time.
class stack_reader {
public:
  stack_reader();
  ~stack_reader();
  stack_reader(const stack_reader&) = delete;
  stack_reader& operator=(const stack_reader&) = delete;

  /// Addresses of code, the innermost first; those of callers lie inside the instruction that
  /// calls.
  std::vector<std::uintptr_t> walk(const stopped_at& from, std::size_t most = 64);
  /// "solve(int) at solve.cpp:12", "write in libc.so.6", "0x7f…": several if functions were inlined
  /// there, the innermost first, each with the line that is being executed in it.
  const std::vector<std::string>& frames(std::uintptr_t pc);
  /// A line for each frame, indented, without what this layer does to start a fiber; of very many
  /// those at both ends.
  /// \param inner nor what it does to suspend one.
  std::string text(const std::vector<std::uintptr_t>& stack, bool inner, const std::string& indent);

private:
  struct inside;
  std::unique_ptr<inside> in_;
};

/// Reads memory of this process that may not be there.
/// \return whether all could be read.
bool read_memory(void* to, const void* from, std::size_t n) noexcept;

} // namespace tern::detail
