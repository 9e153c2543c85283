// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Tasks that a program submits again and again, a time step say, placed ahead over all devices:
///
///     tern::planned step("step");
///     for (int i = 0; i < 1000; ++i)
///       step.submit([&] {
///         for (int k = 0; k < n; ++k) tern::submit(factor, shape, tern::read_write(tile[k])); // and so on
///       });
///
/// A policy places a task when it becomes ready, by what it sees at that moment. A plan sees all of
/// them: which are on the longest way to the end, and which device is better kept for another. It
/// is made once the times of all kernels are known (docs/concepts/devices.md), and kept while the
/// same tasks come with the same data.
///
/// Source: HEFT (Topcuoglu, Hariri, Wu 2002).

#include <tern/base/language/compiler.hpp>

#include <memory>
#include <utility>

namespace tern {

namespace hetero::detail {
struct plan_memo;
class planned_collector;
/// Between the two, `tern::submit` in this fiber gives its tasks to the collector.
class planning {
public:
  explicit planning(std::shared_ptr<plan_memo> of);
  ~planning(); ///< tasks that have not been submitted go
  planning(const planning&) = delete;
  planning& operator=(const planning&) = delete;
  void submit();

private:
  std::unique_ptr<planned_collector> made_;
};
} // namespace hetero::detail

/// Threads: as hetero_task; one object in one fiber at a time.
class planned {
public:
  /// \param name for errors and the log; lives as long as the program.
  explicit planned(const char* name = "planned tasks");

  /// Calls `f`, and submits the tasks that it submits by `tern::submit`, each as by itself, but to
  /// the device that the plan says, those on the longest way to the end first. Results are those of
  /// the tasks by themselves. Returns at once.
  ///
  /// The first round goes by the policy (`hetero-policy`), and so do all until a time is known for
  /// each task on some device: those of functions never are. Of plan and policy the one stays under
  /// which a round took less time; every 16th round tries the other one, with a plan that is made
  /// anew. Rounds that differ in tasks, data or sizes have plans of their own kind: the last one is
  /// kept. A task whose device is lost runs elsewhere.
  /// \throws what `f` throws: then nothing has been submitted. error(invalid_state) if `f` waits,
  /// submits tasks with a handle (hetero_task) or asks for access to an object.
  /// error(unsupported) for reductions.
  template <class F> void submit(F&& f) {
    hetero::detail::planning p(memo_);
    std::forward<F>(f)();
    p.submit();
  }

private:
  std::shared_ptr<hetero::detail::plan_memo> memo_;
};

} // namespace tern
