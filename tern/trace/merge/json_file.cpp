// SPDX-License-Identifier: Apache-2.0
#include <tern/trace/merge/json_file.hpp>

#include <cerrno>
#include <cmath>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <tern/base/error.hpp>

namespace tern::trace::detail {

lines& lines::real(double value) {
  if (!std::isfinite(value)) return *this << "null";
  char digits[40];
  text_.append(digits, std::to_chars(digits, digits + sizeof digits, value).ptr);
  return *this;
}

json_file::json_file(std::string path)
    : path_(std::move(path)), file_(::open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644)) {
  if (file_ < 0) fail("made");
  buffer_.reserve(most);
}

json_file::~json_file() {
  if (file_ >= 0) ::close(file_);
}

void json_file::fail(const char* what) const {
  throw error(errc::io, "the trace " + path_ + " cannot be " + what + ": " + std::generic_category().message(errno),
              "the parts are still there: merge them again with `tern trace`, into another place");
}

void json_file::flush() {
  rlimit limit{}; // beyond which writing would be a SIGXFSZ, which ends the process
  if (::getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
    if (const off_t at = ::lseek(file_, 0, SEEK_CUR);
        at >= 0 && static_cast<rlim_t>(at) + buffer_.size() > limit.rlim_cur) {
      errno = EFBIG;
      fail("written");
    }
  for (std::string_view rest = buffer_; !rest.empty();) {
    const auto n = ::write(file_, rest.data(), rest.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) fail("written");
    rest.remove_prefix(static_cast<std::size_t>(n));
  }
  buffer_.clear();
}

void json_file::finish() {
  flush();
  const int fd = std::exchange(file_, -1);
  if (::close(fd) != 0) fail("written"); // some file systems tell of a full disk only now
}

} // namespace tern::trace::detail
