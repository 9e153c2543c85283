// SPDX-License-Identifier: Apache-2.0
#include <tern/hetero/paging/host_limit.hpp>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <system_error>

#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <tern/base/error.hpp>
#include <tern/base/topology.hpp>
#include <tern/hetero/device/settings.hpp>
#include <tern/hetero/devices.hpp>

namespace tern::hetero {

namespace detail {

namespace {

/// Three quarters of what the machine, or the control group, has, divided by those that share it.
std::size_t most_of_memory(const options& opts) {
  const auto pages = static_cast<std::size_t>(std::max(0L, ::sysconf(_SC_PHYS_PAGES)));
  const std::size_t all = pages * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  return std::min<std::uint64_t>(all, cgroup_memory().value_or(all)) / 4 * 3 /
         static_cast<std::size_t>(sharing_ranks(opts));
}

std::string usual_directory() {
  const char* const usual = std::getenv("TMPDIR");
  return usual && *usual ? usual : "/var/tmp";
}

bool is_in_memory(const std::string& directory) {
  struct statfs about {};
  constexpr long tmpfs = 0x01021994, ramfs = static_cast<long>(0x858458f6);
  return ::statfs(directory.c_str(), &about) == 0 && (about.f_type == tmpfs || about.f_type == ramfs);
}

constexpr const char* other_folder =
    "name a folder on a disk that may be written to: --tern-hetero-disk=DIR or DIR:SIZE";

} // namespace

disk_place disk_place_in(std::string_view text) {
  disk_place p;
  if (const std::size_t colon = text.rfind(':'); colon != text.npos)
    if (const auto bytes = bytes_in(text.substr(colon + 1))) {
      p.most_bytes = *bytes;
      text = text.substr(0, colon);
    }
  p.directory = text;
  return p;
}

void verify_disk(const std::string& text, const options&) {
  if (text.empty()) return;
  const std::string directory = disk_place_in(text).directory;
  try {
    tern::detail::object_store({.directory = directory}, "hetero-disk").open();
  } catch (const error& e) {
    throw error(errc::invalid_option, e.message(), other_folder);
  }
  if (is_in_memory(directory))
    throw error(errc::invalid_option,
                "hetero-disk: \"" + directory + "\" is memory itself (tmpfs): what goes there frees none",
                other_folder);
}

std::optional<host_pager::settings> host_limit_of(const options& opts, bool simulated) {
  const auto limit = bytes_in(opts[hetero_host_memory]);
  const disk_place disk = disk_place_in(opts[hetero_disk]);
  if (!limit && disk.directory.empty()) return std::nullopt;
  host_pager::settings s;
  s.limit = limit.value_or(most_of_memory(opts));
  s.disk.directory = disk.directory.empty() ? usual_directory() : disk.directory;
  s.disk.most_bytes = disk.most_bytes;
  s.disk.inline_io = s.disk.in_memory = simulated;
  s.disk.cpus = simulated ? std::vector<int>() : allowed_cpus();
  s.disk.usable = other_folder;
  s.disk.other_disk = "name a folder on another disk: --tern-hetero-disk=DIR";
  s.disk.more_room = "name a folder with more room (--tern-hetero-disk=DIR:SIZE), or raise --tern-hetero-host-memory";
  s.owner = "hetero";
  return s;
}

} // namespace detail

std::string describe_host_limit(const options& opts) {
  const auto s = detail::host_limit_of(opts, false);
  if (!s) return {};
  const auto gibibytes = [](std::uint64_t n) {
    char text[32];
    std::snprintf(text, sizeof text, "%.1f GiB", static_cast<double>(n) / (1 << 30));
    return std::string(text);
  };
  std::string text =
      "objects take up to " + gibibytes(s->limit) + " of memory, then go to \"" + s->disk.directory + '"';
  struct statvfs about {};
  if (::statvfs(s->disk.directory.c_str(), &about) != 0) return text + ": " + std::generic_category().message(errno);
  text += ", which has " + gibibytes(std::uint64_t{about.f_bavail} * about.f_frsize) + " free";
  if (s->disk.most_bytes > 0) text += ", of which they take up to " + gibibytes(s->disk.most_bytes);
  return text;
}

const option<std::string> hetero_host_memory{
    "hetero-host-memory",
    "",
    "how many bytes of the host's memory objects may take (512M, 8G): those beyond that go to disk and come back when "
    "they are used; empty: no limit, or three quarters of the machine's memory if hetero-disk names a folder",
    {[](const std::string& text) { return text.empty() || detail::bytes_in(text).value_or(0) > 0; },
     "a number of bytes, such as 512M or 16G, or nothing"}};
const option<std::string> hetero_disk{
    "hetero-disk",
    "",
    "where objects go that the host's memory has no room for: a folder on a disk, and how many bytes it may take there "
    "(DIR or DIR:100G); empty: $TMPDIR or /var/tmp, if hetero-host-memory sets a limit",
    {.verify = detail::verify_disk}};

} // namespace tern::hetero
