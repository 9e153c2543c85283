// SPDX-License-Identifier: Apache-2.0
#include <tern/hetero/models/model_file.hpp>

#include <array>
#include <cerrno>
#include <chrono>
#include <exception>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <tern/base/error.hpp>
#include <tern/base/log.hpp>
#include <tern/hetero/device/file_descriptor.hpp>
#include <tern/hetero/device/temporary_cache.hpp>
#include <tern/hetero/devices.hpp>
#include <tern/hetero/models/model_text.hpp>

namespace tern::hetero {

const option<std::string> hetero_models{
    "hetero-models", "",
    "the folder where times of kernels and copies are kept from run to run, in a file for each host; empty: "
    "$XDG_CACHE_HOME/tern/models or ~/.cache/tern/models; read or read:FOLDER: they are not stored; off: there are "
    "none"};

namespace detail {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void refuse(const std::string& what, const fs::path& file, int why) {
  throw error(errc::io, "cannot " + what + " " + file.string() + ": " + std::generic_category().message(why),
              "name another folder by --tern-hetero-models, or give off");
}

std::string read_whole(const fs::path& path) {
  const file_descriptor in(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)); // it might be a pipe
  if (in.fd < 0 && errno == ENOENT) return {};
  if (in.fd < 0) refuse("read", path, errno);
  struct stat what {};
  if (::fstat(in.fd, &what) != 0) refuse("read", path, errno);
  if (!S_ISREG(what.st_mode)) refuse("read", path, S_ISDIR(what.st_mode) ? EISDIR : EINVAL);
  if (static_cast<std::uintmax_t>(what.st_size) > model_file::bytes_most) refuse("read", path, EFBIG);
  std::string text(static_cast<std::size_t>(what.st_size), '\0');
  std::size_t size = 0;
  while (size < text.size()) {
    const ssize_t n = ::read(in.fd, text.data() + size, text.size() - size);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) refuse("read", path, errno);
    if (n == 0) break;
    size += static_cast<std::size_t>(n);
  }
  text.resize(size);
  return text;
}

std::string what_of(const std::exception& e) {
  const auto* const ours = dynamic_cast<const error*>(&e);
  return ours ? ours->message() : e.what();
}

} // namespace

std::int64_t date_now() noexcept {
  // address: dates decide only what has expired; simulations neither read nor write files
  const auto since = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::seconds>(since).count();
}

std::string host_name() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0 || name[0] == '\0') return "host";
  std::string text = name.data();
  for (char& c : text)
    if (c == '/') c = '_';
  return text;
}

model_file::model_file(fs::path folder, access how, const std::string& host)
    : folder_(std::move(folder)), how_(folder_.empty() ? access::none : how) {
  if (how_ == access::none) return;
  path_ = folder_ / (host + ".models");
  lock_ = folder_ / (host + ".lock");
  draft_ = folder_ / (host + ".draft");
}

model_file::model_file(const options& opts) {
  std::string given = opts[hetero_models];
  if (given == "off") return;
  constexpr std::string_view read_only = "read";
  access how = access::write;
  if (only_reads(given)) {
    how = access::read;
    given.erase(0, read_only.size() + (given.size() > read_only.size() ? 1 : 0));
  }
  fs::path folder = given;
  if (given.empty() && !usual_cache().empty()) folder = usual_cache() / "models";
  *this = model_file(std::move(folder), how);
  usual_ = given.empty();
}

void model_file::tell_once(bool& told, const std::string& what) const noexcept {
  if (!std::exchange(told, true)) log_warning(what);
}

// Reading -------------------------------------------------------------------------------------------------------------

model_set model_file::read(std::int64_t date) {
  if (how_ == access::none) return {};
  parsed_models all = parse_models(read_whole(path_));
  if (all.first == parsed_models::header::other_version)
    tell_once(told_header_,
              path_.string() + ":1: these performance models are of another version of Tern, and not used");
  if (all.first == parsed_models::header::damaged)
    tell_once(told_header_, path_.string() + ":1: this line is damaged: the performance models are not used");
  if (const std::size_t n = all.wrong_lines.size(); n > 0)
    tell_once(told_lines_, path_.string() + ":" + std::to_string(all.wrong_lines.front()) +
                               ": this line is damaged, and skipped" +
                               (n > 1 ? " (" + std::to_string(n) + " such lines in all)" : ""));
  all.models.expire(date);
  return std::move(all.models);
}

model_set model_file::load(std::int64_t date) noexcept {
  try {
    return read(date);
  } catch (const std::exception& e) {
    tell_once(told_read_, "performance models of earlier runs are not used: " + what_of(e));
  }
  return {};
}

// Writing -------------------------------------------------------------------------------------------------------------

// \return whether it had the lock. \throws what `inside` throws, error(io).
bool model_file::locked(const std::function<void()>& inside, bool wait) {
  if (const std::string why = make_folder(folder_); !why.empty())
    throw error(errc::io, why, "name another folder by --tern-hetero-models, or give off");
  const file_descriptor lock(::open(lock_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, S_IRUSR | S_IWUSR));
  if (lock.fd < 0) refuse("write", lock_, errno);
  while (::flock(lock.fd, LOCK_EX | (wait ? 0 : LOCK_NB)) != 0) {
    if (errno == EWOULDBLOCK) return false;
    if (errno != EINTR) refuse("lock", lock_, errno);
  }
  inside();
  return true;
}

// \pre the lock is held.
void model_file::put_aside() {
  for (int n = 1; n <= kept_aside_most; ++n) {
    const fs::path kept = path_.string() + ".kept-" + std::to_string(n);
    struct stat there {};
    if (::lstat(kept.c_str(), &there) == 0) continue;
    if (::rename(path_.c_str(), kept.c_str()) != 0) refuse("rename", path_, errno);
    log_warning("the performance models in " + path_.string() + " cannot be used, and were renamed to " +
                kept.string());
    return;
  }
  throw error(errc::io,
              "the performance models in " + path_.string() + " cannot be used, and there are " +
                  std::to_string(kept_aside_most) + " files .kept-1, … beside it already",
              "remove what is not needed");
}

// \pre the lock is held.
model_set model_file::read_to_replace(std::int64_t date) {
  const parsed_models all = parse_models(read_whole(path_));
  if (all.first == parsed_models::header::other_version || all.first == parsed_models::header::damaged) put_aside();
  return read(date);
}

// \pre the lock is held, so the draft is this process's.
void model_file::write(const model_set& models) const {
  const std::string text = text_of(models);
  const file_descriptor out(
      ::open(draft_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, S_IRUSR | S_IWUSR));
  if (out.fd < 0) refuse("write", draft_, errno);
  for (std::size_t at = 0; at < text.size();) {
    const ssize_t n = ::write(out.fd, text.data() + at, text.size() - at);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      const int why = n < 0 ? errno : ENOSPC;
      ::unlink(draft_.c_str());
      refuse("write", draft_, why);
    }
    at += static_cast<std::size_t>(n);
  }
  if (::rename(draft_.c_str(), path_.c_str()) != 0) {
    const int why = errno;
    ::unlink(draft_.c_str());
    refuse("write", path_, why);
  }
}

bool model_file::store(const std::function<model_set()>& take_fresh, std::int64_t date, bool wait) noexcept {
  if (how_ != access::write) return false;
  if (usual_) {
    if (const std::string why = make_folder(folder_); !why.empty()) {
      log_debug("performance models are not kept from run to run: " + why);
      return false;
    }
  }
  try {
    return locked(
        [&] {
          model_set all = read_to_replace(date);
          all.merge_fresh(take_fresh());
          all.expire(date);
          write(all);
        },
        wait);
  } catch (const std::exception& e) {
    tell_once(told_write_, "performance models are not stored: " + what_of(e));
  }
  return false;
}

void model_file::change(const std::function<void(model_set&)>& how, std::int64_t date) {
  if (how_ != access::write)
    throw error(errc::invalid_state,
                how_ == access::none ? "there is no file of performance models"
                                     : "the performance models in " + path_.string() + " are not to be written",
                "name a folder by --tern-hetero-models");
  locked(
      [&] {
        model_set all = read_to_replace(date);
        how(all);
        write(all);
      },
      true);
}

} // namespace detail
} // namespace tern::hetero
