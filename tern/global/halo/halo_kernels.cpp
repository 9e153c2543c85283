// SPDX-License-Identifier: Apache-2.0
#include <tern/global/halo/halo_kernels.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

#include <tern/hetero/dialect.hpp>
#include <tern/hetero/hetero_task.hpp>

// Both ends of a side agree on the order of its cells: the first axis of a part is along the side.
// A group has some rows along that axis, of one part.
TERN_KERNELS_BEGIN(tern_halo)
#define HALO_ROWS 16

typedef struct {
  int at_x, at_y, at_z;       // the first cell, in the field
  int length, rows, in_plane; // cells of a row; rows; of them, those of a plane
  int axes;                   // of cells, rows and planes: 0: x, y, z. 1: y, x, z. 2: z, x, y
} halo_box;

typedef struct {
  halo_box box;
  int part;       // which one, of those that are
  int offset;     // of its first cell, if they are packed one after the other
  int first, row; // cell and row where the group begins
} halo_work;

TERN_FN int halo_low(int step, int n, int width, int ghost) {
  if (step == 0) return width;
  if (ghost != 0) return step < 0 ? 0 : n + width;
  return step < 0 ? width : n;
}

// What lies at a side: ghost layers, or what the neighbour needs.
TERN_FN halo_box halo_box_at(int side, int ghost, int nx, int ny, int nz, int wx, int wy, int wz) {
  const int dx = side % 3 - 1, dy = side / 3 % 3 - 1, dz = side / 9 - 1;
  const int ex = dx == 0 ? nx : wx, ey = dy == 0 ? ny : wy, ez = dz == 0 ? nz : wz;
  halo_box b;
  b.at_x = halo_low(dx, nx, wx, ghost);
  b.at_y = halo_low(dy, ny, wy, ghost);
  b.at_z = halo_low(dz, nz, wz, ghost);
  b.axes = dx == 0 || (ey <= wx && ez <= wx) ? 0 : ey >= ez ? 1 : 2;
  b.length = b.axes == 0 ? ex : b.axes == 1 ? ey : ez;
  b.in_plane = b.axes == 0 ? ey : ex;
  b.rows = b.in_plane * (b.axes == 2 ? ey : ez);
  return b;
}

TERN_FN int halo_groups(halo_box b, int size) {
  return (b.length + size - 1) / size * ((b.rows + HALO_ROWS - 1) / HALO_ROWS);
}

// What is a group's work, of all sides.
TERN_FN halo_work halo_work_of(int number, int size, int sides, int ghost, int nx, int ny, int nz, int wx, int wy,
                               int wz) {
  halo_work w;
  w.part = 0;
  w.offset = 0;
  w.first = 0;
  w.row = 0;
  w.box = halo_box_at(13, ghost, nx, ny, nz, wx, wy, wz);
  w.box.rows = 0;
  int left = number, found = 0;
  for (int side = 0; side < 27; ++side) {
    if (found == 0 && (sides >> side & 1) != 0) {
      const halo_box b = halo_box_at(side, ghost, nx, ny, nz, wx, wy, wz);
      const int groups = halo_groups(b, size);
      if (left < groups) {
        const int across = (b.length + size - 1) / size;
        w.box = b;
        w.first = left % across * size;
        w.row = left / across * HALO_ROWS;
        found = 1;
      } else {
        left -= groups;
        w.offset += b.length * b.rows;
        ++w.part;
      }
    }
  }
  return w;
}

// Where a row begins in the field.
TERN_FN long halo_row_at(halo_box b, int row, int first, int pitch, int slice) {
  const int second = row % b.in_plane, third = row / b.in_plane;
  const int x = b.at_x + (b.axes == 0 ? first : second);
  const int y = b.at_y + (b.axes == 0 ? second : b.axes == 1 ? first : third);
  const int z = b.at_z + (b.axes == 2 ? first : third);
  return (long)z * slice + (long)y * pitch + x;
}

// `from` and `to` are expressions of what begins a row. Rows along x are copied as they lie.
#define HALO_COPY(from_step, to_step)                                                                                  \
  if (stride == 1) {                                                                                                   \
    TERN_REGION_IN(group.x* group.size_x + length, 1, 1) { to[item.local_x] = from[item.local_x]; };                   \
  } else {                                                                                                             \
    TERN_REGION_IN(group.x* group.size_x + length, 1, 1) {                                                             \
      to[(long)item.local_x * (to_step)] = from[(long)item.local_x * (from_step)];                                     \
    };                                                                                                                 \
  }
#define HALO_PACK(pack_name, real)                                                                                     \
  TERN_KERNEL(pack_name, int sides, int nx, int ny, int nz, int wx, int wy, int wz, int pitch, int slice,              \
              TERN_GLOBAL const real* field, TERN_GLOBAL real* packed) {                                               \
    const halo_work w = halo_work_of(group.x, group.size_x, sides, 0, nx, ny, nz, wx, wy, wz);                         \
    const int length = min(group.size_x, w.box.length - w.first), last = min(w.box.rows, w.row + HALO_ROWS);           \
    const int stride = w.box.axes == 0 ? 1 : w.box.axes == 1 ? pitch : slice;                                          \
    for (int r = w.row; r < last; ++r) {                                                                               \
      TERN_GLOBAL const real* const from = field + halo_row_at(w.box, r, w.first, pitch, slice);                       \
      TERN_GLOBAL real* const to = packed + w.offset + r * w.box.length + w.first;                                     \
      HALO_COPY(stride, 1)                                                                                             \
    }                                                                                                                  \
  }
// The macros' parameters have different names: what reads the text for CUDA takes one that two
// TERN_KERNELs begin with for two kernels. `parts`: a list of pointers to what has come, by side.
#define HALO_UNPACK(unpack_name, real, count, parameters, parts)                                                       \
  TERN_KERNEL(unpack_name, int sides, int nx, int ny, int nz, int wx, int wy, int wz, int pitch, int slice,            \
              TERN_GLOBAL real* field, parameters(TERN_GLOBAL const real*)) {                                          \
    const halo_work w = halo_work_of(group.x, group.size_x, sides, 1, nx, ny, nz, wx, wy, wz);                         \
    const int length = min(group.size_x, w.box.length - w.first), last = min(w.box.rows, w.row + HALO_ROWS);           \
    const int stride = w.box.axes == 0 ? 1 : w.box.axes == 1 ? pitch : slice;                                          \
    TERN_GLOBAL const real* const all[count] = {parts};                                                                \
    TERN_GLOBAL const real* const packed = all[min(w.part, count - 1)];                                                \
    for (int r = w.row; r < last; ++r) {                                                                               \
      TERN_GLOBAL const real* const from = packed + r * w.box.length + w.first;                                        \
      TERN_GLOBAL real* const to = field + halo_row_at(w.box, r, w.first, pitch, slice);                               \
      HALO_COPY(1, stride)                                                                                             \
    }                                                                                                                  \
  }
#define HALO_LIST_8 p0, p1, p2, p3, p4, p5, p6, p7
#define HALO_LIST_26 HALO_LIST_8, p8, p9, p10, p11, p12, p13, p14, p15, p16, p17, p18, p19, p20, p21, p22, p23, p24, p25
#define HALO_PARAMETERS_8(type) type p0, type p1, type p2, type p3, type p4, type p5, type p6, type p7
#define HALO_PARAMETERS_26(type)                                                                                       \
  HALO_PARAMETERS_8(type), type p8, type p9, type p10, type p11, type p12, type p13, type p14, type p15, type p16,     \
      type p17, type p18, type p19, type p20, type p21, type p22, type p23, type p24, type p25
HALO_PACK(pack_float, float)
HALO_PACK(pack_double, double)
HALO_PACK(pack_int, int)
HALO_UNPACK(unpack_8_float, float, 8, HALO_PARAMETERS_8, HALO_LIST_8)
HALO_UNPACK(unpack_8_double, double, 8, HALO_PARAMETERS_8, HALO_LIST_8)
HALO_UNPACK(unpack_8_int, int, 8, HALO_PARAMETERS_8, HALO_LIST_8)
HALO_UNPACK(unpack_26_float, float, 26, HALO_PARAMETERS_26, HALO_LIST_26)
HALO_UNPACK(unpack_26_double, double, 26, HALO_PARAMETERS_26, HALO_LIST_26)
HALO_UNPACK(unpack_26_int, int, 26, HALO_PARAMETERS_26, HALO_LIST_26)
TERN_KERNELS_END(tern_halo)

namespace tern::global::detail {
namespace {

using hetero::detail::asked;
using hetero::detail::box;
using hetero::detail::object_state;

template <class T> constexpr const auto& pack_of() {
  if constexpr (std::is_same_v<T, float>)
    return tern_halo::pack_float;
  else if constexpr (std::is_same_v<T, double>)
    return tern_halo::pack_double;
  else
    return tern_halo::pack_int;
}
template <class T, bool Many> constexpr const auto& unpack_of() {
  if constexpr (std::is_same_v<T, float> && Many)
    return tern_halo::unpack_26_float;
  else if constexpr (std::is_same_v<T, float>)
    return tern_halo::unpack_8_float;
  else if constexpr (std::is_same_v<T, double> && Many)
    return tern_halo::unpack_26_double;
  else if constexpr (std::is_same_v<T, double>)
    return tern_halo::unpack_8_double;
  else if constexpr (Many)
    return tern_halo::unpack_26_int;
  else
    return tern_halo::unpack_8_int;
}

/// The numbers that both kernels begin with.
struct halo_launch {
  int sides, nx, ny, nz, wx, wy, wz;
  items groups;
};

int halo_int(std::int64_t n) { return static_cast<int>(n); }

halo_launch launch_of(const halo_layout& of, int ghost) {
  const halo_place& n = of.numbers().cells;
  halo_launch l{static_cast<int>(of.sides()), halo_int(n[2]),        halo_int(n[1]),        halo_int(n[0]),
                halo_int(of.width(2)),        halo_int(of.width(1)), halo_int(of.width(0)), items(1)};
  const auto box_at = [&](int side) { return tern_halo::halo_box_at(side, ghost, l.nx, l.ny, l.nz, l.wx, l.wy, l.wz); };
  int longest = 0;
  for (int side = 0; side < halo_side_count; ++side)
    if (of.has(side)) longest = std::max(longest, box_at(side).length);
  const int size = std::clamp((longest + 31) / 32 * 32, 32, 256);
  std::int64_t groups = 0;
  for (int side = 0; side < halo_side_count; ++side)
    if (of.has(side)) groups += tern_halo::halo_groups(box_at(side), size);
  l.groups = items(groups * size).group(size);
  return l;
}

template <class T, std::size_t... I>
void unpack_by(const halo_layout& of, object_state* field, const box& part, std::span<const hetero_object<T>> from,
               std::index_sequence<I...>) {
  const halo_launch l = launch_of(of, 1);
  submit(unpack_of<T, (sizeof...(I) > 8)>(), l.groups, l.sides, l.nx, l.ny, l.nz, l.wx, l.wy, l.wz,
         hetero::detail::number_of<T, 3>{field, part, asked::pitch},
         hetero::detail::number_of<T, 3>{field, part, asked::slice},
         hetero::detail::used<T, 3>{field, part, access_mode::read_write}, read(from[I < from.size() ? I : 0])...);
}

} // namespace

template <class T>
void submit_pack(const halo_layout& of, object_state* field, const box& part, const hetero_object<T>& to) {
  const halo_launch l = launch_of(of, 0);
  submit(pack_of<T>(), l.groups, l.sides, l.nx, l.ny, l.nz, l.wx, l.wy, l.wz,
         hetero::detail::number_of<const T, 3>{field, part, asked::pitch},
         hetero::detail::number_of<const T, 3>{field, part, asked::slice},
         hetero::detail::used<const T, 3>{field, part, access_mode::read}, write(to));
}

template <class T>
void submit_unpack(const halo_layout& of, object_state* field, const box& part,
                   std::span<const hetero_object<T>> from) {
  if (from.size() <= 8)
    unpack_by(of, field, part, from, std::make_index_sequence<8>());
  else
    unpack_by(of, field, part, from, std::make_index_sequence<26>());
}

#define HALO_MAKE(T)                                                                                                   \
  template void submit_pack(const halo_layout&, object_state*, const box&, const hetero_object<T>&);                   \
  template void submit_unpack(const halo_layout&, object_state*, const box&, std::span<const hetero_object<T>>);
HALO_MAKE(float)
HALO_MAKE(double)
HALO_MAKE(int)

} // namespace tern::global::detail
