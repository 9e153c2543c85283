// SPDX-License-Identifier: Apache-2.0
#include "kernel_text.hpp"

#include <algorithm>
#include <cctype>
#include <string_view>

namespace mock {
namespace {

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

struct kernel {
  std::string name, bounds;
};

class rewriter {
public:
  explicit rewriter(const std::string& text) : in_(text) {}

  kernel_text run() {
    while (at_ < in_.size()) {
      if (at_line_start() && in_[at_] == '#') {
        copy_until(in_.find('\n', at_));
        continue;
      }
      const std::string token = next();
      if (token == "__global__")
        in_kernel_head_ = true, bounds_.clear();
      else if (token == "__launch_bounds__")
        bounds_ = first_of(parenthesized());
      else if (token == "__shared__")
        shared();
      else if (token == "asm" || token == "__asm__" || token == "__asm")
        assembler(token);
      else
        plain(token);
    }
    return {out_ + tail(), names()};
  }

private:
  bool at_line_start() const { return at_ == 0 || in_[at_ - 1] == '\n'; }
  void copy_until(std::size_t end) {
    end = std::min(end, in_.size());
    out_.append(in_, at_, end - at_);
    at_ = end;
  }

  // A word, a literal, or a character; spaces before it are copied.
  std::string next() {
    std::size_t end = at_;
    while (end < in_.size() && std::isspace(static_cast<unsigned char>(in_[end]))) {
      ++end;
      if (in_[end - 1] == '\n') break;
    }
    copy_until(end);
    if (at_ >= in_.size() || (at_line_start() && in_[at_] == '#')) return "";
    const std::size_t begin = at_;
    const char c = in_[at_++];
    if (is_word(c)) {
      while (at_ < in_.size() && is_word(in_[at_])) ++at_;
    } else if (c == '"' || c == '\'') {
      while (at_ < in_.size() && in_[at_] != c && in_[at_] != '\n') at_ += in_[at_] == '\\' ? 2 : 1;
      at_ = std::min(at_ + 1, in_.size());
    }
    return in_.substr(begin, at_ - begin);
  }

  // What is in the parentheses that follow; nothing of it is copied but its lines.
  std::string parenthesized() {
    std::string text;
    int depth = 0;
    while (at_ < in_.size()) {
      const char c = in_[at_++];
      if (c == '\n') out_ += c;
      if (c == ')' && --depth == 0) break;
      if (depth > 0) text += c;
      if (c == '(') ++depth;
    }
    return text;
  }
  static std::string first_of(const std::string& list) {
    int depth = 0;
    for (std::size_t i = 0; i < list.size(); ++i) {
      depth += (list[i] == '(') - (list[i] == ')');
      if (list[i] == ',' && depth == 0) return list.substr(0, i);
    }
    return list;
  }

  void plain(const std::string& token) {
    if (in_kernel_head_ && token == "(" && !last_.empty() && is_word(last_.front()) && last_ != "__attribute__") {
      in_kernel_head_ = false;
      current_ = last_;
      const auto known =
          std::find_if(kernels_.begin(), kernels_.end(), [&](const kernel& k) { return k.name == last_; });
      if (known == kernels_.end())
        kernels_.push_back({last_, bounds_});
      else if (!bounds_.empty())
        known->bounds = bounds_;
    }
    if (token == "{") ++depth_;
    if (token == "}" && depth_ > 0 && --depth_ == outside_) current_.clear();
    if (token == ";" && depth_ == outside_) current_.clear();          // it was only declared
    if (depth_ == 1 && token == "{" && last_ == "\"C\"") outside_ = 1; // a block of extern "C"
    if (depth_ == 0) outside_ = 0;
    if (!token.empty()) last_ = token;
    out_ += token;
  }

  // Memory of a group: static, since groups run one after the other; or all that is dynamic, by any
  // name.
  void shared() {
    const bool dynamic = last_ == "extern";
    if (!dynamic && last_ != "static") out_ += "static";
    std::vector<std::string> declared;
    std::string word, before;
    int depth = 0;
    bool named = false;
    while (at_ < in_.size()) {
      const std::string token = next();
      out_ += token;
      if (token == ";") break;
      const bool ends = depth == 0 && (token == "[" || token == "," || token == "=");
      if (ends && !named) declared.push_back(word), named = true;
      if (depth == 0 && token == ",") named = false;
      depth += (token == "(" || token == "[" || token == "{" || token == "<") -
               (token == ")" || token == "]" || token == "}" || token == ">");
      if (depth == 0 && !token.empty() && is_word(token.front())) word = token;
    }
    if (!named) declared.push_back(word);
    last_ = ";";
    for (const std::string& name : declared) {
      if (dynamic) {
        if (std::find(dynamic_.begin(), dynamic_.end(), name) == dynamic_.end()) dynamic_.push_back(name);
      } else if (!current_.empty()) {
        out_ += " static tern_mock_shared tern_mock_note_" + std::to_string(++notes_) +
                " __attribute__((section(\"tern_mock_notes\"), used)) = {(void*)&" + name + ", sizeof(" + name +
                "), \"" + current_ + "\"};";
      }
    }
  }

  // There are the instruction `trap`, and how much dynamic memory there is.
  void assembler(const std::string& word) {
    std::string tail = "";
    std::string token = next();
    if (token == "volatile" || token == "__volatile__") tail = " " + token, token = next();
    if (token == "(") {
      std::size_t at = at_;
      constexpr std::string_view size_of_dynamic = "\"mov.u32 %0, %%dynamic_smem_size;\" : \"=r\"(";
      if (in_.compare(at, size_of_dynamic.size(), size_of_dynamic) == 0) {
        at += size_of_dynamic.size();
        const std::size_t end = in_.find("))", at);
        out_ += in_.substr(at, end - at) + " = tern_mock_now->dynamic";
        at_ = end + 2;
        return;
      }
      while (at < in_.size() && in_[at] != ')' && in_[at] != '\n') ++at;
      const std::string inside = in_.substr(at_, at - at_);
      if (inside.find("\"trap;\"") != inside.npos || inside.find("\"trap\"") != inside.npos) {
        at_ = at + 1;
        out_ += "__trap()";
        return;
      }
    }
    out_ += word + tail + " " + token;
  }

  std::string tail() const {
    std::string t =
        "\n# 1 \"the mock's table of kernels\"\nextern \"C\" {\n"
        "tern_mock_items* tern_mock_now __attribute__((visibility(\"hidden\")));\n"
        "extern const tern_mock_shared __start_tern_mock_notes[] __attribute__((weak, "
        "visibility(\"hidden\"))), __stop_tern_mock_notes[] __attribute__((weak, visibility(\"hidden\")));\n"
        "extern char tern_mock_dynamic[] __attribute__((visibility(\"hidden\")));\n}\n"
        "asm(\".local tern_mock_dynamic\\n.comm tern_mock_dynamic,233472,256\\n\");\n";
    for (const std::string& name : dynamic_)
      t += "asm(\".globl " + name + "\\n.hidden " + name + "\\n.set " + name + ", tern_mock_dynamic\\n\");\n";
    t += "static const tern_mock_kernel tern_mock_kernels[] = {\n";
    for (const kernel& k : kernels_)
      t += "{\"" + k.name + "\", &tern_mock_shape<decltype(" + k.name + ")>::run<&" + k.name +
           ">, tern_mock_shape<decltype(" + k.name + ")>::count, tern_mock_shape<decltype(" + k.name +
           ")>::values.offsets, tern_mock_shape<decltype(" + k.name + ")>::values.sizes, tern_mock_shape<decltype(" +
           k.name + ")>::values.pointers, (int)(" + (k.bounds.empty() ? "0" : k.bounds) + ")},\n";
    t += "{}};\nextern \"C\" __attribute__((visibility(\"default\"))) const tern_mock_image "
         "tern_mock_image_table = {tern_mock_image_version, tern_mock_kernels, &tern_mock_now, ";
    t += dynamic_.empty() ? "nullptr" : "tern_mock_dynamic";
    return t + ", __start_tern_mock_notes, __stop_tern_mock_notes};\n";
  }

  std::vector<std::string> names() const {
    std::vector<std::string> all;
    for (const kernel& k : kernels_) all.push_back(k.name);
    return all;
  }

  const std::string& in_;
  std::string out_, last_, bounds_, current_;
  std::size_t at_ = 0;
  int depth_ = 0, outside_ = 0, notes_ = 0;
  bool in_kernel_head_ = false;
  std::vector<kernel> kernels_;
  std::vector<std::string> dynamic_;
};

} // namespace

kernel_text make_host_text(const std::string& preprocessed) { return rewriter(preprocessed).run(); }

} // namespace mock
