// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace apps {

/// A command line in which `--restart FOLDER` has become `--tern-restart FOLDER`, which is what
/// Tern calls it.
class restart_line {
public:
  restart_line(int argc, char** argv) : words_(argv, argv + argc) {
    for (std::string& word : words_) {
      if (word == "--restart" || word.starts_with("--restart=")) word.insert(2, "tern-");
      line_.push_back(word.data());
    }
    count_ = static_cast<int>(words_.size());
    line_.push_back(nullptr);
  }
  restart_line(const restart_line&) = delete;
  restart_line& operator=(const restart_line&) = delete;
  /// tern::run takes its own options out.
  int& count() noexcept { return count_; }
  char** words() noexcept { return line_.data(); }

private:
  std::vector<std::string> words_;
  std::vector<char*> line_;
  int count_ = 0;
};

} // namespace apps
