// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Which transports a program has. Each is an object of a class of its own, which the runtime asks
/// when a program starts: so the runtime names none of them, and a program may bring one that Tern
/// does not have.
///
///     class pipes final : public tern::net::transport_kind {
///     public:
///       pipes() : transport_kind({.name = "pipes", .what = "through pipes between processes"}) {}
///       int run(tern::net::job_start& job, tern::net::rank_runner run_ranks) const override {
///         return run_ranks(job, ends_of_pipes(job.ranks));
///       }
///     };
///     const pipes the_pipes; // a static object: now TERN_TRANSPORT=pipes works
///
/// README.md of this folder says what a transport must keep; tests/net/pipes/ is a whole one.

#include <tern/base/language/compiler.hpp>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <tern/net/transport.hpp>

namespace tern {
class options;
}

namespace tern::net {

class transport_kind;

/// A job that is about to start in this process.
struct job_start {
  const options& opts;
  int& argc;
  char** argv;
  const std::function<int()>& main; ///< what each rank runs
  const transport_kind& kind;       ///< that was chosen
  const std::string& word;          ///< the option `transport`
  int ranks = 1;                    ///< the option `ranks`
  /// Worker threads of each rank; 0: as many as the rank has CPUs to itself, once ranks know of
  /// each other. A kind that must know it before may decide it.
  int workers = 0;
  bool polls_apart = false; ///< each rank has one thread more, for messages
};

/// Runs ranks: those whose ends of the network are in this process, either one, or all of the job,
/// each in a thread of its own. Each process of a job calls it once; it returns when the job has
/// ended. \return the job's exit code.
/// \throws error(invalid_state) for any other number of ends.
using rank_runner = int (*)(job_start& job, std::vector<std::unique_ptr<transport>> ends);

/// A kind of transport. Requires: a static object, made before `tern::run` and never destroyed
/// before it has returned. Guarantees: `run` is called once for each job for which this kind was
/// chosen. Threads: the one that calls `tern::run`.
class transport_kind {
public:
  struct description {
    std::string name;      ///< of the option `transport`
    std::string what;      ///< completes "how ranks reach each other: …", for the help
    std::string words;     ///< what else the option may be, for the help: "sim:WORD=VALUE,…"
    std::string automatic; ///< completes "auto: NAME …", for the help: "under an MPI launcher"; empty: else
    int preference = 0;    ///< `auto` asks those of a greater one first; 0: never
  };
  explicit transport_kind(description d);
  virtual ~transport_kind();
  transport_kind(const transport_kind&) = delete;
  transport_kind& operator=(const transport_kind&) = delete;

  const description& about() const noexcept { return about_; }
  const std::string& name() const noexcept { return about_.name; }
  /// Is this value of the option `transport` one for this kind?
  virtual bool accepts(std::string_view word) const { return word == name(); }
  /// Does `auto` take this kind, as no other of a greater preference does?
  virtual bool suits(const options& opts) const;
  /// Runs the job: makes ends and calls `run_ranks`. \throws error, which tells why this process
  /// cannot start.
  virtual int run(job_start& job, rank_runner run_ranks) const = 0;

  /// A launcher that has started this process together with others.
  struct launch {
    std::string by; ///< "an MPI launcher"
    int rank = 0, size = 1;
  };
  /// What this kind's launcher says in the environment. Asked before anything starts, so that what
  /// concerns all ranks is said once and not by each.
  virtual std::optional<launch> launched() const { return std::nullopt; }
  /// This process cannot start, and others may wait for it: ends them. \param tell says why; called
  /// by one process.
  /// \return false if no others wait, and `tell` was not called.
  virtual bool refuse(int& argc, char** argv, const std::function<void()>& tell) const;
  /// Are the ranks simulated?
  virtual bool simulates() const noexcept { return false; }

private:
  const description about_;
};

/// All kinds that there are by now, by name. Any thread, while none is made.
std::vector<const transport_kind*> transport_kinds();

} // namespace tern::net
