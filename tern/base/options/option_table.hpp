// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Inside of options: the declared options, how texts become values, and texts of errors. Not
/// installed; only sources of Tern's layers use it.

#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <tern/base/options.hpp>

namespace tern::detail {

/// The declaration lists. Constant-initialised, so that static objects may enter themselves in any
/// order.
struct option_table {
  static void enter(option_declaration* declaration);
  static void leave(option_declaration* declaration) noexcept;
  static void enter(known_environment* variable);
  static void leave(known_environment* variable) noexcept;
  /// All options by name. \throws error(invalid_option) for a name that is declared in two places.
  static std::map<std::string, const option_declaration*, std::less<>> all();
  /// All `known_environment` names.
  static std::vector<std::string> known();
};

/// "workers" → "TERN_WORKERS", "log-level" → "TERN_LOG_LEVEL".
std::string environment_name(std::string_view option);
/// The option's own restriction ("at least 1"), or else what values of its type look like.
std::string allowed_text(const option_declaration& option);
/// `text` as a value for `option`, none if it is no such value. Does not look at `accepts`.
std::optional<option_value> parse_value(const option_declaration& option, const std::string& text);
/// "did you mean --tern-workers?", or nothing if no name is near. `prefix` stands before the names
/// in the text.
std::string nearest(std::string_view name, const std::vector<std::string>& names, std::string_view prefix);
/// A hint for a wrong name: "did you mean host? there are: cuda0, host". `there` stands before the
/// list, which keeps the order of `names`.
std::string nearest_of(std::string_view name, const std::vector<std::string>& names, std::string_view there);
/// Refuses a value. `origin` reads "on the command line", "TERN_X in the environment", "in file
/// x.json".
[[noreturn]] void refuse_value(const option_declaration& option, const std::string& text, const std::string& origin);

} // namespace tern::detail
