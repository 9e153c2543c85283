// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Options of Tern and of what is built on it: declared where they are used, given on the command
/// line, in the environment or in a JSON file, and read from one object. Declare:
///
///     inline const tern::option<int> workers{"workers", 0, "worker threads of a rank; 0: as many as CPUs",
///                                            tern::at_least(0)};
///
/// Give: `--tern-workers=4`, `--tern-workers 4`, `TERN_WORKERS=4`, or `{"workers": 4}` in the file
/// named by `--tern-options FILE` or `TERN_OPTIONS`. The command line wins over the environment,
/// the environment over the file, and the file over the default. Read: `int n = opts[workers];`.

#include <tern/base/language/compiler.hpp>

#include <concepts>
#include <cstdint>
#include <functional>
#include <map>
#include <source_location>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace tern {

/// The types an option may have.
template <class T>
concept option_type = std::same_as<T, bool> || std::same_as<T, int> || std::same_as<T, std::int64_t> ||
    std::same_as<T, double> || std::same_as<T, std::string>;
using option_value = std::variant<bool, int, std::int64_t, double, std::string>;

class options;

/// Restricts an option's values, before a job starts. Each member may be left out.
template <option_type T> struct option_check {
  /// Looks at one value alone, when it is read.
  std::function<bool(const T&)> accepts = {};
  /// Completes the sentence "allowed: …" in errors and in the help.
  std::string allowed = {};
  /// For what a fixed text cannot say: names to which programs add, values that depend on other
  /// options. It is called for a value that is not the default, once all options are known, and not
  /// where the help is asked for. To refuse the value it throws error(invalid_option): that error's
  /// message and hint become part of the refusal, which names the option, the value and where it
  /// was given. Other exceptions pass.
  std::function<void(const T& value, const options& all)> verify = {};
};

namespace detail {
struct option_table;
std::string option_text(const option_value& value);

/// A declared option, whatever its type. Declarations form a list that is filled before `main` (and
/// by libraries that are loaded later); the list is only read by `options`.
class option_declaration {
public:
  option_declaration(const option_declaration&) = delete;
  option_declaration& operator=(const option_declaration&) = delete;
  const std::string& name() const noexcept { return name_; }
  const std::string& help() const noexcept { return help_; }
  const std::string& allowed() const noexcept { return allowed_; }
  const option_value& default_value() const noexcept { return default_; }
  /// `file:line` of the declaration.
  const std::string& place() const noexcept { return place_; }
  bool accepts(const option_value& value) const { return !accepts_ || accepts_(value); }
  /// As `option_check::verify`.
  void verify(const option_value& value, const options& all) const {
    if (verify_) verify_(value, all);
  }

protected:
  option_declaration(std::string_view name, option_value default_value, std::string_view help, std::string allowed,
                     std::function<bool(const option_value&)> accepts,
                     std::function<void(const option_value&, const options&)> verify, std::source_location where);
  ~option_declaration();

private:
  friend struct option_table;
  std::string name_, help_, allowed_, place_;
  option_value default_;
  std::function<bool(const option_value&)> accepts_;
  std::function<void(const option_value&, const options&)> verify_;
  option_declaration* next_ = nullptr;
};
} // namespace detail

/// Declares an option. Make it a static object: `inline const` in a header, or `const` in a source
/// file.
template <option_type T> class option : public detail::option_declaration {
public:
  /// \param name lower-case words joined by `-`; one that starts with "no-" is best avoided.
  /// \param help what it does, in the user's terms, on one line.
  option(std::string_view name, T default_value, std::string_view help, option_check<T> check = {},
         std::source_location where = std::source_location::current())
      : option_declaration(name, option_value(std::in_place_type<T>, std::move(default_value)), help,
                           std::move(check.allowed), erase(std::move(check.accepts)), erase(std::move(check.verify)),
                           where) {}

private:
  static std::function<bool(const option_value&)> erase(std::function<bool(const T&)> accepts) {
    if (!accepts) return {};
    return [accepts = std::move(accepts)](const option_value& value) { return accepts(std::get<T>(value)); };
  }
  static std::function<void(const option_value&, const options&)>
  erase(std::function<void(const T&, const options&)> verify) {
    if (!verify) return {};
    return [verify = std::move(verify)](const option_value& value, const options& all) {
      verify(std::get<T>(value), all);
    };
  }
};

/// Values from `least` up. The template argument must be the option's type:
/// `at_least<std::int64_t>(1)`.
template <option_type T> option_check<T> at_least(T least) {
  return {[least](const T& value) { return value >= least; }, "at least " + detail::option_text(least)};
}
/// Values from `least` to `most`, both included.
template <option_type T> option_check<T> between(T least, T most) {
  return {[least, most](const T& value) { return value >= least && value <= most; },
          "from " + detail::option_text(least) + " to " + detail::option_text(most)};
}
/// One of some words.
option_check<std::string> one_of(std::vector<std::string> words);

/// Declares an environment variable `TERN_…` that is no option, so that no user is warned about it.
/// Make it a static object.
class known_environment {
public:
  explicit known_environment(std::string_view name);
  ~known_environment();
  known_environment(const known_environment&) = delete;
  known_environment& operator=(const known_environment&) = delete;

private:
  friend struct detail::option_table;
  std::string name_;
  known_environment* next_ = nullptr;
};

/// The values of all options: a plain value, copyable. Threads: concurrent reading is fine.
class options {
public:
  /// Every option at its default.
  options() = default;

  /// Reads file, environment and command line. What was understood is removed from `argc` and
  /// `argv`; the program's own arguments keep their order. `--` ends the options and stays. A
  /// switch (bool) is given as `--tern-x`, `--tern-no-x` or `--tern-x=on|off|yes|no|true|false|1|0`
  /// and never takes the next argument. Given twice, the last wins. An environment variable that is
  /// set to nothing counts as not set.
  /// \throws error(invalid_option) for an unknown `--tern-…` (with the nearest name), for an
  /// argument that would be one but for its dashes, underscores or capitals (`-tern-x`,
  /// `--tern_x`), a value that is no such value or is not allowed (naming option, origin, text and
  /// what is allowed), a file with unknown keys or bad JSON (with line and column), or a name
  /// declared in two places (naming both); error(io) for a file that cannot be read. On a throw
  /// `argc` and `argv` are as they were.
  static options parse(int& argc, char** argv);

  /// The value. For an option declared after `parse` (by a library loaded since): its default.
  template <class T> const T& operator[](const option<T>& which) const { return std::get<T>(value_of(which)); }
  /// Sets a value from within the program. \throws error(invalid_option) if it is not allowed.
  template <class T> void set(const option<T>& which, std::type_identity_t<T> value) {
    change_value(which, option_value(std::in_place_type<T>, std::move(value)));
  }
  /// "command line", "environment", "file x.json", "program" or "default".
  /// \throws error(not_found) for a name that no option has.
  std::string source(std::string_view name) const;
  /// Whether `--tern-help` was given.
  bool help_requested() const;
  /// All options, sorted: name, what it does, what is allowed, environment name, default, present
  /// value and its origin.
  std::string help() const;
  /// All options, sorted, as a table in Markdown for documentation: name, environment name,
  /// default, what it does and what is allowed. Present values are left out.
  static std::string help_table();
  /// Variables `TERN_…` in the environment that are neither options nor declared by
  /// `known_environment`, sorted: likely misspelt, worth a warning. They are no error, since a
  /// job's other programs may use them.
  static std::vector<std::string> unknown_environment();
  /// The known variable with the name nearest to `name`, which `unknown_environment` gave. Empty if
  /// none is near.
  static std::string nearest_environment(std::string_view name);

private:
  struct setting {
    option_value value;
    std::string source;
  };
  const option_value& value_of(const detail::option_declaration& which) const;
  void set_value(const detail::option_declaration& which, option_value value, std::string source);
  void change_value(const detail::option_declaration& which, option_value value);
  void verify(const detail::option_declaration& which, const option_value& value, const std::string& origin) const;
  void read_file(const std::string& path, const std::string& origin);
  void read_environment();

  std::map<std::string, setting, std::less<>> settings_;
};

/// Options of this layer.
extern const option<std::string> log_level_option; ///< `--tern-log-level`, see log.hpp; the runtime applies it
extern const option<std::string> options_file;     ///< `--tern-options`
extern const option<bool> help_option;             ///< `--tern-help`

} // namespace tern
