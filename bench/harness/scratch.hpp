// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <system_error>

#include <unistd.h>

namespace tern::bench {

/// A folder for what programs write, which goes with this object.
class scratch {
public:
  explicit scratch(const std::string& called) {
    std::string name = (std::filesystem::temp_directory_path() / (called + "-XXXXXX")).string();
    if (!mkdtemp(name.data())) throw std::runtime_error("cannot make a folder for temporary files in " + name);
    path_ = name;
  }
  ~scratch() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  scratch(const scratch&) = delete;
  scratch& operator=(const scratch&) = delete;
  std::string operator/(const std::string& name) const { return (path_ / name).string(); }

private:
  std::filesystem::path path_;
};

} // namespace tern::bench
