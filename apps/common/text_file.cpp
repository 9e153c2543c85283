// SPDX-License-Identifier: Apache-2.0
#include "apps/common/text_file.hpp"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>

#include <tern/base/error.hpp>

namespace apps {

void check_writable(const std::string& folder, const std::string& what, const std::string& option) {
  const auto refuse = [&](const std::string& why) {
    throw tern::error(tern::errc::io, "cannot write to the " + what + " '" + folder + "': " + why,
                      "choose another with " + option + ", or make it writable");
  };
  std::error_code failed;
  std::filesystem::create_directories(folder, failed);
  if (failed) refuse(failed.message());
  if (!std::filesystem::is_directory(folder, failed)) refuse("it is not a folder");
  const auto probe = std::filesystem::path(folder) / ".tern-write-test";
  errno = 0;
  if (std::FILE* f = std::fopen(probe.c_str(), "w")) {
    std::fclose(f);
    std::filesystem::remove(probe, failed);
  } else {
    refuse(std::strerror(errno));
  }
}

void check_file_writable(const std::string& path) {
  std::error_code failed;
  const bool there = std::filesystem::exists(path, failed);
  errno = 0;
  if (std::FILE* f = std::fopen(path.c_str(), "ab")) {
    std::fclose(f);
    if (!there) std::filesystem::remove(path, failed);
  } else {
    throw tern::error(tern::errc::io, "cannot write '" + path + "': " + std::strerror(errno),
                      "choose another file with --json, or make it writable");
  }
}

void write_text(const std::string& path, const std::string& text) {
  errno = 0;
  std::ofstream out(path, std::ios::binary);
  out << text;
  out.close();
  if (!out)
    throw tern::error(tern::errc::io, "cannot write '" + path + "': " + std::strerror(errno),
                      "check the folder, its permissions and the free space");
}

} // namespace apps
