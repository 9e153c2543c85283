// SPDX-License-Identifier: Apache-2.0
// The mock driver's copies: all shapes become rows of slices, which are checked before they are put
// into a stream.
#include <algorithm>
#include <optional>

#include "state.hpp"

namespace mock {
namespace {

constexpr std::size_t most_pitch = 2147483647;

struct side {
  const char* first;
  std::size_t pitch, slice;
  bool on_device;
  int device = -1; ///< the device that it belongs to; -1: that of the context
  std::uintptr_t row(std::size_t rows, std::size_t n) const {
    return address(first) + n / rows * slice + n % rows * pitch;
  }
};

// One past its last byte; none if no number can hold it.
std::optional<std::uintptr_t> end_of(const copy_work& w, const side& s) {
  std::size_t rows = 0, slices = 0, end = address(s.first);
  if (__builtin_mul_overflow(w.rows - 1, s.pitch, &rows) || __builtin_mul_overflow(w.slices - 1, s.slice, &slices) ||
      __builtin_add_overflow(end, rows, &end) || __builtin_add_overflow(end, slices, &end) ||
      __builtin_add_overflow(end, w.row_bytes, &end))
    return std::nullopt;
  return end;
}

// Do rows of the two share a byte? Rows of each come one after the other.
bool overlap(const copy_work& w, const side& a, const side& b) {
  const std::size_t n = w.rows * w.slices;
  for (std::size_t i = 0, j = 0; i < n && j < n;) {
    const std::uintptr_t x = a.row(w.rows, i), y = b.row(w.rows, j);
    if (x + w.row_bytes <= y)
      ++i;
    else if (y + w.row_bytes <= x)
      ++j;
    else
      return true;
  }
  return false;
}

// Checks one side. \param uses gets memory that must stay until the copy is done.
// \param pageable is set if it is the host's and not registered.
bool check(call& c, const copy_work& w, const side& s, const char* which, std::vector<range>& uses, bool& pageable) {
  const int device = s.device < 0 ? c.at : s.device;
  const auto end = end_of(w, s);
  const std::uintptr_t begin = address(s.first);
  const std::string what = std::to_string(w.row_bytes * w.rows * w.slices) + " bytes: the " + which + " " + hex(begin);
  const auto refuse = [&](const std::string& why) {
    c.failed = c.misuse(invalid_value, what + " " + why);
    return false;
  };
  if (!s.first) return refuse("is null");
  if (!end) return refuse("goes beyond all memory");
  const auto found = find_memory(c.s, begin);
  if (s.on_device) {
    if (found == c.s.memory.end()) {
      for (const auto& [from, bytes] : c.s.freed)
        if (from <= begin && begin < from + bytes) return refuse("has been freed");
      return refuse("is no memory of a device");
    }
    if (found->second.device != device) return refuse("is of device " + std::to_string(found->second.device));
    if (*end > found->first + found->second.bytes)
      return refuse("goes " + std::to_string(*end - found->first - found->second.bytes) + " bytes beyond allocation " +
                    std::to_string(found->second.serial) + ", which has " + std::to_string(found->second.bytes));
    uses.push_back({begin, *end});
    return true;
  }
  if (found != c.s.memory.end()) return refuse("is memory of a device, not of the host");
  auto one = c.s.registered.upper_bound(begin);
  if (one != c.s.registered.end() && one->first < *end) return refuse("is registered in part only");
  if (one == c.s.registered.begin()) return pageable = true;
  --one;
  if (begin >= one->first + one->second.bytes) return pageable = true;
  if (*end > one->first + one->second.bytes) return refuse("is registered in part only");
  if (!one->second.portable && one->second.device != c.at) return pageable = true;
  uses.push_back({begin, *end});
  return true;
}

cu::result copy(call& c, copy_work w, cu::stream h) {
  if (c.failed) return c.failed;
  const auto to = c.find_stream(h);
  if (!to) return c.failed;
  if (c.s.set.fail_copy > 0 && --c.s.set.fail_copy == 0) return cu::out_of_memory;
  ++c.s.counted.copies;
  ++(w.way == 0   ? c.s.counted.copies_to_device
     : w.way == 1 ? c.s.counted.copies_from_device
     : w.way == 2 ? c.s.counted.copies_within
                  : c.s.counted.copies_between);
  if (w.row_bytes == 0 || w.rows == 0 || w.slices == 0) return 0;
  const side from{w.from, w.from_pitch, w.from_slice, w.way != 0, w.source},
      into{w.to, w.to_pitch, w.to_slice, w.way != 1};
  operation op;
  op.is = work::copy;
  bool pageable = false;
  if (!check(c, w, from, "source", op.uses, pageable) || !check(c, w, into, "destination", op.uses, pageable))
    return c.failed;
  if (w.way >= 2 && overlap(w, from, into))
    return c.misuse(invalid_value,
                    "the source " + hex(address(w.from)) + " and the destination " + hex(address(w.to)) + " overlap");
  c.s.counted.copied_bytes += w.row_bytes * w.rows * w.slices;
  c.s.counted.pageable_copies += pageable;
  if (pageable && w.way == 0 && !to->capturing) {
    w.kept = std::make_shared<std::vector<char>>(w.row_bytes * w.rows * w.slices);
    copy_work read = w;
    read.kept = nullptr;
    read.to = w.kept->data();
    read.to_pitch = w.row_bytes;
    read.to_slice = w.row_bytes * w.rows;
    run_copy(read);
    w.from = w.kept->data();
    w.from_pitch = read.to_pitch;
    w.from_slice = read.to_slice;
  }
  op.copy = std::move(w);
  const bool waits = pageable && op.copy.way == 1;
  const point done = c.put(*to, std::move(op));
  if (!waits || !done) return 0;
  c.finish(done, c.at);
  return c.status();
}

copy_work plain(const void* from, void* to, std::size_t bytes, int way) {
  copy_work w;
  w.from = static_cast<const char*>(from);
  w.to = static_cast<char*>(to);
  w.row_bytes = bytes;
  w.way = way;
  return w;
}

// What 2D and 3D copies have in common.
bool check_kinds(call& c, copy_work& w, unsigned from, unsigned to) {
  const auto known = [](unsigned kind) { return kind == cu::memory_host || kind == cu::memory_device; };
  if (!known(from) || !known(to) || (from == cu::memory_host && to == cu::memory_host)) {
    c.failed = c.misuse(invalid_value, "the mock copies between the host and devices, and within devices");
    return false;
  }
  w.way = from == cu::memory_host ? 0 : to == cu::memory_host ? 1 : 2;
  return true;
}

bool check_pitch(call& c, const char* which, std::size_t pitch, std::size_t x, const copy_work& w) {
  if (pitch >= x + w.row_bytes && pitch <= most_pitch) return true;
  c.failed = c.misuse(invalid_value, "the " + std::string(which) + "'s pitch " + std::to_string(pitch) +
                                         " is smaller than its rows, which go to " + std::to_string(x + w.row_bytes) +
                                         ", or too large");
  return false;
}

bool check_height(call& c, const char* which, std::size_t height, std::size_t y, const copy_work& w) {
  if (w.slices <= 1 || height >= y + w.rows) return true;
  c.failed = c.misuse(invalid_value, "the " + std::string(which) + "'s height " + std::to_string(height) +
                                         " is smaller than its rows, which go to " + std::to_string(y + w.rows));
  return false;
}

// What the two calls for boxes have in common.
bool read_box(call& c, const cu::copy_3d& what, copy_work& w) {
  if (!check_kinds(c, w, what.src_memory, what.dst_memory)) return false;
  const auto refuse = [&](const char* why) {
    c.failed = c.misuse(invalid_value, why);
    return false;
  };
  if (what.src_lod != 0 || what.dst_lod != 0) return refuse("a level of detail is not 0");
  w.row_bytes = what.row_bytes;
  w.rows = what.rows;
  w.slices = what.slices;
  if (!check_pitch(c, "source", what.src_pitch, what.src_x, w) ||
      !check_pitch(c, "destination", what.dst_pitch, what.dst_x, w) ||
      !check_height(c, "source", what.src_height, what.src_y, w) ||
      !check_height(c, "destination", what.dst_height, what.dst_y, w))
    return false;
  const char* const from = w.way == 0 ? static_cast<const char*>(what.src_host) : bytes_at(what.src_device);
  char* const to = w.way == 1 ? static_cast<char*>(what.dst_host) : bytes_at(what.dst_device);
  if (!from || !to) return refuse("the source or the destination is null");
  w.from_pitch = what.src_pitch;
  w.to_pitch = what.dst_pitch;
  w.from_slice = what.src_pitch * what.src_height;
  w.to_slice = what.dst_pitch * what.dst_height;
  w.from = from + what.src_z * w.from_slice + what.src_y * what.src_pitch + what.src_x;
  w.to = to + what.dst_z * w.to_slice + what.dst_y * what.dst_pitch + what.dst_x;
  return true;
}

// From another device to that of the context.
bool set_source(call& c, copy_work& w, cu::context to, cu::context from) {
  const auto refuse = [&](const std::string& why) {
    c.failed = c.misuse(invalid_context, why);
    return false;
  };
  if (number_of(to) != c.here().context) return refuse("the mock copies to the current context only");
  for (std::size_t i = 0; i < c.s.devices.size(); ++i)
    if (from && c.s.devices[i].context == number_of(from)) w.source = static_cast<int>(i);
  if (w.source < 0) return refuse("the source's context is none");
  if (w.way != 2) return refuse("the source or the destination is no device");
  w.way = 3;
  return true;
}

} // namespace
} // namespace mock

using namespace mock;

MOCK_EXPORT cu::result cuMemcpyHtoDAsync_v2(cu::pointer to, const void* from, std::size_t bytes, cu::stream h) {
  call c("cuMemcpyHtoDAsync", needs::context);
  return copy(c, plain(from, bytes_at(to), bytes, 0), h);
}

MOCK_EXPORT cu::result cuMemcpyDtoHAsync_v2(void* to, cu::pointer from, std::size_t bytes, cu::stream h) {
  call c("cuMemcpyDtoHAsync", needs::context);
  return copy(c, plain(bytes_at(from), to, bytes, 1), h);
}

MOCK_EXPORT cu::result cuMemcpyDtoDAsync_v2(cu::pointer to, cu::pointer from, std::size_t bytes, cu::stream h) {
  call c("cuMemcpyDtoDAsync", needs::context);
  return copy(c, plain(bytes_at(from), bytes_at(to), bytes, 2), h);
}

MOCK_EXPORT cu::result cuMemcpy2DAsync_v2(const cu::copy_2d* what, cu::stream h) {
  call c("cuMemcpy2DAsync", needs::context);
  copy_work w;
  if (c.failed || !check_kinds(c, w, what->src_memory, what->dst_memory)) return c.failed;
  w.row_bytes = what->row_bytes;
  w.rows = what->rows;
  if (!check_pitch(c, "source", what->src_pitch, what->src_x, w) ||
      !check_pitch(c, "destination", what->dst_pitch, what->dst_x, w))
    return c.failed;
  const char* const from = w.way == 0 ? static_cast<const char*>(what->src_host) : bytes_at(what->src_device);
  char* const to = w.way == 1 ? static_cast<char*>(what->dst_host) : bytes_at(what->dst_device);
  if (!from || !to) return c.misuse(invalid_value, "the source or the destination is null");
  w.from = from + what->src_y * what->src_pitch + what->src_x;
  w.to = to + what->dst_y * what->dst_pitch + what->dst_x;
  w.from_pitch = what->src_pitch;
  w.to_pitch = what->dst_pitch;
  return copy(c, w, h);
}

MOCK_EXPORT cu::result cuMemcpy3DAsync_v2(const cu::copy_3d* what, cu::stream h) {
  call c("cuMemcpy3DAsync", needs::context);
  copy_work w;
  if (c.failed || !read_box(c, *what, w)) return c.failed;
  return copy(c, w, h);
}

MOCK_EXPORT cu::result cuDeviceCanAccessPeer(int* to, cu::device of, cu::device other) {
  call c("cuDeviceCanAccessPeer", needs::init);
  if (c.failed) return c.failed;
  const auto known = [&](cu::device d) { return d >= 0 && d < static_cast<int>(c.s.devices.size()); };
  if (!known(of) || !known(other)) return c.misuse(invalid_device, "there is no such device");
  *to = of != other && c.s.set.peers;
  return 0;
}

MOCK_EXPORT cu::result cuCtxEnablePeerAccess(cu::context other, unsigned flags) {
  call c("cuCtxEnablePeerAccess", needs::context);
  if (c.failed) return c.failed;
  copy_work w;
  w.way = 2;
  if (flags != 0) return c.misuse(invalid_value, "flags are 0");
  if (!set_source(c, w, as_handle<cu::context>(c.here().context), other)) return c.failed;
  if (w.source == c.at) return c.misuse(invalid_context, "it is the current context");
  if (!c.s.set.peers) return cu::peer_access_unsupported;
  if (!c.here().reached.insert(other ? number_of(other) : 0).second) return cu::peer_access_already_enabled;
  return 0;
}

MOCK_EXPORT cu::result cuMemcpyPeerAsync(cu::pointer to, cu::context to_context, cu::pointer from,
                                         cu::context from_context, std::size_t bytes, cu::stream h) {
  call c("cuMemcpyPeerAsync", needs::context);
  copy_work w = plain(bytes_at(from), bytes_at(to), bytes, 2);
  if (c.failed || !set_source(c, w, to_context, from_context)) return c.failed;
  return copy(c, w, h);
}

MOCK_EXPORT cu::result cuMemcpy3DPeerAsync(const cu::copy_3d* what, cu::stream h) {
  call c("cuMemcpy3DPeerAsync", needs::context);
  copy_work w;
  if (c.failed || !read_box(c, *what, w) || !set_source(c, w, what->dst_context, what->src_context)) return c.failed;
  return copy(c, w, h);
}
