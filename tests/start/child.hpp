// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Runs a program as a child, with a deadline after which it and what it started are killed.

#include <map>
#include <string>
#include <vector>

namespace start {

struct ending {
  int code = -1;        ///< exit code, or 128 + signal
  bool in_time = false; ///< it ended by itself
  std::string out, err;
  std::string all() const; ///< everything, for a failing test's message
};

/// The child's environment is this process's without TERN_…, and `environment`. Needs no thread of its own.
ending run(const std::vector<std::string>& command, const std::map<std::string, std::string>& environment,
           double seconds = 10);

int count(const std::string& text, const std::string& part);

} // namespace start
