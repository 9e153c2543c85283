// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Parts of `tern replay`.

#include <string>
#include <vector>

#include <tern/balance/recording.hpp>

namespace tern::tool {

/// Prints what is in it.
void describe_recording(const balance::recording& r, const std::string& path);
/// How long each worker was busy, as a picture.
void draw_recording(const balance::recording& r, const std::string& picture);

/// Texts from a file, for a terminal: what is no plain character becomes '?'.
std::string printable(const std::string& text);
std::string fixed(double value, int decimals);
/// "1,234,567.8"
std::string grouped(double value, int decimals = 0);
/// "12.34 s", "1.234 ms": four digits.
std::string time_text(double seconds);

/// Columns: the first from the left, the others from the right.
class table {
public:
  explicit table(std::vector<std::string> heads) { row(std::move(heads)); }
  /// With fewer cells than heads the last one runs through the columns that are left.
  void row(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  void print() const;

private:
  std::vector<std::vector<std::string>> rows_;
};

} // namespace tern::tool
