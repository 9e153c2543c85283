// SPDX-License-Identifier: Apache-2.0
// Copies to, from, within and between CUDA devices.
#include <algorithm>
#include <string>
#include <utility>

#include <tern/hetero/device/cuda/cuda_device.hpp>

namespace tern::hetero::detail {
namespace {

struct side { // of a copy
  unsigned memory;
  cu::pointer device = 0;
  std::byte* host = nullptr;
  std::size_t pitch = 0, slice = 0;
  cu::context in = nullptr; ///< of another device's memory
  side after(std::size_t bytes) const noexcept {
    side s = *this;
    if (s.host)
      s.host += bytes;
    else
      s.device += bytes;
    return s;
  }
};

side device_side(const copy_request& w) {
  return {cu::memory_device, address_of(w.device) + w.offset, nullptr, w.pitch, w.slice};
}
side other_side(const copy_request& w) {
  if (!is_of_host(w.way))
    return {cu::memory_device, address_of(w.from) + w.from_offset, nullptr, w.from_pitch, w.from_slice};
  return {cu::memory_host, 0, w.host, w.host_pitch, w.host_slice};
}

cu::result copy_row(const cuda_api& api, cu::stream s, const side& to, const side& from, std::size_t bytes) {
  if (from.in) return api.MemcpyPeerAsync(to.device, to.in, from.device, from.in, bytes, s);
  if (to.host) return api.MemcpyDtoHAsync(to.host, from.device, bytes, s);
  if (from.host) return api.MemcpyHtoDAsync(to.device, from.host, bytes, s);
  return api.MemcpyDtoDAsync(to.device, from.device, bytes, s);
}

template <class Copy> Copy strided(const side& to, const side& from) {
  Copy c;
  c.src_memory = from.memory;
  c.src_host = from.host;
  c.src_device = from.device;
  c.src_pitch = from.pitch;
  c.dst_memory = to.memory;
  c.dst_host = to.host;
  c.dst_device = to.device;
  c.dst_pitch = to.pitch;
  return c;
}

} // namespace

void cuda_device::copy_rows(cu::stream s, const copy_request& what) {
  const cuda_api& api = target_->api;
  const copy_request flat = flattened(what);
  const std::size_t row_bytes = flat.row_bytes, rows = flat.rows, slices = flat.slices;
  side here = device_side(flat), there = other_side(flat);
  if (flat.way == direction::between) {
    here.in = target_->context;
    there.in = static_cast<const cuda_device*>(flat.source)->target_->context; // \pre of reaches
  }
  const side &to = flat.way == direction::from_device ? there : here,
             &from = flat.way == direction::from_device ? here : there;
  const auto check = [&](cu::result r) {
    if (r == cu::success) [[likely]]
      return;
    api.StreamSynchronize(s); // rows that were begun go on, and the caller cannot wait for them
    target_->fail(r, "copy " + std::to_string(row_bytes * rows * slices) + " bytes, " + std::to_string(rows * slices) +
                         " rows");
  };
  const auto put = [&](cu::copy_3d& c) {
    if (!from.in) return api.Memcpy3DAsync(&c, s);
    c.src_context = from.in;
    c.dst_context = to.in;
    return api.Memcpy3DPeerAsync(&c, s);
  };
  if (rows == 1 && slices == 1) return check(copy_row(api, s, to, from, row_bytes));
  constexpr std::size_t largest_pitch = 0x7fffffff; // of any device (CU_DEVICE_ATTRIBUTE_MAX_PITCH)
  const bool rows_fit = rows == 1 || (to.pitch >= row_bytes && from.pitch >= row_bytes && to.pitch <= largest_pitch &&
                                      from.pitch <= largest_pitch);
  const auto slices_fit = [&](const side& x) { return x.pitch && x.slice % x.pitch == 0 && x.slice >= rows * x.pitch; };
  if (rows_fit && slices > 1 && slices_fit(to) && slices_fit(from)) {
    auto c = strided<cu::copy_3d>(to, from);
    c.src_height = from.slice / from.pitch;
    c.dst_height = to.slice / to.pitch;
    c.row_bytes = row_bytes;
    c.rows = rows;
    c.slices = slices;
    return check(put(c));
  }
  // What is no such box is copied slice by slice, or row by row.
  for (std::size_t z = 0; z < slices; ++z) {
    const side a = to.after(z * to.slice), b = from.after(z * from.slice);
    if (rows_fit && from.in) { // there is no such call for rows alone
      auto c = strided<cu::copy_3d>(a, b);
      c.row_bytes = row_bytes;
      c.rows = c.src_height = c.dst_height = rows;
      c.slices = 1;
      check(put(c));
    } else if (rows_fit) {
      auto c = strided<cu::copy_2d>(a, b);
      c.row_bytes = row_bytes;
      c.rows = rows;
      check(api.Memcpy2DAsync(&c, s));
    } else {
      for (std::size_t y = 0; y < rows; ++y)
        check(copy_row(api, s, a.after(y * a.pitch), b.after(y * b.pitch), row_bytes));
    }
  }
}

bool cuda_device::reaches(const device& from) const noexcept {
  const auto* const other = dynamic_cast<const cuda_device*>(&from);
  const auto& all = target_->peers;
  return other && switches_.peers && std::find(all.begin(), all.end(), other->target_->number) != all.end();
}

// Without it the driver would copy through the host's memory.
void cuda_device::allow_access_to(const cuda_target& other) {
  if (std::find(reached_.begin(), reached_.end(), other.number) != reached_.end()) return;
  const cu::result r = target_->api.CtxEnablePeerAccess(other.context, 0);
  if (r != cu::success && r != cu::peer_access_already_enabled && r != cu::peer_access_unsupported &&
      r != cu::too_many_peers)
    target_->fail(r, "access the memory of " + other.title());
  reached_.push_back(other.number);
}

ticket cuda_device::copy(int stream, const copy_request& what) {
  target_->enter();
  queue& q = at(stream, what.way != direction::within);
  come_after(q, what.after, what.after_others);
  static constexpr const char* names[] = {"copy to the device", "copy from the device", "copy within the device",
                                          "copy from another device"};
  const char* const operation = names[static_cast<int>(what.way)];
  if (!what.device || !(is_of_host(what.way) ? static_cast<const void*>(what.host) : what.from))
    throw error(errc::invalid_argument, target_->title() + " cannot " + operation + ": there is no memory");
  if (what.way == direction::between) {
    if (!what.source || !reaches(*what.source))
      throw error(errc::invalid_argument, target_->title() + " cannot " + operation + ": it cannot reach that one");
    allow_access_to(*static_cast<const cuda_device*>(what.source)->target_);
  }
  cuda_streams::slot& s = queues_.reserve(operation, nullptr);
  if (const std::size_t bytes = what.row_bytes * what.rows * what.slices; bytes > 0) {
    cuda_timer::span time(*timer_, q.handle, timer_->is_turn_of_copy(what.way, bytes));
    target_->check(timer_->trouble(), operation);
    copy_rows(q.handle, what);
    s.timed = time.end();
  }
  return queues_.put(q, s, true);
}

} // namespace tern::hetero::detail
