// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Pages of docs/results whose figures a benchmark writes itself. What it writes stands between
/// lines of the page:
///
///     <!-- NAME -->
///     figures
///     <!-- end of NAME -->

#include <map>
#include <string>
#include <vector>

namespace tern::bench {

/// `page` with what stands between the lines "<!-- NAME -->" and "<!-- end of NAME -->" replaced by
/// `blocks[NAME]`.
/// \throws std::runtime_error that names a block that only the page or only `blocks` has.
std::string filled(const std::string& page, const std::map<std::string, std::string>& blocks);

/// A file with such blocks, while its figures are measured. One thread.
class result_page {
public:
  /// \throws std::runtime_error if the file cannot be read or has other blocks: now rather than in
  /// an hour.
  result_page(std::string path, const std::vector<std::string>& blocks);

  /// Keeps a block, and prints it.
  void take(const std::string& name, std::string block);
  /// Writes the file. A block that was not taken is empty. \throws std::runtime_error if it cannot
  /// be written.
  void write() const;
  /// Where its pictures belong.
  std::string folder() const;

private:
  std::string path_, text_;
  std::map<std::string, std::string> blocks_;
};

/// Date, machine, commit and compiler, as a line of the page.
std::string taken_where();

/// Parts of a page in Markdown.
namespace markdown {

/// A number by a format of printf for one double.
std::string number(double value, const char* format);
/// 1234567 as 1,234,567.
std::string count(double value);
/// A line of a table; its first two lines.
std::string row(const std::vector<std::string>& cells);
std::string head(const std::vector<std::string>& cells);

} // namespace markdown
} // namespace tern::bench
