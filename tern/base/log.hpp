// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Lines for the user of the program, on standard error. Each is one `write`, so that ranks and
/// threads never mix:
///
///     [tern 12:34:56.789 r0 warning] text
///
/// The rank is left out where there is none.

#include <tern/base/language/compiler.hpp>

#include <string_view>

namespace tern {

/// From chatty to silent. A line is written if its level is at least the present one; `off` writes
/// nothing.
enum class log_level { trace, debug, info, warning, error, off };

/// "trace", "debug", "info", "warning", "error" or "off".
std::string_view name_of(log_level level) noexcept;
/// The inverse of `name_of`. \throws error(invalid_argument) listing the names.
log_level log_level_from(std::string_view name);

/// Writes one line if `level` is enabled. Any thread; not from a signal handler. Never throws: a
/// line that cannot be written is dropped. Nothing is buffered, so no line is lost when the process
/// dies.
void log(log_level level, std::string_view text) noexcept;
/// Whether `log` would write; ask before composing an expensive text.
bool log_enabled(log_level level) noexcept;
/// The lowest level that is written; `info` at first. For the whole process: ranks in one process
/// share standard error.
void set_log_level(log_level level) noexcept;

inline void log_trace(std::string_view text) noexcept { log(log_level::trace, text); }
inline void log_debug(std::string_view text) noexcept { log(log_level::debug, text); }
inline void log_info(std::string_view text) noexcept { log(log_level::info, text); }
inline void log_warning(std::string_view text) noexcept { log(log_level::warning, text); }
inline void log_error(std::string_view text) noexcept { log(log_level::error, text); }

/// Tells the rank of the calling thread or fiber, -1 for none. Called for each line; may be called
/// from any thread.
using rank_provider = int (*)() noexcept;
/// The layer that knows ranks installs itself here, once, before `main`: one of the tables that
/// DESIGN's rule against process-global state allows. \return the provider before; null means that
/// no line shows a rank.
rank_provider set_rank_provider(rank_provider provider) noexcept;

} // namespace tern
