// SPDX-License-Identifier: Apache-2.0
#include <tern/task/wait/deadline.hpp>

#include <string>

#include <tern/base/log.hpp>

namespace tern {

void detail::report_destroyed(const char* what, const char* state) noexcept {
  try {
    log_error(describe_context(this_context()) + " destroys a tern::" + what + " while " + state);
  } catch (...) {
    log_error("a tern primitive is destroyed while it is in use"); // no memory for more
  }
}

} // namespace tern
