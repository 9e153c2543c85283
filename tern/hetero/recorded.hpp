// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Sequences of small tasks that a program submits again and again, a time step say, as one task
/// for one device:
///
///     tern::recorded step("step");
///     for (int i = 0; i < 1000; ++i)
///       step.submit([&] {
///         tern::submit(heat::flux, tern::items(n, n), n, tern::read(u), tern::write(f));
///         tern::submit(heat::update, tern::items(n, n), n, tern::read(f), tern::read_write(u));
///       });
///
/// They cost one placement, one set of dependencies and one completion together. On CUDA the second
/// and every further round is a CUDA graph, which is made anew only when other kernels are in it,
/// or other data; where the driver has no such graphs, and on other devices, kernels are launched
/// one after the other. On the host, those that have nothing to do with each other run at once, as
/// a task_graph; if one of them is a function, that is where all run. Results are those of the
/// tasks by themselves. (As Legion's traces and StarPU's recursive tasks; CUDA Driver API, "Graph
/// Management".)

#include <memory>
#include <string_view>
#include <utility>

#include <tern/hetero/devices.hpp>

namespace tern {

namespace hetero::detail {
struct sequence_memo;
class sequence_collector;
/// Between the two, `tern::submit` in this fiber gives its tasks to the collector.
class collecting {
public:
  explicit collecting(std::shared_ptr<sequence_memo> of);
  ~collecting(); ///< tasks that have not been submitted go
  collecting(const collecting&) = delete;
  collecting& operator=(const collecting&) = delete;
  void submit();

private:
  std::unique_ptr<sequence_collector> made_;
};
} // namespace hetero::detail

/// Threads: as hetero_task; one object in one fiber at a time.
class recorded {
public:
  /// \param name for traces and errors; lives as long as the program.
  explicit recorded(const char* name = "recorded tasks");
  /// Only this kind of device, or this device, from now on. \throws as hetero_task::on, when it is
  /// submitted.
  recorded& on(hetero::device_kind kind);
  recorded& on(std::string_view device);

  /// Calls `f`, and submits the tasks that it submits by `tern::submit` as one. It uses what they
  /// use; of an object that several of them use in parts that overlap, the smallest box that
  /// contains these. Returns at once.
  ///
  /// If one of them fails, all do, with its error. Where a device takes only addresses that are
  /// multiples of something (OpenCL), and a part that lies in a larger one does not begin at one,
  /// they are submitted one by one instead.
  /// \throws what `f` throws: then nothing has been submitted. error(invalid_argument) if the tasks
  /// have no device in common on which all can run, or use more than 255 objects together.
  /// error(invalid_state) if `f` waits, submits tasks with a handle (hetero_task) or asks for
  /// access to an object. error(unsupported) for reductions.
  template <class F> void submit(F&& f) {
    hetero::detail::collecting c(memo_);
    std::forward<F>(f)();
    c.submit();
  }

private:
  std::shared_ptr<hetero::detail::sequence_memo> memo_;
};

} // namespace tern
