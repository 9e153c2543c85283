// SPDX-License-Identifier: Apache-2.0
#include <tern/hetero/device/kernel_cache.hpp>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <string>
#include <system_error>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <tern/base/log.hpp>
#include <tern/hetero/device/file_descriptor.hpp>
#include <tern/hetero/device/temporary_cache.hpp>
#include <tern/hetero/devices.hpp>

namespace tern::hetero::detail {
namespace {

namespace fs = std::filesystem;

// Read and written as it lies in memory: one of the other byte order has another magic number.
struct header {
  static constexpr std::uint64_t right = 0x316c6e6b6e726574; // "ternknl1"
  std::uint64_t magic = right;
  std::uint64_t key_bytes = 0, bytes = 0;
  std::array<std::uint64_t, 2> checksum{}; // of what follows
};

std::array<std::uint64_t, 2> hash_of(const void* data, std::size_t size) {
  const XXH128_hash_t h = XXH3_128bits(data, size);
  return {h.low64, h.high64};
}

void debug(const std::string& what, const fs::path& file, int why) {
  if (log_enabled(log_level::debug))
    log_debug("compiled kernels are not kept: cannot " + what + " " + file.string() + ": " +
              std::generic_category().message(why));
}

bool read_all(int fd, void* to, std::size_t size) {
  for (auto* at = static_cast<std::byte*>(to); size;) {
    const ssize_t n = ::read(fd, at, size);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    at += n;
    size -= static_cast<std::size_t>(n);
  }
  return true;
}

bool write_all(int fd, const void* from, std::size_t size) {
  for (const auto* at = static_cast<const std::byte*>(from); size;) {
    const ssize_t n = ::write(fd, at, size);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return false;
    at += n;
    size -= static_cast<std::size_t>(n);
  }
  return true;
}

constexpr const char* of_kernels = "kernels"; // the temporary folder's name for them

} // namespace

kernel_cache::kernel_cache(const options& opts) {
  const std::string& given = opts[hetero_cache];
  if (given == "off") return;
  folder_ = given.empty() ? usual_cache() : fs::path(given);
  elsewhere_ = given.empty();
}

fs::path kernel_cache::file_of(const fs::path& folder, std::string_view key) {
  constexpr char digits[] = "0123456789abcdef";
  std::string name;
  for (const std::uint64_t half : hash_of(key.data(), key.size()))
    for (int shift = 60; shift >= 0; shift -= 4) name += digits[half >> shift & 15];
  return folder / (name + ".kernel");
}

std::optional<std::vector<std::byte>> kernel_cache::find(std::string_view key) const {
  auto found = find_in(folder_, key);
  return found || !elsewhere_ ? found : find_in(known_temporary_cache(of_kernels), key);
}

std::optional<std::vector<std::byte>> kernel_cache::find_in(const fs::path& folder, std::string_view key) {
  if (folder.empty()) return {};
  const fs::path file = file_of(folder, key);
  const file_descriptor in(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)); // it might be a pipe
  if (in.fd < 0) {
    if (errno != ENOENT && errno != ENOTDIR) debug("read", file, errno);
    return {};
  }
  struct stat what {};
  if (::fstat(in.fd, &what) != 0 || !S_ISREG(what.st_mode) || what.st_uid != ::geteuid()) return {};

  const auto size = static_cast<std::uint64_t>(what.st_size);
  header h;
  std::vector<std::byte> rest;
  // The size of the file bounds what a damaged header can ask for.
  const bool whole = size >= sizeof h && read_all(in.fd, &h, sizeof h) && h.magic == header::right &&
                     h.key_bytes <= size && h.bytes <= size && sizeof h + h.key_bytes + h.bytes == size &&
                     (rest.resize(size - sizeof h), read_all(in.fd, rest.data(), rest.size())) &&
                     hash_of(rest.data(), rest.size()) == h.checksum;
  if (!whole) {
    if (log_enabled(log_level::debug)) log_debug("not a compiled kernel, and removed: " + file.string());
    ::unlink(file.c_str());
    return {};
  }
  if (std::string_view(reinterpret_cast<const char*>(rest.data()), h.key_bytes) != key) return {}; // the same hash
  rest.erase(rest.begin(), rest.begin() + static_cast<std::ptrdiff_t>(h.key_bytes));
  return rest;
}

void kernel_cache::store(std::string_view key, std::span<const std::byte> bytes) const {
  if (!keeps()) return;
  std::vector<std::byte> all(sizeof(header) + key.size() + bytes.size());
  std::memcpy(all.data() + sizeof(header), key.data(), key.size());
  if (!bytes.empty()) std::memcpy(all.data() + sizeof(header) + key.size(), bytes.data(), bytes.size());
  header h;
  h.key_bytes = key.size();
  h.bytes = bytes.size();
  h.checksum = hash_of(all.data() + sizeof h, all.size() - sizeof h);
  std::memcpy(all.data(), &h, sizeof h);

  std::string why = folder_.empty() ? "neither XDG_CACHE_HOME nor HOME names a folder" : make_folder(folder_);
  fs::path folder = folder_;
  if (!why.empty()) { // it cannot be had: then only this process keeps them, for all its ranks
    if (log_enabled(log_level::debug)) log_debug("compiled kernels are not kept from run to run: " + why);
    if (!elsewhere_) return;
    folder = temporary_cache(of_kernels, why);
    if (folder.empty()) {
      if (log_enabled(log_level::debug)) log_debug("compiled kernels are not kept: " + why);
      return;
    }
  }
  const fs::path file = file_of(folder, key);
  std::string draft = file.string() + ".XXXXXX";
  const file_descriptor out(::mkostemp(draft.data(), O_CLOEXEC));
  if (out.fd < 0) return debug("write into", folder, errno);
  if (!write_all(out.fd, all.data(), all.size()) || ::rename(draft.c_str(), file.c_str()) != 0) {
    debug("write", file, errno);
    ::unlink(draft.c_str());
  }
}

void kernel_cache::remove(std::string_view key) const {
  for (const fs::path& folder : {folder_, elsewhere_ ? known_temporary_cache(of_kernels) : fs::path()})
    if (!folder.empty()) ::unlink(file_of(folder, key).c_str());
}

} // namespace tern::hetero::detail
