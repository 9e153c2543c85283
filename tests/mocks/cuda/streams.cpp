// SPDX-License-Identifier: Apache-2.0
// Operations in streams: they are done by whatever thread makes a call that lets some go on, never
// by themselves.
#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>

#include "state.hpp"

namespace mock {
namespace {

std::int64_t now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

std::size_t by_chance(state& s, std::size_t below) { return static_cast<std::size_t>(s.random() % below); }

bool is_ready(const state& s, const stream& of, std::int64_t time) {
  if (of.pending.empty() || s.devices[static_cast<std::size_t>(of.device)].lost != 0) return false;
  const operation& op = of.pending.front();
  return op.ready <= time && std::all_of(op.after.begin(), op.after.end(), [](const point& p) { return p->done; });
}

// When it has ended, by the virtual clock: after what its stream and its events say, and no sooner
// than it can be begun.
std::int64_t end_of(const state& s, const stream& of, const operation& op) {
  if (!s.set.has_clock()) return 0;
  std::int64_t begin = of.end;
  for (const point& p : op.after) begin = std::max(begin, p->end);
  if (op.is == work::wait || (op.is == work::record && !op.timed)) return begin;
  begin = std::max(begin, op.given + s.set.start_time);
  if (op.is == work::record) return begin;
  if (op.is == work::kernel) return begin + s.set.kernel_time;
  if (op.is == work::graph) return begin + s.set.kernel_time * static_cast<std::int64_t>(op.graph.what->nodes.size());
  const std::size_t bytes = op.copy.row_bytes * op.copy.rows * op.copy.slices;
  return begin + (s.set.bandwidth > 0 ? static_cast<std::int64_t>(bytes * 1'000'000'000 / s.set.bandwidth) : 0);
}

// A kernel or a copy. \return whether the device still lives
bool perform(state& s, int device, const operation& op) {
  cu::result r = 0;
  open_memory(s, op.uses);
  if (s.set.lose > 0 && --s.set.lose == 0) r = ecc_uncorrectable;
  if (r == 0 && op.is == work::kernel) {
    if (s.set.fault_kernel > 0 && --s.set.fault_kernel == 0)
      r = illegal_address;
    else
      r = run_kernel(s, op.kernel);
    ++s.counted.kernels_done;
  } else if (r == 0) {
    // If the source device is lost, the device that reads its memory is lost too.
    if (op.copy.source >= 0) r = s.devices[static_cast<std::size_t>(op.copy.source)].lost;
    if (r == 0) run_copy(op.copy);
  }
  ++s.counted.operations_done;
  if (r != 0) lose(s, device, r);
  return r == 0;
}

// Runs a node of a graph that has all its predecessors done. \return whether all nodes are done
bool step(state& s, int device, graph_work& g) {
  std::vector<std::size_t> free;
  const std::vector<node>& nodes = g.what->nodes;
  for (std::size_t i = 0; i < nodes.size(); ++i)
    if (!g.done[i] &&
        std::all_of(nodes[i].after.begin(), nodes[i].after.end(), [&](std::size_t n) { return g.done[n]; }))
      free.push_back(i);
  if (free.empty()) return true;
  const std::size_t which = free[by_chance(s, free.size())];
  g.done[which] = 1;
  const std::shared_ptr<executable> keep = g.what; // the stream forgets it if the device is lost
  if (!perform(s, device, keep->nodes[which].op)) return false;
  return free.size() == 1 && std::all_of(g.done.begin(), g.done.end(), [](char d) { return d; });
}

// Does the first operation of a stream, or a part of it.
void step(state& s, stream& of) {
  operation& op = of.pending.front();
  if (op.is == work::graph) {
    if (!step(s, of.device, op.graph)) return;
  } else if (op.is == work::copy || op.is == work::kernel) {
    const operation mine = op;
    if (!perform(s, of.device, mine)) return; // the stream has been emptied
  }
  operation& over = of.pending.front();
  of.end = end_of(s, of, over);
  *over.at = {true, of.end, over.timed ? now() : 0};
  of.pending.pop_front();
}

} // namespace

std::string describe(const operation& op) {
  switch (op.is) {
  case work::record:
    return "the record of an event";
  case work::wait:
    return "the wait for an event";
  case work::kernel:
    return "the kernel '" + std::string(op.kernel.what->kernel->name) + "'";
  case work::graph:
    return "the graph";
  case work::copy:
    break;
  }
  static constexpr const char* ways[] = {"to the device", "from the device", "within the device",
                                         "from another device"};
  return "the copy of " + std::to_string(op.copy.row_bytes * op.copy.rows * op.copy.slices) + " bytes " +
         ways[op.copy.way];
}

void run_copy(const copy_work& what) {
  for (std::size_t z = 0; z < what.slices; ++z)
    for (std::size_t y = 0; y < what.rows; ++y)
      std::memcpy(what.to + z * what.to_slice + y * what.to_pitch,
                  what.from + z * what.from_slice + y * what.from_pitch, what.row_bytes);
}

int advance(state& s, int most) {
  const std::int64_t time = s.set.delay > 0 ? now() : 0;
  int done = 0;
  std::vector<stream*> ready;
  for (; done < most; ++done) {
    ready.clear();
    for (auto one = s.streams.begin(); one != s.streams.end();) {
      if (one->second->destroyed && one->second->pending.empty()) {
        one = s.streams.erase(one);
        continue;
      }
      if (is_ready(s, *one->second, time)) ready.push_back(one->second.get());
      ++one;
    }
    if (ready.empty()) break;
    step(s, *ready[by_chance(s, ready.size())]);
  }
  return done;
}

std::int64_t poll_delay(const state& s) {
  std::int64_t least = -1;
  const std::int64_t time = s.set.delay > 0 ? now() : 0;
  for (const auto& [number, one] : s.streams) {
    if (one->pending.empty() || s.devices[static_cast<std::size_t>(one->device)].lost != 0) continue;
    const std::int64_t left = std::max<std::int64_t>(0, one->pending.front().ready - time);
    if (left > 0 && (least < 0 || left < least)) least = left;
    if (is_ready(s, *one, time)) return 0;
  }
  return least;
}

void lose(state& s, int device, cu::result r) {
  s.devices[static_cast<std::size_t>(device)].lost = r;
  for (const auto& [number, one] : s.streams) {
    if (one->device != device) continue;
    for (const operation& op : one->pending) op.at->done = true; // so no wait for it lasts for ever
    one->pending.clear();
  }
}

void call::go_on() { advance(s, static_cast<int>(by_chance(s, 4))); }

void call::finish(const point& until, int device) {
  while (until && !until->done && s.devices[static_cast<std::size_t>(device)].lost == 0) {
    if (advance(s, 1) > 0) continue;
    const std::int64_t wait = poll_delay(s);
    if (wait < 0) {
      misuse(unknown_error, "waits for what can never be done");
      return;
    }
    const std::uint64_t generation = s.generation;
    close_memory(s);
    lock_.unlock();
    std::this_thread::sleep_for(std::chrono::nanoseconds(std::min<std::int64_t>(wait, 100000)));
    lock_.lock();
    if (s.generation != generation) return;
  }
  if (until) s.clock = std::max(s.clock, until->end);
}

bool is_over(const state& s, const point& p) { return !p || (p->done && p->end <= s.clock); }

point call::put(stream& to, operation&& op) {
  if (to.capturing) {
    const std::shared_ptr<capture> c = to.capturing;
    c->nodes.push_back({std::move(op), to.last});
    to.last = {c->nodes.size() - 1};
    return nullptr;
  }
  check_order(to, op);
  op.at = std::make_shared<moment>();
  op.given = s.clock;
  if (s.set.delay > 0) op.ready = now() + s.set.delay;
  to.pending.push_back(std::move(op));
  return to.pending.back().at;
}

std::string call::pending_use(range r, std::vector<std::pair<point, int>>& which) {
  std::string first;
  const auto meets = [&](const operation& op) {
    return std::any_of(op.uses.begin(), op.uses.end(),
                       [&](const range& u) { return u.begin < r.end && r.begin < u.end; });
  };
  for (const auto& [number, one] : s.streams)
    for (const operation& op : one->pending) {
      std::string found;
      if (meets(op)) found = describe(op);
      if (op.is == work::graph)
        for (const node& n : op.graph.what->nodes)
          if (found.empty() && meets(n.op)) found = describe(n.op) + " in a graph";
      if (found.empty()) continue;
      which.emplace_back(op.at, one->device);
      if (first.empty()) first = found + " in the stream " + hex(number);
    }
  return first;
}

} // namespace mock

using namespace mock;

MOCK_EXPORT cu::result cuStreamCreateWithPriority(cu::stream* made, unsigned flags, int) {
  call c("cuStreamCreateWithPriority", needs::context);
  if (c.failed) return c.failed;
  if (!made || flags > 1) return c.misuse(invalid_value, "wrong flags, or nowhere to put the stream");
  const auto one = std::make_shared<stream>();
  one->device = c.at;
  one->number = ++c.s.given;
  c.s.streams.emplace(one->number, one);
  *made = as_handle<cu::stream>(one->number);
  return 0;
}

MOCK_EXPORT cu::result cuStreamDestroy_v2(cu::stream h) {
  call c("cuStreamDestroy", needs::context_even_lost);
  if (c.failed) return c.failed;
  if (!h) return c.misuse(invalid_handle, "the usual stream cannot be destroyed");
  const auto one = c.find_stream(h);
  if (!one) return c.failed;
  if (one->capturing) return c.misuse(capture_unsupported, "operations of the stream are captured");
  one->destroyed = true;
  c.go_on();
  if (one->pending.empty()) c.s.streams.erase(one->number);
  return c.status();
}

MOCK_EXPORT cu::result cuStreamSynchronize(cu::stream h) {
  call c("cuStreamSynchronize", needs::context);
  if (c.failed) return c.failed;
  ++c.s.counted.synchronizes;
  const auto one = c.find_stream(h);
  if (!one) return c.failed;
  if (one->capturing) {
    one->capturing->broken = true;
    return c.misuse(capture_unsupported, "operations of the stream are captured");
  }
  if (!one->pending.empty()) c.finish(point(one->pending.back().at), c.at);
  c.s.clock = std::max(c.s.clock, one->end);
  return c.status();
}

MOCK_EXPORT cu::result cuStreamQuery(cu::stream h) {
  call c("cuStreamQuery", needs::context);
  if (c.failed) return c.failed;
  ++c.s.counted.stream_queries;
  const auto one = c.find_stream(h);
  if (!one) return c.failed;
  if (one->capturing) {
    one->capturing->broken = true;
    return c.misuse(capture_unsupported, "operations of the stream are captured");
  }
  c.go_on();
  if (const cu::result r = c.status()) return r;
  return one->pending.empty() && one->end <= c.s.clock ? cu::success : cu::not_ready;
}

MOCK_EXPORT cu::result cuStreamWaitEvent(cu::stream h, cu::event e, unsigned) {
  call c("cuStreamWaitEvent", needs::context);
  if (c.failed) return c.failed;
  ++c.s.counted.stream_waits;
  const auto one = c.find_stream(h);
  const auto what = one ? c.find_event(e, false) : nullptr;
  if (!what) return c.failed;
  if (what->captured) {
    const auto& from = what->captured;
    if (from->over) return c.misuse(invalid_value, "the event was recorded in a capture that has ended");
    if (from->broken) return capture_invalidated;
    if (!one->capturing) {
      if (!one->pending.empty() && one->device != from->device)
        return c.misuse(capture_isolation, "a stream of another device cannot be captured");
      one->capturing = from;
      one->last = what->captured_after;
      return 0;
    }
    if (one->capturing != from) {
      one->capturing->broken = from->broken = true;
      return c.misuse(capture_merge, "two captures cannot become one");
    }
    for (const std::size_t n : what->captured_after)
      if (std::find(one->last.begin(), one->last.end(), n) == one->last.end()) one->last.push_back(n);
    return 0;
  }
  if (one->capturing) {
    one->capturing->broken = true;
    return c.misuse(capture_isolation, "a stream that is captured waits for an event that is not");
  }
  if (!what->last) return 0;
  operation op;
  op.is = work::wait;
  op.after.push_back(what->last);
  c.put(*one, std::move(op));
  return 0;
}

MOCK_EXPORT cu::result cuEventCreate(cu::event* made, unsigned flags) {
  call c("cuEventCreate", needs::context);
  if (c.failed) return c.failed;
  if (!made || flags > 7) return c.misuse(invalid_value, "wrong flags, or nowhere to put the event");
  const auto one = std::make_shared<event>();
  one->device = c.at;
  one->timed = (flags & cu::event_disable_timing) == 0;
  c.s.events.emplace(++c.s.given, one);
  *made = as_handle<cu::event>(c.s.given);
  return 0;
}

MOCK_EXPORT cu::result cuEventRecord(cu::event e, cu::stream h) {
  call c("cuEventRecord", needs::context);
  if (c.failed) return c.failed;
  ++c.s.counted.event_records;
  const auto one = c.find_stream(h);
  const auto what = one ? c.find_event(e, true) : nullptr;
  if (!what) return c.failed;
  what->captured = one->capturing;
  what->captured_after = one->last;
  what->last = nullptr;
  operation op;
  op.timed = what->timed;
  if (!one->capturing) what->last = c.put(*one, std::move(op));
  return 0;
}

MOCK_EXPORT cu::result cuEventQuery(cu::event e) {
  call c("cuEventQuery", needs::init);
  if (c.failed) return c.failed;
  ++c.s.counted.event_queries;
  const auto what = c.find_event(e, false);
  if (!what) return c.failed;
  if (what->captured) return c.misuse(captured_event, "the event was recorded in what is captured");
  c.go_on();
  device& d = c.s.devices[static_cast<std::size_t>(what->device)];
  if (d.lost) return d.told = true, d.lost;
  return is_over(c.s, what->last) ? cu::success : cu::not_ready;
}

MOCK_EXPORT cu::result cuEventSynchronize(cu::event e) {
  call c("cuEventSynchronize", needs::init);
  if (c.failed) return c.failed;
  ++c.s.counted.synchronizes;
  const auto what = c.find_event(e, false);
  if (!what) return c.failed;
  if (what->captured) return c.misuse(captured_event, "the event was recorded in what is captured");
  c.finish(point(what->last), what->device);
  device& d = c.s.devices[static_cast<std::size_t>(what->device)];
  if (d.lost) d.told = true;
  return d.lost;
}

MOCK_EXPORT cu::result cuEventDestroy_v2(cu::event e) {
  call c("cuEventDestroy", needs::init);
  if (c.failed) return c.failed;
  const auto what = c.find_event(e, false);
  if (!what) return c.failed;
  c.s.events.erase(number_of(e));
  device& d = c.s.devices[static_cast<std::size_t>(what->device)];
  if (d.lost) d.told = true;
  return d.lost;
}

MOCK_EXPORT cu::result cuEventElapsedTime(float* milliseconds, cu::event from, cu::event to) {
  call c("cuEventElapsedTime", needs::context);
  if (c.failed) return c.failed;
  const auto begin = c.find_event(from, true), end = begin ? c.find_event(to, true) : nullptr;
  if (!end) return c.failed;
  for (const auto& one : {begin, end}) {
    if (!one->timed) return c.misuse(invalid_handle, "an event that keeps no time is asked for it");
    if (one->captured) return c.misuse(captured_event, "the event was recorded in what is captured");
    if (!one->last) return c.misuse(invalid_handle, "an event that was never recorded is asked for its time");
  }
  if (!is_over(c.s, begin->last) || !is_over(c.s, end->last)) return cu::not_ready;
  const std::int64_t took =
      c.s.set.has_clock() ? end->last->end - begin->last->end : end->last->seen - begin->last->seen;
  *milliseconds = static_cast<float>(static_cast<double>(took) * 1e-6);
  return 0;
}
