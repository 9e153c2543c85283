// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Runs the contestants of a benchmark, which are programs of their own (contestant.hpp): starts
/// them, has them measure in turn, and keeps the others from using a core meanwhile.

#include "bench/harness/harness.hpp"

#include <chrono>
#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include <sys/types.h>

namespace tern::bench::contest {

/// A program that measures one benchmark with one runtime, and what is needed to build it.
struct contestant {
  std::string name;
  std::string path; ///< empty if it was not built
  std::string needs;
  std::string setting; ///< in the environment, lines of NAME=VALUE; "" if none
};

/// Thrown when a contestant does not answer in time.
struct too_slow : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Runs one contestant. Between two measurements the contestant is stopped (SIGSTOP), each
/// contestant alike: a team of OpenMP threads spins for up to 0.2 s after its last work, in which
/// others are measured. Making it sleep at once instead (OMP_WAIT_POLICY=passive, KMP_BLOCKTIME=0)
/// would make it slower where it is measured itself.
class runner {
public:
  /// \throws absent if there is no such program, or it says so; std::runtime_error if it cannot be
  /// started or set up.
  runner(const contestant& s, const std::string& benchmark, int workers, std::size_t size,
         std::chrono::seconds patience = std::chrono::seconds(600));
  ~runner() { end(); }
  runner(const runner&) = delete;
  runner& operator=(const runner&) = delete;
  /// One measurement, in seconds. \throws std::runtime_error for a wrong result, or if it ended;
  /// too_slow.
  double run();

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

/// What a contestant is to measure.
struct request {
  std::string contestant, benchmark;
  int workers;
  std::size_t size;
  auto operator<=>(const request&) const = default;
};

/// The runners of the metric that is being measured; those of the last one end when the next
/// begins.
class runners {
public:
  /// \param lookup gives the contestant that a request names.
  explicit runners(const contestant& (*lookup)(const std::string&)) : named_(lookup) {}
  const contestant& named(const std::string& name) const { return named_(name); }
  double run(const std::string& metric, const request& q);
  /// The same with a process that is used once: memory or stacks that were used before would be a
  /// head start.
  double run_afresh(const request& q);

private:
  const contestant& (*named_)(const std::string&);
  std::string metric_;
  std::map<request, std::unique_ptr<runner>> running_;
};

/// A contestant that runs the same benchmark, and the benchmark's name there ("" is the same name
/// as ours).
struct rival {
  std::string contestant, benchmark;
};

struct comparison {
  std::string name;
  std::optional<double> target;
  std::string benchmark;
  int workers;
  std::size_t size;
  std::vector<rival> rivals;
};

/// The contestant "tern" in ms against the fastest of the rivals that are there, all of them
/// measured each time.
metric compare(runners& running, comparison c);

} // namespace tern::bench::contest
