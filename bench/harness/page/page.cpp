// SPDX-License-Identifier: Apache-2.0
#include "bench/harness/page/page.hpp"

#include <cmath>
#include <cstddef>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <stdexcept>
#include <utility>

#include "bench/harness/history.hpp"

#ifndef BENCH_COMPILER
#error "define BENCH_COMPILER as what compiles"
#endif

namespace tern::bench {

std::string filled(const std::string& page, const std::map<std::string, std::string>& blocks) {
  std::string text;
  std::set<std::string> left;
  for (const auto& [name, block] : blocks) left.insert(name);
  std::istringstream in(page);
  const std::string begin = "<!-- ", end = " -->";
  for (std::string line; std::getline(in, line);) {
    text += line + "\n";
    if (!line.starts_with(begin) || !line.ends_with(end)) continue;
    const std::string name = line.substr(begin.size(), line.size() - begin.size() - end.size());
    const auto block = blocks.find(name);
    if (block == blocks.end() || !left.erase(name)) throw std::runtime_error("there is nothing to fill " + line);
    const std::string last = begin + "end of " + name + end;
    text += block->second + last + "\n";
    do {
      if (!std::getline(in, line)) throw std::runtime_error("the page has no " + last);
    } while (line != last);
  }
  if (!left.empty()) throw std::runtime_error("the page has no " + begin + *left.begin() + end);
  return text;
}

result_page::result_page(std::string path, const std::vector<std::string>& blocks) : path_(std::move(path)) {
  std::ifstream in(path_);
  std::stringstream page;
  if (!in || !(page << in.rdbuf())) throw std::runtime_error("cannot read " + path_);
  text_ = page.str();
  for (const std::string& name : blocks) blocks_[name];
  filled(text_, blocks_);
}

void result_page::take(const std::string& name, std::string block) {
  std::printf("%s\n%s\n", name.c_str(), block.c_str());
  std::fflush(stdout);
  blocks_.at(name) = std::move(block);
}

void result_page::write() const {
  std::ofstream out(path_);
  out << filled(text_, blocks_);
  if (!out.flush()) throw std::runtime_error("cannot write " + path_);
}

std::string result_page::folder() const {
  const std::filesystem::path parent = std::filesystem::path(path_).parent_path();
  return parent.empty() ? "." : parent.string();
}

std::string taken_where() {
  const circumstances c = here_and_now();
  return c.date + "; " + c.machine + "; " + c.commit + "; compiled with " BENCH_COMPILER ".\n";
}

namespace markdown {

std::string number(double value, const char* format) {
  char text[64];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

std::string count(double value) {
  std::string text = std::to_string(std::llround(value));
  for (std::ptrdiff_t at = static_cast<std::ptrdiff_t>(text.size()) - 3; at > 0; at -= 3)
    text.insert(static_cast<std::size_t>(at), ",");
  return text;
}

std::string row(const std::vector<std::string>& cells) {
  std::string line = "|";
  for (const auto& cell : cells) line += " " + cell + " |";
  return line + "\n";
}

std::string head(const std::vector<std::string>& cells) {
  std::string rule = "|";
  for (std::size_t i = 0; i < cells.size(); ++i) rule += "---|";
  return row(cells) + rule + "\n";
}

} // namespace markdown
} // namespace tern::bench
