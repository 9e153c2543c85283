// SPDX-License-Identifier: Apache-2.0
#include "tools/tern/launch/started.hpp"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>

#include <tern/net/job/start_mark.hpp>

namespace tern::tool {

namespace fs = std::filesystem;

scratch_folder::scratch_folder() {
  const char* const temporary = std::getenv("TMPDIR");
  for (const std::string place : {"/dev/shm", temporary ? temporary : "", "/tmp"}) {
    std::string name = place + "/tern-run-XXXXXX";
    if (place.empty() || !mkdtemp(name.data())) continue;
    path_ = name;
    in_memory_ = place == "/dev/shm";
    return;
  }
}

scratch_folder::~scratch_folder() {
  std::error_code ignored;
  if (!path_.empty()) fs::remove_all(path_, ignored);
}

start_file::start_file(const scratch_folder& folder, const std::string& name) {
  if (folder.path().empty()) return;
  std::string path = folder.path() + "/" + name;
  if (std::ofstream(path) << net::detail::start_file_head << std::flush) path_ = std::move(path);
}

start_file::~start_file() {
  std::error_code ignored;
  if (!path_.empty()) fs::remove(path_, ignored);
}

start_file::start_file(start_file&& other) noexcept : path_(std::exchange(other.path_, {})) {}
start_file& start_file::operator=(start_file&& other) noexcept {
  path_.swap(other.path_);
  return *this;
}

std::optional<std::string> start_file::path() const {
  return path_.empty() ? std::nullopt : std::optional<std::string>(path_);
}

bool start_file::started() const {
  std::error_code failed;
  const auto bytes = path_.empty() ? 0 : fs::file_size(path_, failed);
  return path_.empty() || failed || bytes > net::detail::start_file_head.size();
}

int start_file::rank_of(long process) const {
  std::ifstream file(path_);
  std::string head;
  std::getline(file, head);
  int rank = -1;
  for (long one = -1; file >> rank >> one;)
    if (one == process) return rank;
  return -1;
}

} // namespace tern::tool
