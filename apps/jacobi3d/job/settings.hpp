// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What the user asked for on the command line.

#include "apps/common/command_line.hpp"
#include "apps/jacobi3d/grid/problem.hpp"
#include "apps/jacobi3d/job/plan.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace jacobi3d {

struct settings {
  cells n{64, 64, 64}, blocks{2, 2, 2};
  std::int64_t iterations = 100, norm_every = 10, depth = 1, ahead = 8, balance_every = 0;
  double alpha = 0.25, tolerance = 0;
  bool single = false; ///< float in the place of double
  std::string on = "host";
  std::string out, json;
  bool pictures = true, vti = true, verify = false, quiet = false;

  plan make_plan() const;
};

struct command_line : apps::command_line_end {
  settings wanted;
};

/// Reads and checks the command line (Tern's own options removed). \throws
/// tern::error(invalid_argument) for impossible values.
command_line parse_command_line(int argc, const char* const* argv);

/// A command line to which Tern's options have been added that `--on` means, unless they are there
/// already: which devices are looked for, and no `a * b + c` with one rounding.
class device_line {
public:
  device_line(int argc, char** argv);
  device_line(const device_line&) = delete;
  device_line& operator=(const device_line&) = delete;
  /// tern::run takes its own options out.
  int& count() noexcept { return count_; }
  char** words() noexcept { return line_.data(); }

private:
  void add(const std::string& option, const std::string& value);
  std::vector<std::string> words_;
  std::vector<char*> line_;
  int count_ = 0;
};

} // namespace jacobi3d
