// SPDX-License-Identifier: Apache-2.0
#include <tern/hetero/device/worker/device_trace.hpp>

#include <algorithm>
#include <cmath>
#include <exception>
#include <mutex>

#include <tern/hetero/data/object_state.hpp>
#include <tern/hetero/data/transfer.hpp>
#include <tern/hetero/record/task_record.hpp>
#include <tern/trace/record/events.hpp>

namespace tern::hetero::detail {
namespace {

constexpr std::size_t first_for_kernels = 2;
constexpr std::size_t tracks_each = 128; // numbers of tracks that a device has; it has fewer streams

std::string name_of_stream(const std::string& id, std::size_t stream, std::size_t streams) {
  if (stream == streams) return id + " out, behind kernels";
  if (stream == streams + 1) return id + " in, behind kernels of others";
  if (stream == 0) return id + " in";
  if (stream == 1) return id + " out";
  const bool alone = streams == first_for_kernels + 1;
  return id + " kernels" + (alone ? std::string() : " " + std::to_string(stream - first_for_kernels + 1));
}

const char* name_of(direction way) noexcept {
  switch (way) {
  case direction::to_device:
    return "copy to device";
  case direction::from_device:
    return "copy from device";
  case direction::between:
    return "copy from another device";
  case direction::within:
    break;
  }
  return "copy within";
}

} // namespace

device_tracks::device_tracks(int rank, std::size_t number, const std::string& id, int streams)
    : rank_(rank), number_(number), memory_(id + " bytes"), streams_(static_cast<std::size_t>(streams) + 2) {
  for (std::size_t i = 0; i < streams_.size(); ++i) streams_[i].name = name_of_stream(id, i, streams_.size() - 2);
}

// Tracks are of one recording, and made when they are needed: most programs use a few of the
// streams.
void device_tracks::follow_recording() noexcept {
  const std::uint32_t now = trace::detail::recording.load(std::memory_order_relaxed); // as trace::on
  if (now == recording_) return;
  recording_ = now;
  for (lane& s : streams_) {
    s.track = trace::detail::no_track;
    s.under_way.clear();
  }
}

std::uint32_t device_tracks::track_of(std::size_t which) noexcept {
  lane& s = streams_[which];
  if (s.track == trace::detail::no_track)
    s.track = trace::detail::new_track(
        rank_, trace::detail::first_of_devices + static_cast<int>(number_ * tracks_each + which), s.name);
  return s.track;
}

void device_tracks::begin_kernel(int stream, const task_record& t, std::size_t count,
                                 std::optional<double> predicted) noexcept {
  follow_recording();
  entry e;
  e.predicted = static_cast<std::uint64_t>(std::llround(predicted.value_or(0) * 1e9));
  e.what = &t;
  e.name = trace::detail::name_number(t.text_name()); // now: the name may go with the task's closure
  try {
    if (count > 1) e.name = trace::detail::name_number(std::string(t.text_name()) + " x " + std::to_string(count));
  } catch (const std::exception&) { // no memory: as if it were alone
  }
  put(stream, e);
}

void device_tracks::begin_copy(int stream, const transfer& x, const copy_request& what) noexcept {
  follow_recording();
  entry e;
  e.what = &x;
  e.name = trace::detail::name_number(name_of(what.way));
  try {
    std::string of;
    {
      const std::lock_guard hold(x.object->lock); // another thread may be giving it a name
      of = x.object->name;
    }
    if (!of.empty()) e.of = trace::detail::name_number(of);
  } catch (const std::exception&) { // no memory: it is copied all the same
  }
  e.bytes = what.row_bytes * what.rows * what.slices;
  e.copies = true;
  put(stream, e);
}

void device_tracks::put(int which, const entry& e) noexcept {
  const auto i = static_cast<std::size_t>(which);
  lane& s = streams_[i];
  try {
    s.under_way.push_back(e);
  } catch (const std::exception&) { // no memory: not shown
    return;
  }
  if (s.under_way.size() == 1) show(i);
}

// The stream is at its first.
void device_tracks::show(std::size_t which) noexcept {
  const entry& e = streams_[which].under_way.front();
  if (e.copies)
    trace::detail::copy_begins(track_of(which), e.name, e.bytes, e.of);
  else
    trace::detail::kernel_begins(track_of(which), e.name, e.predicted);
}

// The device worker asks for one after the other, and may see the end of what came later first:
// what was before it is over too, but whether it failed is known only when the device worker asks.
void device_tracks::end(const void* what, bool failed) noexcept {
  follow_recording();
  for (std::size_t i = 0; i < streams_.size(); ++i) {
    auto& all = streams_[i].under_way;
    const auto found = std::find_if(all.begin(), all.end(), [what](const entry& e) { return e.what == what; });
    if (found == all.end()) continue;
    found->what = nullptr; // another one may get its address
    found->failed = failed;
    while (!all.empty() && !all.front().what) {
      trace::detail::device_ends(track_of(i), all.front().failed);
      all.erase(all.begin());
      if (!all.empty()) show(i);
    }
    return;
  }
}

void device_tracks::count(std::int64_t bytes) noexcept {
  follow_recording();
  trace::detail::device_counts(track_of(first_for_kernels), trace::detail::name_number(memory_),
                               static_cast<double>(bytes));
}

} // namespace tern::hetero::detail
