// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What a device does, for the trace. Internal.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <tern/hetero/device/device.hpp>
#include <tern/trace/trace.hpp>

namespace tern::hetero::detail {

struct task_record;
struct transfer;

/// A track for each of a device's streams, also the waiting one, and a curve of the memory held on
/// it. A stream works off one thing after the other, so on its track things stand side by side:
/// each from when it was put there, or, if that is later, from when what was before it in the
/// stream had ended. Ends are when the worker noticed. Nothing here does anything but while a trace
/// is recorded: a load and a branch. What was begun before the recording is not in it.
///
/// Threads: the device worker's alone, as the device.
class device_tracks {
public:
  /// \param number of the device, in its rank; \param id what tracks begin with; \param streams as
  /// of the device.
  device_tracks(int rank, std::size_t number, const std::string& id, int streams);

  /// Call these before the device gets it, which may then do it at once. \param count of tasks in
  /// the same launch. \param predicted gives how many seconds it is expected to take, if that is
  /// known; called while a trace is recorded.
  template <class F> void begins(int stream, const task_record& t, std::size_t count, F&& predicted) noexcept {
    if (trace::on()) [[unlikely]]
      begin_kernel(stream, t, count, predicted());
  }
  void begins(int stream, const transfer& x, const copy_request& what) noexcept {
    if (trace::on()) [[unlikely]]
      begin_copy(stream, x, what);
  }
  /// A task or a transfer is over, however that was. Nothing happens if it had not begun.
  void ends(const void* what, bool failed) noexcept {
    if (trace::on()) [[unlikely]]
      end(what, failed);
  }
  void holds(std::int64_t bytes) noexcept {
    if (trace::on()) [[unlikely]]
      count(bytes);
  }

private:
  struct entry {
    const void* what = nullptr; // told apart by it, never followed; null: over
    std::uint32_t name = 0, of = 0;
    std::uint64_t bytes = 0, predicted = 0; // nanoseconds
    bool copies = false, failed = false;
  };
  struct lane { // of a stream
    std::string name;
    std::uint32_t track = 0;
    std::vector<entry> under_way; // of which the first is what the stream is at
  };

  void begin_kernel(int stream, const task_record& t, std::size_t count, std::optional<double> predicted) noexcept;
  void begin_copy(int stream, const transfer& x, const copy_request& what) noexcept;
  void end(const void* what, bool failed) noexcept;
  void count(std::int64_t bytes) noexcept;
  void follow_recording() noexcept;
  std::uint32_t track_of(std::size_t stream) noexcept;
  void put(int stream, const entry& e) noexcept;
  void show(std::size_t stream) noexcept;

  const int rank_;
  const std::size_t number_;
  const std::string memory_;    // the curve's name
  std::uint32_t recording_ = 0; // of which the tracks are
  std::vector<lane> streams_;
};

} // namespace tern::hetero::detail
