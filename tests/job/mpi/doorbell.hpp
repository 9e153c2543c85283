// SPDX-License-Identifier: Apache-2.0
/// \file
/// One process of this host wakes another without the transport that the test is about, so that "it
/// receives nothing until I say so" needs no time limit that a busy machine breaks.
#pragma once

#include <cerrno>
#include <chrono>
#include <string>
#include <system_error>

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

namespace tern::test {

/// Owned by the process that waits; any process of the same user may ring it by its name.
class doorbell {
public:
  doorbell() {
    if (pipe2(ends_, O_CLOEXEC | O_NONBLOCK) != 0) throw std::system_error(errno, std::generic_category(), "pipe2");
  }
  doorbell(const doorbell&) = delete;
  doorbell& operator=(const doorbell&) = delete;
  ~doorbell() {
    close(ends_[0]);
    close(ends_[1]);
  }

  [[nodiscard]] std::string name() const {
    return "/proc/" + std::to_string(getpid()) + "/fd/" + std::to_string(ends_[1]);
  }

  /// Whether it was rung since the last time, within `limit`. Blocks the thread; touches nothing
  /// else.
  bool wait(std::chrono::milliseconds limit) {
    pollfd one{ends_[0], POLLIN, 0};
    const auto end = std::chrono::steady_clock::now() + limit;
    for (;;) {
      const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
      const int n = poll(&one, 1, left.count() > 0 ? static_cast<int>(left.count()) : 0);
      if (n == 0) return false;
      if (n < 0 && errno == EINTR) continue; // a profiler's or an MPI library's signal
      char rung = 0;
      return n > 0 && read(ends_[0], &rung, 1) == 1;
    }
  }

  static void ring(const std::string& name) {
    const int fd = open(name.c_str(), O_WRONLY | O_CLOEXEC);
    if (fd < 0 || write(fd, "!", 1) != 1) throw std::system_error(errno, std::generic_category(), name);
    close(fd);
  }

private:
  int ends_[2] = {-1, -1};
};

} // namespace tern::test
