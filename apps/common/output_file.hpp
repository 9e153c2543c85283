// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// A file written through a block. Each failure is an error that names the path and the system's
/// reason.

#include <tern/base/error.hpp>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <fcntl.h>
#include <string>
#include <unistd.h>
#include <vector>

namespace apps {

/// Creates or overwrites a file. All members throw tern::error(io). Without `close` the last block
/// is lost.
class output_file {
public:
  explicit output_file(const std::string& path)
      : path_(path), descriptor_(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666)) {
    if (descriptor_ < 0) fail("cannot create");
  }
  output_file(const output_file&) = delete;
  output_file& operator=(const output_file&) = delete;
  ~output_file() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }

  void put(const void* data, std::size_t size) {
    const char* from = static_cast<const char*>(data);
    while (size > 0) {
      std::size_t part = std::min(size, block_.size() - used_);
      std::memcpy(block_.data() + used_, from, part);
      used_ += part;
      from += part;
      size -= part;
      if (used_ == block_.size()) flush();
    }
  }
  void put(const std::string& text) { put(text.data(), text.size()); }
  template <class T> void put_value(T value) {
    if (block_.size() - used_ < sizeof value) flush();
    std::memcpy(block_.data() + used_, &value, sizeof value);
    used_ += sizeof value;
  }

  /// Writes what is left; errors that the system reports only now (quota, network file systems) are
  /// not lost.
  void close() {
    flush();
    int result = ::close(descriptor_);
    descriptor_ = -1;
    if (result != 0) fail("cannot finish writing");
  }

private:
  void flush() {
    for (std::size_t done = 0; done < used_;) {
      ssize_t n = ::write(descriptor_, block_.data() + done, used_ - done);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) fail("cannot write");
      done += static_cast<std::size_t>(n);
    }
    used_ = 0;
  }
  [[noreturn]] void fail(const char* what) const {
    throw tern::error(tern::errc::io, std::string(what) + " " + path_ + ": " + std::strerror(errno),
                      "check that the directory exists, may be written and has space left");
  }

  std::string path_;
  int descriptor_;
  std::vector<char> block_ = std::vector<char>(std::size_t{1} << 20);
  std::size_t used_ = 0;
};

} // namespace apps
