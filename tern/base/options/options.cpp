// SPDX-License-Identifier: Apache-2.0
#include <tern/base/options.hpp>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <set>

#include <unistd.h>

#include <tern/base/error.hpp>
#include <tern/base/options/option_table.hpp>

namespace tern {

const option<std::string> log_level_option{"log-level", "info", "the least urgent messages to show",
                                           one_of({"trace", "debug", "info", "warning", "error", "off"})};
const option<std::string> options_file{"options", "", "a JSON file of options: {\"workers\": 4, ...}"};
const option<bool> help_option{"help", false, "show Tern's options and end"};

namespace detail {
namespace {
// The tables that DESIGN's rule against process-global state allows: entered before main or while a
// library loads.
constinit std::mutex table_mutex;
constinit option_declaration* first_option = nullptr;
constinit known_environment* first_variable = nullptr;
} // namespace

void option_table::enter(option_declaration* declaration) {
  const std::lock_guard lock(table_mutex);
  declaration->next_ = first_option;
  first_option = declaration;
}
void option_table::leave(option_declaration* declaration) noexcept {
  const std::lock_guard lock(table_mutex);
  for (option_declaration** at = &first_option; *at; at = &(*at)->next_)
    if (*at == declaration) {
      *at = declaration->next_;
      return;
    }
}
void option_table::enter(known_environment* variable) {
  const std::lock_guard lock(table_mutex);
  variable->next_ = first_variable;
  first_variable = variable;
}
void option_table::leave(known_environment* variable) noexcept {
  const std::lock_guard lock(table_mutex);
  for (known_environment** at = &first_variable; *at; at = &(*at)->next_)
    if (*at == variable) {
      *at = variable->next_;
      return;
    }
}

std::map<std::string, const option_declaration*, std::less<>> option_table::all() {
  const std::lock_guard lock(table_mutex);
  std::map<std::string, const option_declaration*, std::less<>> options;
  for (const option_declaration* each = first_option; each; each = each->next_) {
    const auto [at, fresh] = options.try_emplace(each->name(), each);
    // One declaration in a header may exist once in each of several libraries; that is no clash.
    if (fresh || at->second->place() == each->place()) continue;
    const auto [one, other] = std::minmax(at->second->place(), each->place());
    throw error(errc::invalid_option,
                "option \"" + each->name() + "\" is declared twice: at " + one + " and at " + other,
                "rename one of them");
  }
  return options;
}

std::vector<std::string> option_table::known() {
  const std::lock_guard lock(table_mutex);
  std::vector<std::string> names;
  for (const known_environment* each = first_variable; each; each = each->next_) names.push_back(each->name_);
  return names;
}

option_declaration::option_declaration(std::string_view name, option_value default_value, std::string_view help,
                                       std::string allowed, std::function<bool(const option_value&)> accepts,
                                       std::function<void(const option_value&, const options&)> verify,
                                       std::source_location where)
    : name_(name), help_(help), allowed_(std::move(allowed)),
      place_(error(errc::internal, "", "", where).place()), // spelt as in errors
      default_(std::move(default_value)), accepts_(std::move(accepts)), verify_(std::move(verify)) {
  option_table::enter(this);
}
option_declaration::~option_declaration() { option_table::leave(this); }

std::string option_text(const option_value& value) {
  struct visitor {
    std::string operator()(bool x) const { return x ? "true" : "false"; }
    std::string operator()(int x) const { return std::to_string(x); }
    std::string operator()(std::int64_t x) const { return std::to_string(x); }
    std::string operator()(double x) const {
      char text[64];
      return std::string(text, std::to_chars(text, text + sizeof text, x).ptr);
    }
    std::string operator()(const std::string& x) const { return x.empty() ? "\"\"" : x; }
  };
  return std::visit(visitor(), value);
}

std::string environment_name(std::string_view option) {
  std::string name = "TERN_";
  for (const char c : option) name += c == '-' ? '_' : c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  return name;
}

namespace {
template <class T> std::string whole_number_text(T) {
  return "a whole number from " + std::to_string(std::numeric_limits<T>::min()) + " to " +
         std::to_string(std::numeric_limits<T>::max());
}
} // namespace

std::string allowed_text(const option_declaration& option) {
  struct visitor {
    std::string operator()(bool) const { return "true, false, yes, no, on, off, 1, 0"; }
    std::string operator()(int x) const { return whole_number_text(x); }
    std::string operator()(std::int64_t x) const { return whole_number_text(x); }
    std::string operator()(double) const { return "a finite number"; }
    std::string operator()(const std::string&) const { return "any text"; }
  };
  if (option.allowed().empty()) return std::visit(visitor(), option.default_value());
  return option.allowed();
}

namespace {
template <class T> std::optional<option_value> parse_number(const std::string& text) {
  T value{};
  const char* begin = text.data();
  const char* const end = begin + text.size();
  if (end - begin > 1 && *begin == '+' && begin[1] != '-') ++begin;
  const auto [stop, failure] = std::from_chars(begin, end, value);
  if (failure != std::errc() || stop != end) return std::nullopt;
  if constexpr (std::is_same_v<T, double>)
    if (!std::isfinite(value)) return std::nullopt;
  return option_value(std::in_place_type<T>, value);
}
} // namespace

std::optional<option_value> parse_value(const option_declaration& option, const std::string& text) {
  switch (option.default_value().index()) {
  case 0:
    for (const char* word : {"true", "yes", "on", "1"})
      if (text == word) return option_value(true);
    for (const char* word : {"false", "no", "off", "0"})
      if (text == word) return option_value(false);
    return std::nullopt;
  case 1:
    return parse_number<int>(text);
  case 2:
    return parse_number<std::int64_t>(text);
  case 3:
    return parse_number<double>(text);
  default:
    return option_value(text);
  }
}

namespace {

/// Null if none is near.
const std::string* find_nearest(std::string_view name, const std::vector<std::string>& names) {
  const auto distance = [](std::string_view a, std::string_view b) { // Levenshtein
    std::vector<std::size_t> row(b.size() + 1);
    for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
    for (std::size_t i = 1; i <= a.size(); ++i) {
      std::size_t diagonal = row[0];
      row[0] = i;
      for (std::size_t j = 1; j <= b.size(); ++j) {
        const std::size_t substituted = diagonal + (a[i - 1] != b[j - 1]);
        diagonal = row[j];
        row[j] = std::min({substituted, row[j] + 1, row[j - 1] + 1});
      }
    }
    return row.back();
  };
  if (name.size() > 100) return nullptr; // not a typing slip
  std::size_t best = std::max<std::size_t>(2, name.size() / 3) + 1;
  const std::string* found = nullptr;
  for (const std::string& candidate : names)
    if (const std::size_t d = distance(name, candidate); d < best) best = d, found = &candidate;
  return found;
}

} // namespace

std::string nearest(std::string_view name, const std::vector<std::string>& names, std::string_view prefix) {
  const std::string* const found = find_nearest(name, names);
  return found ? "did you mean " + std::string(prefix) + *found + "?" : std::string();
}

std::string nearest_of(std::string_view name, const std::vector<std::string>& names, std::string_view there) {
  std::string hint = nearest(name, names, "");
  if (!hint.empty()) hint += ' ';
  hint += std::string(there) + ": ";
  for (std::size_t i = 0; i < names.size(); ++i) hint += (i == 0 ? "" : ", ") + names[i];
  return hint;
}

namespace {

std::string value_refusal(const option_declaration& option, const std::string& text, const std::string& origin) {
  return "option " + option.name() + " cannot be \"" + text + "\" (" + origin + ")";
}

/// What `options::source` gives, as it reads in a refusal.
std::string origin_text(const std::string& source, const std::string& option) {
  if (source == "command line") return "on the command line";
  if (source == "environment") return environment_name(option) + " in the environment";
  return (source == "program" ? "by the " : "in ") + source;
}

/// What `argument` is after `--tern-` and before a `=`, in lower case and with `-` for `_`:
/// `-tern-Ranks=4` gives "ranks". Nothing if it does not begin like an option of Tern.
std::optional<std::string> meant_for_tern(std::string_view argument) {
  const std::size_t dashes = std::min(argument.find_first_not_of('-'), argument.size());
  std::string name(argument.substr(dashes, argument.find('=') - dashes));
  for (char& c : name) c = c == '_' ? '-' : c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  constexpr std::string_view tern = "tern-";
  if (dashes == 0 || !name.starts_with(tern)) return std::nullopt;
  return name.substr(tern.size());
}

} // namespace

void refuse_value(const option_declaration& option, const std::string& text, const std::string& origin) {
  throw error(errc::invalid_option, value_refusal(option, text, origin), "allowed: " + allowed_text(option));
}

} // namespace detail

option_check<std::string> one_of(std::vector<std::string> words) {
  std::string list;
  for (const auto& word : words) {
    list += list.empty() ? "one of " : ", ";
    list += detail::option_text(word);
  }
  return {[words = std::move(words)](const std::string& x) {
            return std::find(words.begin(), words.end(), x) != words.end();
          },
          list};
}

known_environment::known_environment(std::string_view name) : name_(name) { detail::option_table::enter(this); }
known_environment::~known_environment() { detail::option_table::leave(this); }

options options::parse(int& argc, char** argv) {
  constexpr std::string_view prefix = "--tern-";
  const auto table = detail::option_table::all();
  const auto find = [&table](std::string_view name) -> const detail::option_declaration* {
    const auto at = table.find(name);
    return at == table.end() ? nullptr : at->second;
  };
  const auto is_switch = [](const detail::option_declaration* option) {
    return option && std::holds_alternative<bool>(option->default_value());
  };

  const auto refuse_name = [&table, prefix](std::string_view argument, std::string_view meant) {
    std::vector<std::string> names;
    for (const auto& [each, declaration] : table) {
      names.push_back(each);
      if (std::holds_alternative<bool>(declaration->default_value())) names.push_back("no-" + each);
    }
    const std::string hint = detail::nearest(meant, names, prefix);
    throw error(errc::invalid_option, "unknown option " + std::string(argument.substr(0, argument.find('='))),
                hint.empty() ? "--tern-help lists all; write -- before arguments that are not Tern's" : hint);
  };

  // The command line first, since it may name the file; but it is applied last.
  std::vector<std::pair<const detail::option_declaration*, option_value>> given;
  std::vector<char*> kept;
  bool ended = false;
  for (int i = 0; i < argc; ++i) {
    const std::string_view argument = argv[i];
    ended = ended || (i > 0 && argument == "--");
    const auto meant = i == 0 || ended ? std::nullopt : detail::meant_for_tern(argument);
    if (!meant) {
      kept.push_back(argv[i]);
      continue;
    }
    if (!argument.starts_with(prefix)) refuse_name(argument, *meant);
    const auto equals = argument.find('=');
    const std::string_view name =
        argument.substr(prefix.size(), equals == std::string_view::npos ? equals : equals - prefix.size());
    const bool has_value = equals != std::string_view::npos;
    std::string text(has_value ? argument.substr(equals + 1) : std::string_view());
    const auto* option = find(name);
    if (!option && name.starts_with("no-") && is_switch(find(name.substr(3))) && !has_value) {
      given.emplace_back(find(name.substr(3)), option_value(false));
      continue;
    }
    if (!option) refuse_name(argument, *meant);
    if (!has_value) {
      if (is_switch(option)) {
        text = "true";
      } else if (i + 1 < argc && !std::string_view(argv[i + 1]).starts_with("--")) {
        text = argv[++i];
      } else {
        throw error(errc::invalid_option, "option " + std::string(argument) + " needs a value",
                    "write " + std::string(argument) + "=VALUE; allowed: " + detail::allowed_text(*option));
      }
    }
    auto value = detail::parse_value(*option, text);
    if (!value || !option->accepts(*value)) detail::refuse_value(*option, text, "on the command line");
    given.emplace_back(option, std::move(*value));
  }

  options parsed;
  std::string path, origin;
  if (const char* variable = std::getenv("TERN_OPTIONS"); variable && *variable)
    path = variable, origin = "named by TERN_OPTIONS in the environment";
  for (const auto& [option, value] : given)
    if (option == find(options_file.name())) path = std::get<std::string>(value), origin = "named by --tern-options";
  if (!path.empty()) parsed.read_file(path, origin);
  parsed.read_environment();
  for (auto& [option, value] : given) parsed.set_value(*option, std::move(value), "command line");
  if (!parsed.help_requested())
    for (const auto& [name, setting] : parsed.settings_)
      parsed.verify(*find(name), setting.value, detail::origin_text(setting.source, name));

  std::copy(kept.begin(), kept.end(), argv);
  if (static_cast<int>(kept.size()) < argc) argv[kept.size()] = nullptr;
  argc = static_cast<int>(kept.size());
  return parsed;
}

void options::read_environment() {
  for (const auto& [name, option] : detail::option_table::all()) {
    const std::string variable = detail::environment_name(name);
    const char* text = std::getenv(variable.c_str());
    if (!text || !*text) continue;
    auto value = detail::parse_value(*option, text);
    if (!value || !option->accepts(*value)) detail::refuse_value(*option, text, variable + " in the environment");
    set_value(*option, std::move(*value), "environment");
  }
}

const option_value& options::value_of(const detail::option_declaration& which) const {
  const auto at = settings_.find(which.name());
  return at == settings_.end() ? which.default_value() : at->second.value;
}

void options::set_value(const detail::option_declaration& which, option_value value, std::string source) {
  settings_.insert_or_assign(which.name(), setting{std::move(value), std::move(source)});
}

void options::change_value(const detail::option_declaration& which, option_value value) {
  const std::string source = "program";
  const std::string origin = detail::origin_text(source, which.name());
  if (!which.accepts(value)) detail::refuse_value(which, detail::option_text(value), origin);
  verify(which, value, origin);
  set_value(which, std::move(value), source);
}

void options::verify(const detail::option_declaration& which, const option_value& value,
                     const std::string& origin) const {
  if (value == which.default_value()) return;
  try {
    which.verify(value, *this);
  } catch (const error& e) {
    if (e.code() != errc::invalid_option) throw;
    throw error(e.code(), detail::value_refusal(which, detail::option_text(value), origin) + ": " + e.message(),
                e.hint(), e.place());
  }
}

std::string options::source(std::string_view name) const {
  if (const auto at = settings_.find(name); at != settings_.end()) return at->second.source;
  if (detail::option_table::all().contains(name)) return "default";
  throw error(errc::not_found, "there is no option \"" + std::string(name) + "\"", "--tern-help lists all");
}

bool options::help_requested() const { return (*this)[help_option]; }

namespace {

/// `--tern-workers=INTEGER`.
std::string usage(const detail::option_declaration& option) {
  static constexpr const char* kinds[] = {"", "=INTEGER", "=INTEGER", "=NUMBER", "=TEXT"};
  return "--tern-" + option.name() + kinds[option.default_value().index()];
}
/// What it does, and what is allowed.
std::string meaning(const detail::option_declaration& option) {
  return option.help() + (option.allowed().empty() ? "" : "; " + option.allowed());
}
/// As it stands in a table of Markdown, where a bar ends a cell.
std::string cell(std::string_view text) {
  std::string escaped;
  for (const char c : text) escaped += c == '|' ? "\\|" : std::string(1, c);
  return escaped;
}

} // namespace

std::string options::help_table() {
  std::string text = "| option | environment | default | meaning |\n|---|---|---|---|\n";
  for (const auto& [name, option] : detail::option_table::all()) {
    text += "| `" + usage(*option) + "` | `" + detail::environment_name(name) + "` | `" +
            cell(detail::option_text(option->default_value())) + "` | " + cell(meaning(*option)) + " |\n";
  }
  return text;
}

std::string options::help() const {
  const auto table = detail::option_table::all();
  const auto left = [](const detail::option_declaration& option) { return "  " + usage(option); };
  std::size_t width = 0;
  for (const auto& [name, option] : table) width = std::max(width, left(*option).size());
  std::string text =
      "Options of Tern. The command line wins over the environment, that over the file, that over the default.\n";
  for (const auto& [name, option] : table) {
    const std::string head = left(*option), indent(width + 2, ' ');
    text += head + std::string(width + 2 - head.size(), ' ') + meaning(*option);
    text +=
        "\n" + indent + detail::environment_name(name) + ", default " + detail::option_text(option->default_value());
    if (const auto at = settings_.find(name); at != settings_.end())
      text += ", now " + detail::option_text(at->second.value) + " (" + at->second.source + ")";
    text += "\n";
  }
  return text + "A switch x is set by --tern-x and unset by --tern-no-x. -- ends Tern's options.\n";
}

namespace {

/// All variables `TERN_…` that mean something.
std::set<std::string> known_variables() {
  std::set<std::string> known{"TERN_PLUGIN_DIR"};
  for (const auto& [name, option] : detail::option_table::all()) known.insert(detail::environment_name(name));
  for (const std::string& name : detail::option_table::known()) known.insert(name);
  return known;
}

} // namespace

std::vector<std::string> options::unknown_environment() {
  const std::set<std::string> known = known_variables();
  std::set<std::string> unknown;
  for (char** each = environ; each && *each; ++each) {
    const std::string_view entry = *each;
    const std::string name(entry.substr(0, entry.find('=')));
    if (name.starts_with("TERN_") && !known.contains(name)) unknown.insert(name);
  }
  return {unknown.begin(), unknown.end()};
}

std::string options::nearest_environment(std::string_view name) {
  constexpr std::string_view prefix = "TERN_"; // all have it: only the rest says how near two are
  if (!name.starts_with(prefix)) return {};
  std::vector<std::string> rests;
  for (const std::string& each : known_variables())
    if (each.starts_with(prefix)) rests.push_back(each.substr(prefix.size()));
  const std::string* const found = detail::find_nearest(name.substr(prefix.size()), rests);
  return found ? std::string(prefix) + *found : std::string();
}

} // namespace tern
