// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Drives the sides of a benchmark, which are programs of their own (serve.hpp): starts them, asks them in turn, and
/// keeps those that are not asked from using a core.

#include "bench/harness.hpp"

#include <chrono>
#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include <sys/types.h>

namespace tern::bench::sides {

/// A program that measures one benchmark with one runtime, and what is needed to build it.
struct side {
  std::string name;
  std::string path; ///< empty if it was not built
  std::string needs;
  std::string setting; ///< in the environment, lines of NAME=VALUE; "" if none
};

/// Thrown when a side does not answer in time.
struct too_slow : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// One running side. Between two questions it is stopped (SIGSTOP), each side alike: a team of OpenMP threads spins for
/// up to 0.2 s after its last work, in which others are measured. Asking it to sleep at once instead
/// (OMP_WAIT_POLICY=passive, KMP_BLOCKTIME=0) would make it slower where it is measured itself.
class child {
public:
  /// \throws absent if there is no such program, or it says so; std::runtime_error if it cannot be started or set up.
  child(const side& s, const std::string& benchmark, int workers, std::size_t size,
        std::chrono::seconds patience = std::chrono::seconds(600));
  ~child() { end(); }
  child(const child&) = delete;
  child& operator=(const child&) = delete;
  /// One measurement, in seconds. \throws std::runtime_error for a wrong result, or if it ended; too_slow.
  double ask();

private:
  std::string line();
  [[noreturn]] void gone();
  [[noreturn]] void refused(const std::string& answer);
  void stop();
  int end() noexcept;

  std::string what_;
  std::chrono::seconds patience_;
  pid_t pid_ = -1;
  int to_ = -1, from_ = -1;
  std::string read_;
};

/// What a side is asked.
struct question {
  std::string side, benchmark;
  int workers;
  std::size_t size;
  auto operator<=>(const question&) const = default;
};

/// The children of the metric that is being measured; those of the last one end when the next begins.
class children {
public:
  /// \param lookup gives the side that a question names.
  explicit children(const side& (*lookup)(const std::string&)) : named_(lookup) {}
  const side& named(const std::string& name) const { return named_(name); }
  double ask(const std::string& metric, const question& q);

private:
  const side& (*named_)(const std::string&);
  std::string metric_;
  std::map<question, std::unique_ptr<child>> running_;
};

/// Who else can do it: sides, and for each what the benchmark is called there ("" is as ours).
struct rival {
  std::string side, benchmark;
};

struct comparison {
  std::string name;
  std::optional<double> target;
  std::string benchmark;
  int workers;
  std::size_t size;
  std::vector<rival> rivals;
};

/// The side "tern" in ms against the fastest of the rivals that are there, all of them measured each time.
metric compare(children& running, comparison c);

} // namespace tern::bench::sides
