// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Lines of JSON, put together by hand: a trace has tens of millions.

#include <charconv>
#include <cstdint>
#include <string>
#include <string_view>

namespace tern::trace::detail {

/// One event as text, or several. Each begins with the comma that ends the one before.
class lines {
public:
  lines& operator<<(std::string_view s) {
    text_.append(s);
    return *this;
  }
  lines& operator<<(char c) {
    text_ += c;
    return *this;
  }
  lines& operator<<(std::int64_t n) { return number(n); }
  lines& operator<<(std::uint64_t n) { return number(n); }
  lines& operator<<(int n) { return number(n); }
  lines& operator<<(std::uint32_t n) { return number(n); }
  lines& hex(std::uint64_t n) {
    char digits[24];
    const auto end = std::to_chars(digits, digits + sizeof digits, n, 16).ptr;
    text_.append("\"0x").append(digits, end).append("\"");
    return *this;
  }
  /// Nanoseconds as microseconds, which is what the format counts in.
  lines& time(std::int64_t ns) {
    char digits[32];
    char* end = std::to_chars(digits, digits + 24, ns / 1000).ptr;
    const auto rest = static_cast<int>(ns % 1000);
    if (rest != 0) {
      *end++ = '.';
      *end++ = static_cast<char>('0' + rest / 100);
      *end++ = static_cast<char>('0' + rest / 10 % 10);
      *end++ = static_cast<char>('0' + rest % 10);
    }
    text_.append(digits, end);
    return *this;
  }
  /// A double as JSON has it: null where it is no number.
  lines& real(double value);

  std::string_view text() const noexcept { return text_; }
  void clear() noexcept { text_.clear(); }

private:
  template <class N> lines& number(N n) {
    char digits[24];
    text_.append(digits, std::to_chars(digits, digits + sizeof digits, n).ptr);
    return *this;
  }
  std::string text_;
};

/// The file that is being written.
class json_file {
public:
  /// \throws error(io) naming the file; so do the others.
  explicit json_file(std::string path);
  ~json_file();
  json_file(const json_file&) = delete;
  json_file& operator=(const json_file&) = delete;

  void write(std::string_view text) {
    if (buffer_.size() + text.size() > most) flush();
    buffer_.append(text);
  }
  void finish();

private:
  static constexpr std::size_t most = std::size_t{1} << 20;
  [[noreturn]] void fail(const char* what) const;
  void flush();

  std::string path_, buffer_;
  int file_ = -1;
};

} // namespace tern::trace::detail
