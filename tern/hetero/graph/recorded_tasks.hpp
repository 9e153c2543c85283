// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Tasks that are submitted together as one (recorded.hpp). Internal.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <tern/hetero/record/task_record.hpp>
#include <tern/task/scheduler/scheduler_core.hpp>

namespace tern::hetero::detail {

class runtime;

/// What tasks of a sequence have in common with those of the round before: then the rest is the
/// same as well.
struct sequence_shape {
  struct used {
    std::uint64_t object;
    box part;
    access_mode how;
    bool operator==(const used&) const = default;
  };
  std::vector<const work_type*> works;
  std::vector<std::uint8_t> counts; ///< of uses
  std::vector<used> uses;
  bool operator==(const sequence_shape&) const = default;
};

class host_graphs;

/// Made once for a shape.
struct sequence_plan {
  sequence_shape shape;
  struct together {
    object_state* object;
    box part;
    access_mode how;
  };
  std::vector<together> uses;      ///< of the whole sequence
  std::vector<std::uint8_t> which; ///< of them, for each use of each task
  /// Task i comes after those of `before` from `begins[i]` to `begins[i + 1]`.
  std::vector<std::uint32_t> before, begins;
  std::shared_ptr<host_graphs> on_host; ///< null: each task comes after the one before it
};
/// \param name for errors. \throws error(invalid_argument) for more uses than a task can have.
std::shared_ptr<const sequence_plan> plan_of(sequence_shape shape, const std::vector<task_record*>& tasks,
                                             const char* name);

/// What a `tern::recorded` knows from round to round. By its fiber only.
struct sequence_memo {
  const char* name;
  std::uint64_t number; ///< no other has it
  std::optional<device_kind> kind;
  std::string device; ///< empty: any
  std::shared_ptr<const sequence_plan> plan;
};

/// Takes tasks of one fiber in the place of the runtime. By that fiber.
class collector {
public:
  /// \param what takes them, for errors: "recorded::submit".
  collector(runtime& home, const char* what, const char* name);
  virtual ~collector();
  collector(const collector&) = delete;
  collector& operator=(const collector&) = delete;
  /// \return false: not of this fiber. \throws as `recorded::submit`; then `t` is still the
  /// caller's.
  bool take(task_record* t);

protected:
  /// No more are taken. \throws error(invalid_state) if the fiber has waited meanwhile.
  void end();
  /// All of them, one by one. \param prepare called with each before that.
  template <class F> void submit_each(F&& prepare) {
    while (next_ < tasks_.size()) {
      prepare(*tasks_[next_]);
      submit_next();
    }
  }
  /// How many of `tasks_` have been submitted.
  std::size_t submitted() const noexcept { return next_; }
  /// The next of them; counted only if it does not throw.
  void submit_next();

  runtime& home_;
  const char* const what_;
  const char* const name_;
  std::vector<task_record*> tasks_;

private:
  std::atomic<collector*>& place_; ///< where it is found by this worker
  tern::detail::fiber* const of_;
  const tern::detail::leave_watch watch_;
  std::size_t next_ = 0; ///< of `tasks_`: those before it have been submitted
};

/// Makes one task of them.
class sequence_collector final : public collector {
public:
  sequence_collector(runtime& home, std::shared_ptr<sequence_memo> memo);
  /// All together.
  void submit();

private:
  /// Can each task use its part in the memory that all have together, on all devices where they may
  /// run?
  bool fit_together(device_kinds kinds) const noexcept;
  const std::shared_ptr<sequence_memo> memo_;
};

} // namespace tern::hetero::detail
