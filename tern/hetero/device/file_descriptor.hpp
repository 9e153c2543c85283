// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// An open file of the kernel's. Internal.

#include <unistd.h>

namespace tern::hetero::detail {

/// Closes its file, if it has one.
struct file_descriptor {
  explicit file_descriptor(int f) noexcept : fd(f) {}
  ~file_descriptor() {
    if (fd >= 0) ::close(fd);
  }
  file_descriptor(const file_descriptor&) = delete;
  file_descriptor& operator=(const file_descriptor&) = delete;
  int fd; ///< below 0: none
};

} // namespace tern::hetero::detail
