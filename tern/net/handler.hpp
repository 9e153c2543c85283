// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Handlers: functions that other ranks may call. A handler is named by the function itself
/// (`&solve`, a static member, a captureless lambda), so there is nothing to register: using it in
/// a `send` or `call` enters it into a table before `main` starts. The table is the same on every
/// rank of one program whatever its address layout, because it is ordered by the functions' mangled
/// names; names that collide (two functions of one name in anonymous namespaces of different files)
/// are refused when the runtime starts.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <typeinfo>

#include <tern/base/bytes.hpp>
#include <tern/task/fiber_options.hpp>

namespace tern::net {

class node;
class message_run;

/// In front of every message.
struct wire_header {
  std::uint32_t handler = 0; ///< index into the table
  std::uint32_t flags = 0;
  std::uint64_t reply = 0; ///< the caller's pending-call number; 0: no caller waits
};
inline constexpr std::uint32_t flag_uncounted = 1; ///< not part of what termination detection counts
inline constexpr std::uint32_t flag_detects = 32;  ///< of a collective that looks for quiescence
inline constexpr std::uint32_t flag_range = 4;     ///< one of the arguments travels as the message's body
inline constexpr std::uint32_t flag_epoch = 16;    ///< it belongs to one: an epoch_mark stands at its head's end
inline constexpr std::uint32_t flag_joined = 8;    ///< the arguments, as long as the head says, stand before it there
inline constexpr std::uint32_t flag_traced = 2;    ///< its number, for the trace, is in the bits from `traced_shift` on
inline constexpr std::uint32_t flag_high = 64;     ///< its handler's fiber has that priority
inline constexpr std::uint32_t flag_low = 128;     ///< likewise
inline constexpr unsigned traced_shift = 8;

constexpr std::uint32_t flag_of(priority p) noexcept {
  return p == priority::high ? flag_high : p == priority::low ? flag_low : 0;
}
constexpr priority priority_of(std::uint32_t flags) noexcept {
  return flags & flag_high ? priority::high : flags & flag_low ? priority::low : priority::normal;
}

/// What a handler gets: the message, header first, and its body, if an argument travels as such.
struct payload {
  byte_buffer bytes;
  byte_buffer body;
  bool in_place = false; ///< its memory has another use only when the handler is done
  int sender = -1;       ///< the rank that has sent it first, if that is not the one that it came from
  std::size_t size() const noexcept { return bytes.size() + body.size(); }
  /// It will lie here for some time: then it must not keep the transport's memory.
  void settle() {
    if (body.is_waited_for()) [[unlikely]]
      body = body.copy();
    if (!bytes.borrowed()) return;
    bytes = bytes.copy();
    in_place = false;
  }
};

/// Runs where messages arrive and must not block: it hands what may block to `node::run_handler`.
/// The message's memory may be the transport's: a handler that keeps it for long keeps that from
/// others.
using handler_entry = void (*)(node& here, int source, const wire_header& header, payload& message);

/// How a handler goes through a run of messages of its own, all of one size, as long as there is a
/// next.
struct handler_run {
  void (*run)(message_run&) = nullptr; ///< null: it cannot
  std::size_t bytes = 0;               ///< of a message, with its header
};

/// One line of the table. Static objects only: constructing one enters it.
class handler_record {
public:
  /// \param runs what `run` hands to `node::run_handler`, if that is all it does; null: it does
  /// more.
  /// \param ageless its messages belong to no generation (failure/generation.hpp), and do not
  /// count.
  handler_record(const std::type_info& identity, std::string_view pretty, const char* file, handler_entry run,
                 bool internal = false, handler_entry runs = nullptr, handler_run many = {}, bool ageless = false);
  handler_record(const handler_record&) = delete;
  handler_record& operator=(const handler_record&) = delete;

  /// The handler's index. \throws error(invalid_state) before a runtime has started, and for one
  /// that came too late.
  std::uint32_t id() const {
    if (id_ == UINT32_MAX) throw_unnumbered();
    return id_;
  }
  /// The name as a user wrote it, for messages.
  const std::string& name() const noexcept { return name_; }
  /// The same, cut, for the fiber that runs it.
  const tern::detail::fiber_name& label() const noexcept { return label_; }
  const char* file() const noexcept { return file_; }
  handler_entry entry() const noexcept { return entry_; }
  handler_entry direct() const noexcept { return direct_; }
  const handler_run& many() const noexcept { return many_; }
  bool internal() const noexcept { return internal_; } ///< the runtime's own
  bool ageless() const noexcept { return ageless_; }

private:
  [[noreturn]] void throw_unnumbered() const;
  friend class handler_table;
  std::string identity_, name_;
  tern::detail::fiber_name label_{};
  const char* file_;
  handler_entry entry_, direct_;
  handler_run many_;
  bool internal_; // the runtime's own come first, so that even ranks of different programs can tell each other so
  bool ageless_;
  std::uint32_t id_ = UINT32_MAX;
  handler_record* next_;
};

/// The table. Filled before `main`, ordered and frozen when the first runtime starts.
class handler_table {
public:
  /// \throws error(already_exists) naming both places if two functions have one name;
  /// error(invalid_state) if a shared library that was loaded after the first start brought
  /// handlers.
  static void freeze();
  static std::uint32_t size() noexcept;
  /// \pre id < size()
  static const handler_record& at(std::uint32_t id) noexcept;
  /// All of them, by number.
  static std::span<const handler_record* const> all() noexcept;
  /// Equal for equal tables; compared between the ranks at the start.
  static std::uint64_t fingerprint() noexcept;
};

namespace detail {

template <auto F> struct handler_tag {};

/// `… [with auto F = solve]` or `… [F = &solve]`: cuts out what the user wrote.
std::string_view pretty_name(std::string_view signature) noexcept;

template <auto F> std::string_view signature_of() noexcept { return __PRETTY_FUNCTION__; }

} // namespace detail
} // namespace tern::net
