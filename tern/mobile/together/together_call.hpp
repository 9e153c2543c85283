// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// One function over several objects, of whatever type: what is claimed, and what then runs.
/// Internal; docs/design/claims.md describes the protocol. Events use this too.

#include <array>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <source_location>
#include <span>
#include <string>
#include <vector>

#include <tern/mobile/access/claimed_object.hpp>
#include <tern/net/node.hpp>
#include <tern/task/future.hpp>

namespace tern::mobile::detail {

/// A function, its objects and its arguments. To use it: derive, `add` the objects, the first of
/// which is the main one, and hand it to `start_together`. Its fiber then calls
///  - `run`, if all objects are here; or `post_to`, and then `wait`, if they are on another rank,
///    whose handler has an `arrived_claims`;
///  - `failed`, if F did not run;
///  - `publish`, when all objects have been let go; and last of all `drop`.
/// Threads: one at a time.
class together_call {
public:
  /// \param objects so many will be added. \throws error(invalid_state) if the job has ended.
  together_call(net::node& here, std::size_t objects);
  together_call(const together_call&) = delete;
  together_call& operator=(const together_call&) = delete;

  /// \throws error(invalid_argument) for a null pointer or one that cannot exist in this job.
  void add(object_id id, const type_record& type, bool shared);
  /// In the order of their ids once started, else as added; `claimed_object::place` is where each
  /// was added.
  std::span<const claimed_object> objects() const noexcept { return {first_, count_}; }
  const claimed_object& main() const noexcept;
  /// "'exchange' of object 0:1 (block) together with object 0:2"
  std::string describe() const;

  /// The function's; lives as long as the program.
  virtual const std::string& name() const = 0;
  /// Runs it. \param objects as they were added, each of the type that was given. May throw.
  virtual void run(std::span<void* const> objects) = 0;
  /// Sends it to rank `where`, which has all objects and lets them go. May throw, and then it has
  /// not been sent.
  virtual void post_to(int where, std::span<const claim_name> claims) = 0;
  /// For its end there. Throws what it has thrown, described.
  virtual void wait() = 0;
  virtual void failed(std::exception_ptr why) noexcept = 0;
  virtual void publish() noexcept = 0;
  /// It will not be used any more.
  virtual void drop() noexcept = 0;
  struct goes {
    void operator()(together_call* c) const noexcept { c->end(); }
  };

protected:
  virtual ~together_call();

private:
  friend class claimer;
  friend class claim_table;
  enum class stage : std::uint8_t { claiming, moving, running };
  void end() noexcept;
  std::string report() const;

  std::optional<net::shutdown_guard> open_; // the job's end, and quiesce, wait for it
  net::node& node_;
  std::array<claimed_object, 4> near_;
  std::vector<claimed_object> more_;
  claimed_object* first_; // near, or more
  std::size_t count_ = 0;
  // How far the claimer is.
  future<claim_grant> asked_; // for the one at `next_`
  // Reports look at what follows, under the table's lock once it is entered there.
  std::size_t next_ = 0; // all before it are claimed
  stage at_ = stage::claiming;
  bool entered_ = false;
  together_call *after_ = nullptr, *before_ = nullptr; // in the table
};
using together_ref = std::unique_ptr<together_call, together_call::goes>;

/// Claims the objects, in order, runs the function where they all are, and lets them go. Goes on at
/// once: those that are free here have been claimed when this returns, up to the first that is not.
/// What is then caused counts for the caller's epochs. \throws error(invalid_argument) for an
/// object that was added twice.
void start_together(together_ref call);

/// The same in the calling fiber, which runs no invocation: returns when all objects have been let
/// go. What goes wrong, `failed` is told.
void run_together(together_ref call) noexcept;

/// On the rank that has all objects, in the handler of what `post_to` has sent: lets them go at the
/// end of its life.
class arrived_claims {
public:
  /// The claims of a message that begins with a std::vector<claim_name>, whatever follows it.
  arrived_claims(net::node& here, const net::payload& message);
  ~arrived_claims();
  arrived_claims(const arrived_claims&) = delete;
  arrived_claims& operator=(const arrived_claims&) = delete;
  /// Runs it, as together_call::run. \param main the main object's class. \param others of all
  /// others. \throws error(not_found) if one is of another class.
  /// As together_call::describe.
  std::string describe(const std::string& function, const type_record& main) const;
  template <class Run> void run(const type_record& main, const type_record& others, Run&& body) {
    struct adapter final : claimed_body {
      explicit adapter(Run& b) noexcept : what(b) {}
      void run(std::span<void* const> objects) override { what(objects); }
      Run& what;
    } what(body);
    run_body(main, others, what);
  }

private:
  void run_body(const type_record& main, const type_record& others, claimed_body& body);
  net::node& node_;
  std::vector<claimed_object> objects_;
};

/// Why the calling fiber must not wait for the end of a function over these objects, if it must
/// not. \throws error(deadlock) in an invocation of one of them that has not released its access.
void expect_claims(std::span<const object_id> objects, const std::string& name, const std::source_location& made);

} // namespace tern::mobile::detail
