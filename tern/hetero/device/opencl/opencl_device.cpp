// SPDX-License-Identifier: Apache-2.0
#include <tern/hetero/device/opencl/opencl_device.hpp>

#include <algorithm>
#include <optional>
#include <utility>

#include <tern/hetero/device/settings.hpp>
#include <tern/hetero/kernel/signal_guard.hpp>
#include <tern/hetero/variants.hpp>
#include <tern/trace/trace.hpp>

namespace tern::hetero::detail {
namespace {

constexpr std::size_t most_pieces = 256; // of a copy under way, before one event stands for all of them

std::string quoted(const char* name) { return "'" + std::string(name) + "'"; }

std::string named(const char* operation, const char* kernel) {
  return kernel ? std::string(operation) + " " + quoted(kernel) : operation;
}

cl::memory memory_of(memory_handle m) { return static_cast<cl::memory>(m); }

} // namespace

// The device and what went wrong with it ------------------------------------------------------------------------------

opencl_target::~opencl_target() {
  if (context) api.ReleaseContext(context);
}

std::string opencl_target::title() const { return info.id + " (" + info.name + ")"; }

void opencl_target::fail(cl::status s, const std::string& operation, bool running, std::string hint) {
  // What drivers say after a kernel went astray: the resources, and then the queues, are gone for
  // good.
  const bool is_lost =
      s == cl::device_not_available || s == cl::invalid_command_queue || (running && s == cl::out_of_resources);
  std::string text = title() + " cannot " + operation + ": " + cl::text_of(s);
  if (is_lost) {
    lost = std::move(text);
    alive();
  }
  throw error(errc::device_failed, std::move(text), std::move(hint));
}

opencl_device::opencl_device(std::unique_ptr<opencl_target> target, const options& opts)
    : target_(std::move(target)), programs_(*target_, kernel_cache(opts), opts[hetero_fma]) {
  if (!target_->info.shares_host_memory) {
    const auto has = static_cast<std::size_t>(target_->info.memory_bytes);
    const std::size_t wanted = bytes_in(opts[hetero_memory]).value_or(share_of_memory(has, opts));
    limit_ = std::min(wanted, has);
  }
  const int count = 2 + opts[hetero_queues] + 1; // the last: the waiting one
  queues_.reserve(static_cast<std::size_t>(count));
  measures_ = target_->api.GetEventProfilingInfo != nullptr;
  for (int n = 0; n < count; ++n) {
    cl::status s = cl::success;
    cl::queue q = target_->api.CreateCommandQueue(target_->context, target_->device,
                                                  measures_ ? cl::queue_profiling_enable : 0, &s);
    if (s != cl::success && n == 0 && measures_) { // it need not be able to
      measures_ = false;
      q = target_->api.CreateCommandQueue(target_->context, target_->device, 0, &s);
    }
    if (s != cl::success) {
      for (const cl::queue made : queues_) target_->api.ReleaseCommandQueue(made);
      target_->fail(s, "make a queue");
    }
    queues_.push_back(q);
  }
}

opencl_device::~opencl_device() {
  const opencl_api& api = target_->api;
  // Copies write into memory of the host, which is not ours. A lost device does nothing more, and
  // might not answer.
  if (target_->lost.empty())
    for (const cl::queue q : queues_) api.Finish(q);
  for (const slot& s : slots_)
    if (s.event) api.ReleaseEvent(s.event);
  if (last_) api.ReleaseEvent(last_);
  for (const cl::queue q : queues_) api.ReleaseCommandQueue(q);
}

cl::queue opencl_device::queue(int stream, bool waits) const {
  target_->alive();
  if (stream < 0 || stream >= streams() + (waits ? 1 : 0)) [[unlikely]]
    throw error(errc::invalid_argument, target_->title() + " has the streams 0 to " + std::to_string(streams() - 1) +
                                            ", but not " + std::to_string(stream));
  return queues_[static_cast<std::size_t>(stream)];
}

// Tickets -------------------------------------------------------------------------------------------------------------

ticket opencl_device::begin(cl::queue q, cl::event event, const char* operation, const char* kernel) {
  const cl::status s = target_->api.Flush(q); // or it might not begin before a wait for it
  if (s != cl::success) [[unlikely]] {
    target_->api.ReleaseEvent(event);
    target_->fail(s, named(operation, kernel));
  }
  if (unused_.empty()) {
    unused_.push_back(static_cast<std::uint32_t>(slots_.size()));
    slots_.emplace_back();
  }
  const std::uint32_t at = unused_.back();
  unused_.pop_back();
  slot& made = slots_[at];
  made.event = event;
  made.operation = operation;
  made.kernel = kernel;
  return std::uint64_t{made.uses} << 32 | (at + 1);
}

opencl_device::slot* opencl_device::find(ticket t) {
  const auto number = static_cast<std::uint32_t>(t);
  if (number == 0) return nullptr;
  if (number > slots_.size())
    throw error(errc::invalid_argument, target_->title() + " has given out no ticket " + std::to_string(t));
  slot& s = slots_[number - 1];
  return s.event && s.uses == t >> 32 ? &s : nullptr;
}

void opencl_device::forget(slot& s) noexcept {
  if (s.event) target_->api.ReleaseEvent(std::exchange(s.event, nullptr));
  ++s.uses;
  s.skipped = false;
  unused_.push_back(static_cast<std::uint32_t>(&s - slots_.data()));
}

bool opencl_device::done(ticket t) {
  slot* const s = find(t);
  if (!s) return true;
  const char* const operation = s->operation;
  const char* const kernel = s->kernel;
  if (!target_->lost.empty()) [[unlikely]] {
    forget(*s);
    target_->alive();
  }
  cl::status now = cl::queued;
  const cl::status asked =
      target_->api.GetEventInfo(s->event, cl::event_command_execution_status, sizeof now, &now, nullptr);
  if (asked == cl::success && now > cl::complete) return false;
  if (measures_) std::swap(last_, s->event); // for `took`
  const bool skipped = s->skipped;
  forget(*s);
  if (asked != cl::success) target_->fail(asked, "say whether it is done with: " + named(operation, kernel));
  if (skipped || now == cl::failed_before) throw predecessor_failed();
  if (now < 0) target_->fail(now, named(operation, kernel), true);
  return true;
}

std::int64_t opencl_device::took() const noexcept {
  std::uint64_t start = 0, end = 0;
  const auto ask = [this](cl::uint what, std::uint64_t& into) {
    return target_->api.GetEventProfilingInfo(last_, what, sizeof into, &into, nullptr) == cl::success;
  };
  const bool told = last_ && ask(cl::profiling_command_start, start) && ask(cl::profiling_command_end, end);
  return told && end > start ? static_cast<std::int64_t>(end - start) : 0;
}

void opencl_device::order(int stream, ticket t) {
  const cl::queue q = queue(stream, true);
  const slot* const s = find(t);
  if (!s) return;
  cl::status now = cl::queued;
  cl::status said = target_->api.GetEventInfo(s->event, cl::event_command_execution_status, sizeof now, &now, nullptr);
  if (said == cl::success) {
    if (now <= cl::complete) return; // what went wrong with it is said by its own ticket
    said = target_->api.EnqueueBarrierWithWaitList(q, 1, &s->event, nullptr);
    if (said == cl::success) said = target_->api.Flush(q);
  }
  if (said != cl::success) target_->fail(said, "wait for: " + named(s->operation, s->kernel));
}

ticket opencl_device::marker(cl::queue q, const char* operation, const char* kernel) {
  cl::event event = nullptr;
  if (const cl::status s = target_->api.EnqueueMarkerWithWaitList(q, 0, nullptr, &event); s != cl::success)
    target_->fail(s, named(operation, kernel));
  return begin(q, event, operation, kernel);
}

bool opencl_device::events_of(std::span<const ticket> all, std::vector<cl::event>& into) {
  into.clear();
  for (const ticket t : all) {
    const slot* const s = find(t);
    if (!s) continue; // it is over
    if (s->skipped) return false;
    cl::status now = cl::queued;
    const cl::status said =
        target_->api.GetEventInfo(s->event, cl::event_command_execution_status, sizeof now, &now, nullptr);
    if (said != cl::success) target_->fail(said, "wait for: " + named(s->operation, s->kernel));
    if (now < 0) return false;
    if (now > cl::complete) into.push_back(s->event);
  }
  return true;
}

// Memory --------------------------------------------------------------------------------------------------------------

memory_handle opencl_device::allocate(std::size_t bytes) {
  target_->alive();
  if (bytes == 0 || bytes > target_->largest_allocation || bytes > limit_ - used_) return nullptr;
  cl::status s = cl::success;
  const cl::memory m = target_->api.CreateBuffer(target_->context, cl::mem_read_write, bytes, nullptr, &s);
  if (s == cl::success) {
    used_ += bytes;
    return m;
  }
  if (s == cl::mem_object_allocation_failure || s == cl::out_of_resources || s == cl::out_of_host_memory ||
      s == cl::invalid_buffer_size)
    return nullptr;
  target_->fail(s, "allocate " + std::to_string(bytes) + " bytes");
}

void opencl_device::free(memory_handle memory, std::size_t bytes) noexcept {
  if (!memory) return;
  target_->api.ReleaseMemObject(memory_of(memory)); // fails for what is no buffer; this function reports nothing
  used_ -= std::min(bytes, used_);
}

// Copies --------------------------------------------------------------------------------------------------------------

cl::event opencl_device::enqueue(cl::queue q, const copy_request& what, const side& a, const side& b, const extent& e) {
  const opencl_api& api = target_->api;
  const cl::memory m = memory_of(what.device);
  cl::event event = nullptr;
  cl::status s = cl::success;
  if (e.rows == 1 && e.slices == 1) {
    switch (what.way) {
    case direction::to_device:
      s = api.EnqueueWriteBuffer(q, m, 0, a.offset, e.row_bytes, what.host + b.offset, 0, nullptr, &event);
      break;
    case direction::from_device:
      s = api.EnqueueReadBuffer(q, m, 0, a.offset, e.row_bytes, what.host + b.offset, 0, nullptr, &event);
      break;
    case direction::within:
      s = api.EnqueueCopyBuffer(q, memory_of(what.from), m, b.offset, a.offset, e.row_bytes, 0, nullptr, &event);
      break;
    case direction::between: // refused
      break;
    }
  } else {
    const std::size_t region[] = {e.row_bytes, e.rows, e.slices};
    // Drivers check that a row ends within the pitch, so an offset is told as rows and slices.
    const auto origin = [&](const side& x) {
      const std::size_t in_slice = e.slices > 1 ? x.offset % x.slice : x.offset;
      return std::array{in_slice % x.pitch, in_slice / x.pitch, e.slices > 1 ? x.offset / x.slice : 0};
    };
    const auto pitch_of_slices = [&](const side& x) { return e.slices > 1 ? x.slice : 0; };
    const auto at = origin(a);
    const std::array<std::size_t, 3> start{};
    switch (what.way) {
    case direction::to_device:
      s = api.EnqueueWriteBufferRect(q, m, 0, at.data(), start.data(), region, a.pitch, pitch_of_slices(a), b.pitch,
                                     pitch_of_slices(b), what.host + b.offset, 0, nullptr, &event);
      break;
    case direction::from_device:
      s = api.EnqueueReadBufferRect(q, m, 0, at.data(), start.data(), region, a.pitch, pitch_of_slices(a), b.pitch,
                                    pitch_of_slices(b), what.host + b.offset, 0, nullptr, &event);
      break;
    case direction::within:
      s = api.EnqueueCopyBufferRect(q, memory_of(what.from), m, origin(b).data(), at.data(), region, b.pitch,
                                    pitch_of_slices(b), a.pitch, pitch_of_slices(a), 0, nullptr, &event);
      break;
    case direction::between: // refused
      break;
    }
  }
  if (s == cl::success) return event;
  // Pieces that were begun go on: they are waited for here, since the caller cannot.
  for (const cl::event piece : pieces_) api.ReleaseEvent(piece);
  if (!pieces_.empty()) api.Finish(q);
  pieces_.clear();
  target_->fail(s, "copy " + std::to_string(e.row_bytes * e.rows * e.slices) + " bytes, " +
                       std::to_string(e.rows * e.slices) + " rows");
}

// What OpenCL's rectangles cannot be is copied slice by slice, or row by row.
cl::event opencl_device::enqueue_pieces(cl::queue q, const copy_request& what, side a, side b, const extent& e) {
  const bool same = what.way == direction::within && what.device == what.from;
  const bool rows_fit =
      e.rows == 1 || (a.pitch >= e.row_bytes && b.pitch >= e.row_bytes && (!same || a.pitch == b.pitch));
  const auto slices_fit = [&](const side& x) {
    return x.pitch && x.slice % x.pitch == 0 && x.slice >= e.rows * x.pitch;
  };
  if (rows_fit && (e.slices == 1 || (slices_fit(a) && slices_fit(b) && (!same || a.slice == b.slice))))
    return enqueue(q, what, a, b, e);

  const extent piece{e.row_bytes, rows_fit ? e.rows : 1, 1};
  const auto join = [&] {
    if (pieces_.size() == 1) return std::exchange(pieces_, {}).front();
    cl::event all = nullptr;
    const cl::status s =
        target_->api.EnqueueMarkerWithWaitList(q, static_cast<cl::uint>(pieces_.size()), pieces_.data(), &all);
    for (const cl::event p : pieces_) target_->api.ReleaseEvent(p);
    pieces_.clear();
    if (s != cl::success) {
      target_->api.Finish(q);
      target_->fail(s, "copy");
    }
    return all;
  };
  for (std::size_t z = 0; z < e.slices; ++z)
    for (std::size_t y = 0; y < e.rows; y += piece.rows) {
      const auto moved = [&](const side& x) { return side{x.offset + z * x.slice + y * x.pitch, x.pitch, x.slice}; };
      pieces_.push_back(enqueue(q, what, moved(a), moved(b), piece));
      if (pieces_.size() == most_pieces) pieces_.push_back(join());
    }
  return join();
}

ticket opencl_device::copy(int stream, const copy_request& what) {
  for (const ticket t : what.after) order(stream, t);
  const cl::queue q = queue(stream, what.way == direction::from_device);
  static constexpr const char* names[] = {"copy to the device", "copy from the device", "copy within the device",
                                          "copy from another device"};
  const char* const operation = names[static_cast<int>(what.way)];
  if (!what.device || !(is_of_host(what.way) ? static_cast<const void*>(what.host) : what.from))
    throw error(errc::invalid_argument, target_->title() + " cannot " + operation + ": there is no memory");
  if (what.way == direction::between)
    throw error(errc::invalid_argument, target_->title() + " cannot " + operation + ": it reaches none");
  if (what.row_bytes == 0 || what.rows == 0 || what.slices == 0) return marker(q, operation, nullptr);
  const copy_request flat = flattened(what);
  const side a{flat.offset, flat.pitch, flat.slice};
  const side b = what.way == direction::within ? side{flat.from_offset, flat.from_pitch, flat.from_slice}
                                               : side{0, flat.host_pitch, flat.host_slice};
  const extent e{flat.row_bytes, flat.rows, flat.slices};
  return begin(q, enqueue_pieces(q, flat, a, b, e), operation, nullptr);
}

// Kernels -------------------------------------------------------------------------------------------------------------

namespace {
// The dialect's always have dynamic memory, before the others; those of OpenCL C if it is asked
// for, behind them.
std::size_t dynamic_memory(const launch_request& what) {
  return what.code->form == code_form::dialect ? std::max<std::size_t>(what.dynamic_bytes, 16) : what.dynamic_bytes;
}
std::size_t hidden_parameters(const launch_request& what) { return dynamic_memory(what) > 0 ? 1 : 0; }
} // namespace

void opencl_device::check(const opencl_kernel& k, const launch_request& what) const {
  const device_info& i = target_->info;
  const auto refuse = [&](const std::string& why, std::string hint = {}) {
    throw error(errc::invalid_argument,
                target_->title() + " cannot launch the kernel " + quoted(what.code->name) + ": " + why,
                std::move(hint));
  };
  std::uint64_t items = 1;
  for (std::size_t d = 0; d < 3; ++d) {
    const int n = what.shape.items[d];
    if (n < 1 || what.shape.groups[d] < 0)
      refuse("a grid has no " + std::to_string(what.shape.groups[d]) + " groups of " + std::to_string(n) +
             " items in " + std::string(1, "xyz"[d]));
    if (n > i.max_group[d])
      refuse("a group has " + std::to_string(n) + " items in " + std::string(1, "xyz"[d]) + ", there it can have " +
             std::to_string(i.max_group[d]));
    items *= static_cast<unsigned>(n);
    if (items > k.max_items)
      refuse("its groups are too large: here it can have " + std::to_string(k.max_items) + " items in each",
             "launch it with more and smaller groups");
  }
  const std::size_t local = dynamic_memory(what) + k.local_bytes;
  if (local > static_cast<std::uint64_t>(i.local_memory_bytes))
    refuse("its groups need " + std::to_string(local) + " bytes of shared and dynamic memory, the device has " +
           std::to_string(i.local_memory_bytes));
  const std::size_t hidden = hidden_parameters(what);
  if (what.arguments.size() + hidden != k.parameters)
    refuse("it has " + std::to_string(k.parameters - std::min<std::size_t>(hidden, k.parameters)) + " parameters" +
           (hidden && what.code->form != code_form::dialect ? " before that of dynamic memory, " : ", ") +
           std::to_string(what.arguments.size()) + " arguments were given");
}

cl::memory opencl_device::part_of(cl::memory whole, std::size_t offset, const std::string& operation) {
  if (offset % target_->alignment)
    throw error(errc::unsupported,
                target_->title() + " cannot " + operation + " with the address of byte " + std::to_string(offset) +
                    " of a buffer: it takes multiples of " + std::to_string(target_->alignment),
                "let what kernels work on begin at such a multiple, or give the kernel the index of its first element");
  const opencl_api& api = target_->api;
  std::size_t size = 0;
  cl::status s = api.GetMemObjectInfo(whole, cl::mem_size, sizeof size, &size, nullptr);
  if (s != cl::success) target_->fail(s, operation);
  const cl::buffer_region region{offset, size > offset ? size - offset : 0};
  const cl::memory part = api.CreateSubBuffer(whole, cl::mem_read_write, cl::buffer_create_type_region, &region, &s);
  if (s != cl::success) target_->fail(s, operation);
  return part;
}

void opencl_device::set_dynamic(const opencl_kernel& k, const launch_request& what) {
  if (hidden_parameters(what) == 0) return;
  const cl::uint at = what.code->form == code_form::dialect ? 0 : static_cast<cl::uint>(what.arguments.size());
  if (const cl::status s = target_->api.SetKernelArg(k.handle, at, dynamic_memory(what), nullptr); s != cl::success)
    target_->fail(s, "launch the kernel " + quoted(what.code->name) + ", for its dynamic memory");
}

void opencl_device::set_arguments(const opencl_kernel& k, const launch_request& what, cl::uint first) {
  const opencl_api& api = target_->api;
  const auto operation = [&] { return "launch the kernel " + quoted(what.code->name); };
  cl::status s = cl::success;
  cl::uint number = first;
  for (const argument& a : what.arguments) {
    if (a.value)
      s = api.SetKernelArg(k.handle, number, a.bytes, a.value);
    else if (target_->info.shares_host_memory) // null is an address too
      s = api.SetKernelArgSVMPointer(k.handle, number, static_cast<const std::byte*>(a.memory) + a.offset);
    else {
      cl::memory m = memory_of(a.memory);
      if (m && a.offset) parts_.push_back(m = part_of(m, a.offset, operation()));
      s = api.SetKernelArg(k.handle, number, sizeof m, &m);
    }
    if (s != cl::success) [[unlikely]]
      target_->fail(
          s,
          operation() + ", for its parameter " + std::to_string(number - first + 1) +
              (a.value ? ", which was given " + std::to_string(a.bytes) + " bytes" : ", which was given an object"),
          false, target_->info.shares_host_memory && !a.value ? "try --tern-hetero-opencl-memory=buffers" : "");
    ++number;
  }
}

ticket opencl_device::call(cl::queue q, const launch_request& what) {
  const opencl_api& api = target_->api;
  constexpr const char* operation = "run what a function has put into its queue";
  // Buffers over what lies in the host's memory. The driver keeps what commands need.
  struct lent {
    ~lent() {
      for (const argument& a : buffers) api.ReleaseMemObject(memory_of(a.memory));
    }
    const opencl_api& api;
    std::vector<argument> buffers;
  } over_host{api, {}};
  std::vector<argument> memory(what.arguments.begin(), what.arguments.end());
  if (target_->info.shares_host_memory)
    for (argument& a : memory) {
      cl::status s = cl::success;
      a.memory = api.CreateBuffer(target_->context, cl::mem_read_write | cl::mem_use_host_ptr, a.bytes,
                                  static_cast<std::byte*>(a.memory) + a.offset, &s);
      if (s != cl::success)
        target_->fail(s, "make a buffer of " + std::to_string(a.bytes) + " bytes of the host's memory", false,
                      "try --tern-hetero-opencl-memory=buffers");
      a.offset = 0;
      over_host.buffers.push_back(a);
    }
  if (!after_.empty()) // in this queue, for all that is put there
    if (const cl::status s =
            api.EnqueueBarrierWithWaitList(q, static_cast<cl::uint>(after_.size()), after_.data(), nullptr);
        s != cl::success)
      target_->fail(s, operation);
  const native_queue here{device_kind::opencl, target_->info.id.c_str(), q, target_->context, target_->device};
  const signal_guard keep; // it may compile
  try {
    what.call(*what.task, here, memory.data());
    for (const argument& a : over_host.buffers) { // until it is mapped, a device may keep what was written to itself
      cl::status s = cl::success;
      void* const at =
          api.EnqueueMapBuffer(q, memory_of(a.memory), 0, cl::map_read, 0, a.bytes, 0, nullptr, nullptr, &s);
      if (s == cl::success) s = api.EnqueueUnmapMemObject(q, memory_of(a.memory), at, 0, nullptr, nullptr);
      if (s != cl::success) target_->fail(s, operation);
    }
  } catch (...) {
    api.Finish(q); // what has been begun works on memory that is given away now
    throw;
  }
  return marker(q, operation, nullptr);
}

ticket opencl_device::launch(int stream, const launch_request& given) {
  const cl::queue q = queue(stream);
  if (!events_of(given.after, after_)) {
    const ticket t = marker(q, "run the kernel", given.code ? given.code->name : nullptr);
    find(t)->skipped = true;
    return t;
  }
  if (given.call) return call(q, given);
  const opencl_kernel& k = programs_.get(*given.code);
  launch_request what = given;
  what.shape = fitted(given.shape, static_cast<std::int64_t>(k.max_items), target_->info.max_group);
  check(k, what);
  constexpr const char* operation = "run the kernel";
  if (what.shape.count() == 0) return marker(q, operation, what.code->name);

  const release_parts release{target_->api, parts_};
  set_dynamic(k, what);
  set_arguments(k, what, what.code->form == code_form::dialect ? 1 : 0);
  return enqueue(q, k, what);
}

ticket opencl_device::enqueue(cl::queue q, const opencl_kernel& k, const launch_request& what) {
  constexpr const char* operation = "run the kernel";
  std::array<std::size_t, 3> items{}, local{};
  cl::uint dimensions = 1;
  for (cl::uint d = 0; d < 3; ++d) {
    local[d] = static_cast<std::size_t>(what.shape.items[d]);
    items[d] = local[d] * static_cast<std::size_t>(what.shape.groups[d]);
    if (items[d] > 1) dimensions = d + 1;
  }
  cl::event event = nullptr;
  std::optional<signal_guard> keep;   // what is launched for the first time is compiled now
  std::optional<trace::region> first; // its bar is longer, and one sees why
  if (!std::exchange(k.launched, true)) [[unlikely]] {
    keep.emplace();
    if (trace::on()) first.emplace("first launch of " + std::string(what.code->name));
  }
  const cl::status s = target_->api.EnqueueNDRangeKernel(q, k.handle, dimensions, nullptr, items.data(), local.data(),
                                                         static_cast<cl::uint>(after_.size()),
                                                         after_.empty() ? nullptr : after_.data(), &event);
  if (s != cl::success) [[unlikely]]
    target_->fail(s, "launch the kernel " + quoted(what.code->name), false,
                  s == cl::out_of_resources ? "smaller groups need less of what it has" : "");
  return begin(q, event, operation, what.code->name);
}

} // namespace tern::hetero::detail
