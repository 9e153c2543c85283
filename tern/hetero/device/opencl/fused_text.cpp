// SPDX-License-Identifier: Apache-2.0
#include <tern/hetero/device/opencl/fused_text.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>
#include <vector>

namespace tern::hetero::detail {
namespace {

constexpr std::string_view blanks = " \t\r\n\v\f";

bool is_of_name(char c) noexcept {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

std::string_view trimmed(std::string_view text) noexcept {
  const std::size_t first = text.find_first_not_of(blanks);
  if (first == text.npos) return {};
  return text.substr(first, text.find_last_not_of(blanks) + 1 - first);
}

/// The same text, with blanks in the place of comments and of what stands in quotation marks. So
/// each byte is where it was.
std::string without_comments(std::string_view text) {
  std::string out(text);
  const auto blank = [&](std::size_t from, std::size_t to) {
    for (; from < to; ++from)
      if (out[from] != '\n') out[from] = ' ';
  };
  for (std::size_t i = 0; i < text.size();) {
    std::size_t end = i + 1;
    if (text.substr(i, 2) == "//") {
      end = std::min(text.find('\n', i), text.size());
      blank(i, end);
    } else if (text.substr(i, 2) == "/*") {
      end = text.find("*/", i + 2);
      end = end == text.npos ? text.size() : end + 2;
      blank(i, end);
    } else if (text[i] == '"' || text[i] == '\'') {
      while (end < text.size() && text[end] != text[i] && text[end] != '\n') end += text[end] == '\\' ? 2 : 1;
      end = std::min(end + 1, text.size());
      blank(i, end);
    }
    i = end;
  }
  return out;
}

/// What stands between brackets, the first of which is at `open`, cut at its commas.
struct bracket {
  std::vector<std::string_view> parts;
  std::size_t end = 0; ///< behind the last bracket
};
std::optional<bracket> bracket_at(std::string_view text, std::size_t open) {
  bracket found;
  int depth = 0;
  std::size_t begin = open + 1;
  for (std::size_t i = open; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '(' || c == '[' || c == '{') ++depth;
    if (c == ')' || c == ']' || c == '}') --depth;
    if (!(depth == 0 || (depth == 1 && c == ','))) continue;
    found.parts.push_back(trimmed(text.substr(begin, i - begin)));
    begin = i + 1;
    if (depth > 0) continue;
    found.end = i + 1;
    return found;
  }
  return std::nullopt;
}

struct parameter {
  std::string_view type, name;
};
/// "TERN_GLOBAL double* a". \return nothing for what is not that plain.
std::optional<parameter> parameter_in(std::string_view text) {
  std::size_t at = text.size();
  while (at > 0 && is_of_name(text[at - 1])) --at;
  const parameter p{trimmed(text.substr(0, at)), text.substr(at)};
  const bool plain = text.find_first_of("#([{") == text.npos;
  if (!plain || p.type.empty() || p.name.empty() || (p.name[0] >= '0' && p.name[0] <= '9')) return std::nullopt;
  return p;
}

std::string parameter_of(std::string_view name, int task) {
  return "tern_of" + std::to_string(task) + "_" + std::string(name);
}

/// That of the launch whose number `tern_launch` is, of those from `first` to `end`.
std::string chosen(std::string_view name, int first, int end) {
  if (end - first == 1) return parameter_of(name, first);
  const int middle = (first + end) / 2;
  return "(tern_launch < " + std::to_string(middle) + " ? " + chosen(name, first, middle) + " : " +
         chosen(name, middle, end) + ")";
}

struct declared_kernel {
  std::size_t begin = 0, body = 0; ///< of the word, and behind the bracket of the body
  std::vector<parameter> parameters;
  std::string attribute;
};

/// What begins with one of the words at `at`, if it is this kernel.
std::optional<declared_kernel> kernel_at_word(std::string_view text, std::size_t at, std::string_view word, bool fixed,
                                              std::string_view kernel) {
  const std::size_t open = text.find_first_not_of(blanks, at + word.size());
  if (open == text.npos || text[open] != '(') return std::nullopt;
  const auto found = bracket_at(text, open);
  const std::size_t before = fixed ? 4 : 1; // the name, and a group's size
  if (!found || found->parts.size() < before || found->parts[0] != kernel) return std::nullopt;
  declared_kernel made;
  made.begin = at;
  if (fixed)
    made.attribute = "__attribute__((reqd_work_group_size(" + std::string(found->parts[1]) + ", " +
                     std::string(found->parts[2]) + ", " + std::string(found->parts[3]) + "))) ";
  for (std::size_t i = before; i < found->parts.size(); ++i) {
    const auto one = parameter_in(found->parts[i]);
    if (!one) return std::nullopt;
    made.parameters.push_back(*one);
  }
  const std::size_t body = text.find_first_not_of(blanks, found->end);
  if (body == text.npos || text[body] != '{') return std::nullopt;
  made.body = body + 1;
  return made;
}

bool begins_line(std::string_view text, std::size_t at) noexcept {
  const std::size_t line = at == 0 ? std::string_view::npos : text.rfind('\n', at - 1);
  return trimmed(text.substr(line + 1, at - line - 1)).empty();
}

} // namespace

std::optional<std::string> fused_text(std::string_view block, std::string_view kernel, int tasks) {
  const std::string text = without_comments(block);
  std::optional<declared_kernel> found;
  for (const auto& [word, fixed] :
       {std::pair(std::string_view("TERN_KERNEL"), false), std::pair(std::string_view("TERN_KERNEL_FIXED"), true)})
    for (std::size_t at = text.find(word); at != text.npos; at = text.find(word, at + 1)) {
      if (!begins_line(text, at)) continue;
      auto one = kernel_at_word(text, at, word, fixed, kernel);
      if (one && found) return std::nullopt;
      if (one) found = std::move(one);
    }
  if (!found) return std::nullopt;

  std::string head = "__kernel " + found->attribute + "void tern_fused_" + std::string(kernel) +
                     "(__local char* tern_dynamic",
              begin;
  for (int task = 0; task < tasks; ++task)
    for (const parameter& p : found->parameters) head += ", " + std::string(p.type) + " " + parameter_of(p.name, task);
  head += ") ";
  const auto lines = std::count(text.begin() + static_cast<std::ptrdiff_t>(found->begin),
                                text.begin() + static_cast<std::ptrdiff_t>(found->body), '\n');
  std::replace(head.begin(), head.end(), '\n', ' ');
  head.append(static_cast<std::size_t>(lines), '\n');
  begin = "{ const int tern_launch = (int)get_group_id(2); (void)tern_launch;";
  for (const parameter& p : found->parameters)
    begin += " " + std::string(p.type) + " " + std::string(p.name) + " = " + chosen(p.name, 0, tasks) + ";";
  std::replace(begin.begin(), begin.end(), '\n', ' ');
  return std::string(block.substr(0, found->begin)) + head + begin + std::string(block.substr(found->body));
}

} // namespace tern::hetero::detail
