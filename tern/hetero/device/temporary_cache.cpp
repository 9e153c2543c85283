// SPDX-License-Identifier: Apache-2.0
#include <tern/hetero/device/temporary_cache.hpp>

#include <cerrno>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <system_error>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

namespace tern::hetero::detail {
namespace {

namespace fs = std::filesystem;

constexpr const char* prefix = "tern-cache-of-";

// A process holds the lock on its folder until it ends, so a folder with a free lock belongs to no
// process. The process that made the folder removes it when it ends; its forked children do not.
struct own_folder {
  fs::path path;
  pid_t process = 0;
  int lock = -1; // never closed: the kernel lets go of it
};
constinit std::mutex guard;
own_folder* made = nullptr; // under the guard; never destroyed: runtimes may end later than static objects

std::string name_of_access(int number) { return std::generic_category().message(number); }

std::string my_prefix() { return prefix + std::to_string(::geteuid()) + "-"; }

// \return a descriptor that holds the folder's lock; negative: another process does, or it is none
// of ours.
int locked(const fs::path& folder) {
  const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0) return fd;
  struct stat opened {
  }, now{};
  if (::fstat(fd, &opened) == 0 && opened.st_uid == ::geteuid() && ::flock(fd, LOCK_EX | LOCK_NB) == 0 &&
      ::lstat(folder.c_str(), &now) == 0 && now.st_ino == opened.st_ino && now.st_dev == opened.st_dev)
    return fd;
  ::close(fd);
  return -1;
}

void remove_those_of_the_dead(const fs::path& top) {
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(top, ignored)) {
    if (!entry.path().filename().string().starts_with(my_prefix())) continue;
    const int fd = locked(entry.path());
    if (fd < 0) continue;
    fs::remove_all(entry.path(), ignored);
    ::close(fd);
  }
}

void remove_ours() {
  const std::lock_guard hold(guard);
  if (!made || made->process != ::getpid()) return;
  std::error_code ignored; // there is no place left to report it
  fs::remove_all(made->path, ignored);
}

} // namespace

fs::path usual_cache() {
  if (const char* const cache = std::getenv("XDG_CACHE_HOME"); cache && *cache == '/') return fs::path(cache) / "tern";
  if (const char* const home = std::getenv("HOME"); home && *home == '/') return fs::path(home) / ".cache" / "tern";
  return {};
}

std::string make_folder(const fs::path& folder) {
  fs::path so_far;
  for (const fs::path& part : folder) {
    so_far /= part;
    if (::mkdir(so_far.c_str(), S_IRWXU) == 0 || errno == EEXIST) continue;
    const int why = errno;
    struct stat there {};
    if (::stat(so_far.c_str(), &there) == 0) continue; // the file system is read-only, but has it
    return so_far.string() + " cannot be made: " + name_of_access(why);
  }
  if (::access(folder.c_str(), W_OK | X_OK) == 0) return {};
  return folder.string() + " cannot be written: " + name_of_access(errno);
}

fs::path temporary_cache(const std::string& what, std::string& why) {
  const std::lock_guard hold(guard);
  std::error_code failed;
  if (!made) {
    const fs::path top = fs::temp_directory_path(failed); // TMPDIR and the like
    if (failed) {
      why = "there is no folder for temporary files (TMPDIR): " + failed.message();
      return {};
    }
    remove_those_of_the_dead(top);
    auto fresh = std::make_unique<own_folder>();
    for (int tries = 0; fresh->lock < 0 && tries < 10;
         ++tries) { // a process that tidies up may take it for a dead one's
      std::string name = (top / (my_prefix() + "XXXXXX")).string();
      if (!::mkdtemp(name.data())) {
        why = "no folder can be made in " + top.string() + ": " + name_of_access(errno);
        return {};
      }
      fresh->path = name;
      fresh->lock = locked(name);
    }
    fresh->process = ::getpid();
    made = fresh.release();
    static_cast<void>(std::atexit(remove_ours)); // else the next process does it
    static_cast<void>(std::at_quick_exit(remove_ours));
  }
  fs::path folder = made->path / what;
  if (std::string bad = make_folder(folder); !bad.empty()) {
    why = std::move(bad);
    return {};
  }
  return folder;
}

fs::path known_temporary_cache(const std::string& what) {
  const std::lock_guard hold(guard);
  return made ? made->path / what : fs::path();
}

} // namespace tern::hetero::detail
