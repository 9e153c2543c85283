// SPDX-License-Identifier: Apache-2.0
/// \file
/// The folder of a job's checkpoints.
#include <tern/mobile/checkpoint/checkpoint_file.hpp>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <string_view>
#include <system_error>

#include <fcntl.h>
#include <unistd.h>

#include <tern/base/error.hpp>
#include <tern/task/sim.hpp>

namespace tern::mobile::detail {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view prefix = "checkpoint-", unfinished = ".unfinished";

std::optional<std::uint64_t> generation_in(std::string_view name) {
  if (!name.starts_with(prefix)) return {};
  name.remove_prefix(prefix.size());
  std::uint64_t n = 0;
  const auto [end, wrong] = std::from_chars(name.data(), name.data() + name.size(), n);
  if (wrong != std::errc() || end != name.data() + name.size()) return {};
  return n;
}

[[noreturn]] void fail(const std::string& path, const std::string& what, const std::error_code& why) {
  throw error(errc::io, "the folder " + path + " of checkpoints cannot be " + what + ": " + why.message(),
              "give tern::checkpoint a folder that may be written to");
}

void make_durable(const std::string& folder, const std::string& what) {
  const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const bool done = fd >= 0 && (::fsync(fd) == 0 || errno == EINVAL); // some file systems know no such thing
  const int code = errno;
  if (fd >= 0) ::close(fd);
  if (!done) fail(folder, what, {code, std::generic_category()});
}

} // namespace

std::string checkpoint_folder::of(std::uint64_t generation) const {
  std::array<char, 32> name{};
  std::snprintf(name.data(), name.size(), "checkpoint-%06llu", static_cast<unsigned long long>(generation));
  return (fs::path(path_) / name.data()).string();
}

std::string checkpoint_folder::file(std::uint64_t generation, int rank, bool finished) const {
  std::array<char, 32> name{};
  std::snprintf(name.data(), name.size(), "/rank-%05d", rank);
  return of(generation) + (finished ? "" : std::string(unfinished)) + name.data();
}

std::vector<std::uint64_t> checkpoint_folder::found() const {
  const sim::outside_world disk;
  std::vector<std::uint64_t> all;
  std::error_code wrong;
  for (fs::directory_iterator at(path_, wrong), end; !wrong && at != end; at.increment(wrong))
    if (const auto n = generation_in(at->path().filename().string())) all.push_back(*n);
  if (wrong) fail(path_, "read", wrong);
  std::sort(all.rbegin(), all.rend());
  return all;
}

std::vector<std::uint64_t> checkpoint_folder::generations() const {
  const sim::outside_world disk;
  std::error_code wrong;
  if (!fs::is_directory(path_, wrong))
    throw error(errc::not_found, "there is no folder of checkpoints " + path_,
                "give --tern-restart the folder that was given to tern::checkpoint");
  auto all = found();
  if (all.empty())
    throw error(errc::not_found, "the folder " + path_ + " has no checkpoint",
                "give --tern-restart a folder that tern::checkpoint has written and finished once");
  return all;
}

std::uint64_t checkpoint_folder::begin() const {
  const sim::outside_world disk;
  std::error_code wrong;
  fs::create_directories(path_, wrong);
  if (wrong) fail(path_, "made", wrong);
  if (!fs::is_directory(path_, wrong)) fail(path_, "made", std::make_error_code(std::errc::not_a_directory));
  for (fs::directory_iterator at(path_, wrong), end; !wrong && at != end; at.increment(wrong)) {
    const std::string name = at->path().filename().string();
    if (name.starts_with(prefix) && name.ends_with(unfinished)) fs::remove_all(at->path(), wrong);
  }
  const auto all = found();
  const std::uint64_t generation = all.empty() ? 1 : all.front() + 1;
  fs::create_directory(of(generation) + std::string(unfinished), wrong);
  if (wrong) fail(path_, "written to", wrong);
  return generation;
}

void checkpoint_folder::commit(std::uint64_t generation, bool durable) const {
  const sim::outside_world disk;
  const std::string finished = of(generation), begun = finished + std::string(unfinished);
  if (durable) make_durable(begun, "written to");
  std::error_code wrong;
  fs::rename(begun, finished, wrong);
  if (wrong) fail(path_, "written to", wrong);
  if (!durable) return;
  make_durable(path_, "written to");
  const fs::path parent = fs::absolute(path_, wrong).parent_path();
  try {
    make_durable(parent.string(), "written to"); // it may be new
  } catch (const error&) {                       // it may not be ours to open
  }
}

void checkpoint_folder::give_up(std::uint64_t generation) const noexcept {
  const sim::outside_world disk;
  try {
    std::error_code ignored;
    fs::remove_all(of(generation) + std::string(unfinished), ignored);
  } catch (...) { // the next checkpoint removes it
  }
}

void checkpoint_folder::keep(std::uint64_t one, std::uint64_t other) const noexcept {
  const sim::outside_world disk;
  try {
    std::error_code ignored;
    for (const std::uint64_t g : found())
      if (g != one && g != other) {
        fs::rename(of(g), of(g) + std::string(unfinished), ignored); // at once, whatever happens meanwhile
        fs::remove_all(of(g) + std::string(unfinished), ignored);
      }
  } catch (...) { // the next checkpoint removes them
  }
}

} // namespace tern::mobile::detail
