// SPDX-License-Identifier: Apache-2.0
#include <tern/base/error.hpp>

#include <array>
#include <utility>

namespace tern {
namespace {

constexpr std::array<std::string_view, 20> code_names{
    "internal",       "invalid_argument", "invalid_option", "invalid_state",
    "invalid_data",   "not_found",        "already_exists", "io",
    "out_of_memory",  "system",           "transport",      "remote",
    "broken_promise", "unsupported",      "deadlock",       "cancelled",
    "timeout",        "device_failed",    "device_lost",    "rank_lost"};

/// The directory above the project, as the compiler spelt it for this file: what to cut from files
/// of the same tree.
std::string_view project_prefix() {
  constexpr std::string_view self = "tern/base/error/error.cpp";
  const std::string_view here = std::source_location::current().file_name();
  return here.ends_with(self) ? here.substr(0, here.size() - self.size()) : std::string_view();
}

std::string text_of(std::source_location where) {
  std::string_view file = where.file_name();
  const std::string_view prefix = project_prefix();
  if (!prefix.empty() && file.starts_with(prefix)) {
    file.remove_prefix(prefix.size());
  } else if (file.starts_with('/')) {
    // Another project's file, or an installed header: from its last `tern/`, or else its name
    // alone, tells enough.
    const auto own = file.rfind("/tern/");
    file.remove_prefix((own != std::string_view::npos ? own : file.rfind('/')) + 1);
  } else {
    while (file.starts_with("../")) file.remove_prefix(3);
  }
  return std::string(file) + ":" + std::to_string(where.line());
}

std::string compose(errc code, const std::string& message, const std::string& hint, const std::string& place) {
  std::string text = message;
  if (!hint.empty()) text += "; " + hint;
  text += " [" + std::string(name_of(code));
  if (!place.empty()) text += " at " + place;
  return text + "]";
}

} // namespace

std::string_view name_of(errc code) noexcept {
  const auto i = static_cast<std::size_t>(code);
  return i < code_names.size() ? code_names[i] : "unknown";
}

error::error(errc code, std::string message, std::string hint, std::source_location where)
    : error(code, std::move(message), std::move(hint), text_of(where)) {}

error::error(errc code, std::string message, std::string hint, std::string place)
    : std::runtime_error(compose(code, message, hint, place)), code_(code), message_(std::move(message)),
      hint_(std::move(hint)), place_(std::move(place)) {}

} // namespace tern
