// SPDX-License-Identifier: Apache-2.0
#include "apps/jacobi3d/kernel/sweep.hpp"

#include <algorithm>
#include <utility>

#include <tern/hetero/dialect.hpp>

// A group has some rows of one plane, or parts of them. Loops over x have no conditions that depend
// on memory, so the host's compiler makes vectors of them: at the ends of a row, what was read from
// beside it is replaced.
TERN_KERNELS_BEGIN(jacobi)
#define JACOBI_PAD 8
#define JACOBI_ROWS 16
#define JACOBI_SWEEP(name, real)                                                                                       \
  TERN_KERNEL(name, int nx, int ny, int nz, int sides, real alpha, real beta, TERN_GLOBAL const real* from,            \
              TERN_GLOBAL real* to, TERN_GLOBAL const real* west, TERN_GLOBAL const real* east,                        \
              TERN_GLOBAL const real* south, TERN_GLOBAL const real* north, TERN_GLOBAL const real* down,              \
              TERN_GLOBAL const real* up, TERN_GLOBAL real* to_west, TERN_GLOBAL real* to_east,                        \
              TERN_GLOBAL real* to_south, TERN_GLOBAL real* to_north, TERN_GLOBAL real* to_down,                       \
              TERN_GLOBAL real* to_up) {                                                                               \
    const int z = group.z, first = group.y * JACOBI_ROWS, last = min(ny, first + JACOBI_ROWS);                         \
    for (int y = first; y < last; ++y) {                                                                               \
      const int row = JACOBI_PAD + (z * ny + y) * nx;                                                                  \
      const real before = west[z * ny + y], behind = east[z * ny + y];                                                 \
      TERN_GLOBAL const real* const c = from + row;                                                                    \
      TERN_GLOBAL const real* const s = y > 0 ? c - nx : south + z * nx;                                               \
      TERN_GLOBAL const real* const n = y < ny - 1 ? c + nx : north + z * nx;                                          \
      TERN_GLOBAL const real* const d = z > 0 ? c - nx * ny : down + y * nx;                                           \
      TERN_GLOBAL const real* const u = z < nz - 1 ? c + nx * ny : up + y * nx;                                        \
      TERN_GLOBAL real* const o = to + row;                                                                            \
      TERN_REGION_IN(nx, group.count_y, nz) {                                                                          \
        const int x = item.x;                                                                                          \
        const real left = c[x - 1], right = c[x + 1];                                                                  \
        const real l = x > 0 ? left : before, r = x < nx - 1 ? right : behind;                                         \
        o[x] = alpha * c[x] + beta * (((((l + r) + s[x]) + n[x]) + d[x]) + u[x]);                                      \
      };                                                                                                               \
      if ((sides & 4) && y == 0) {                                                                                     \
        TERN_REGION_IN(nx, group.count_y, nz) { to_south[z * nx + item.x] = o[item.x]; };                              \
      }                                                                                                                \
      if ((sides & 8) && y == ny - 1) {                                                                                \
        TERN_REGION_IN(nx, group.count_y, nz) { to_north[z * nx + item.x] = o[item.x]; };                              \
      }                                                                                                                \
      if ((sides & 16) && z == 0) {                                                                                    \
        TERN_REGION_IN(nx, group.count_y, nz) { to_down[y * nx + item.x] = o[item.x]; };                               \
      }                                                                                                                \
      if ((sides & 32) && z == nz - 1) {                                                                               \
        TERN_REGION_IN(nx, group.count_y, nz) { to_up[y * nx + item.x] = o[item.x]; };                                 \
      }                                                                                                                \
    }                                                                                                                  \
    TERN_BARRIER();                                                                                                    \
    if ((sides & 1) && group.x == 0) {                                                                                 \
      TERN_REGION_IN(JACOBI_ROWS, group.count_y, nz) {                                                                 \
        const int y = first + item.local_x;                                                                            \
        if (y < last) to_west[z * ny + y] = to[JACOBI_PAD + (z * ny + y) * nx];                                        \
      };                                                                                                               \
    }                                                                                                                  \
    if ((sides & 2) && group.x == group.count_x - 1) {                                                                 \
      TERN_REGION_IN(group.x* group.size_x + JACOBI_ROWS, group.count_y, nz) {                                         \
        const int y = first + item.local_x;                                                                            \
        if (y < last) to_east[z * ny + y] = to[JACOBI_PAD + (z * ny + y) * nx + nx - 1];                               \
      };                                                                                                               \
    }                                                                                                                  \
  }
// The same with a cell an item, in groups that divide the block. PoCL makes vectors of this: in a
// loop over rows each item would go through all of them by itself; a condition at the ends of a
// block makes each store a masked one; and several conditions in one step are asked of each item.
#ifdef POCL_DEVICE_ADDRESS_BITS
#define JACOBI_APART() TERN_BARRIER()
#else
#define JACOBI_APART() (void)0
#endif
#define JACOBI_CELLS(name, real)                                                                                       \
  TERN_KERNEL(name, int nx, int ny, int nz, int sides, real alpha, real beta, TERN_GLOBAL const real* from,            \
              TERN_GLOBAL real* to, TERN_GLOBAL const real* west, TERN_GLOBAL const real* east,                        \
              TERN_GLOBAL const real* south, TERN_GLOBAL const real* north, TERN_GLOBAL const real* down,              \
              TERN_GLOBAL const real* up, TERN_GLOBAL real* to_west, TERN_GLOBAL real* to_east,                        \
              TERN_GLOBAL real* to_south, TERN_GLOBAL real* to_north, TERN_GLOBAL real* to_down,                       \
              TERN_GLOBAL real* to_up) {                                                                               \
    const int first = group.y * group.size_y;                                                                          \
    TERN_REGION_NOSYNC {                                                                                               \
      const int x = item.x, y = item.y, z = item.z, row = JACOBI_PAD + (z * ny + y) * nx;                              \
      const real before = west[z * ny + y], behind = east[z * ny + y];                                                 \
      TERN_GLOBAL const real* const c = from + row;                                                                    \
      TERN_GLOBAL const real* const s = y > 0 ? c - nx : south + z * nx;                                               \
      TERN_GLOBAL const real* const n = y < ny - 1 ? c + nx : north + z * nx;                                          \
      TERN_GLOBAL const real* const d = z > 0 ? c - nx * ny : down + y * nx;                                           \
      TERN_GLOBAL const real* const u = z < nz - 1 ? c + nx * ny : up + y * nx;                                        \
      const real left = c[x - 1], right = c[x + 1];                                                                    \
      const real l = x > 0 ? left : before, r = x < nx - 1 ? right : behind;                                           \
      to[row + x] = alpha * c[x] + beta * (((((l + r) + s[x]) + n[x]) + d[x]) + u[x]);                                 \
    };                                                                                                                 \
    TERN_BARRIER();                                                                                                    \
    const int z = group.z;                                                                                             \
    if ((sides & 1) && group.x == 0) {                                                                                 \
      TERN_REGION_IN(group.size_y, first + 1, nz) {                                                                    \
        const int y = first + item.local_x;                                                                            \
        to_west[z * ny + y] = to[JACOBI_PAD + (z * ny + y) * nx];                                                      \
      };                                                                                                               \
    }                                                                                                                  \
    JACOBI_APART();                                                                                                    \
    if ((sides & 2) && group.x == group.count_x - 1) {                                                                 \
      TERN_REGION_IN(group.x* group.size_x + group.size_y, first + 1, nz) {                                            \
        const int y = first + item.local_x;                                                                            \
        to_east[z * ny + y] = to[JACOBI_PAD + (z * ny + y) * nx + nx - 1];                                             \
      };                                                                                                               \
    }                                                                                                                  \
    JACOBI_APART();                                                                                                    \
    if ((sides & 4) && group.y == 0) {                                                                                 \
      TERN_REGION_IN(nx, 1, nz) { to_south[z * nx + item.x] = to[JACOBI_PAD + z * ny * nx + item.x]; };                \
    }                                                                                                                  \
    JACOBI_APART();                                                                                                    \
    if ((sides & 8) && group.y == group.count_y - 1) {                                                                 \
      TERN_REGION_IN(nx, first + 1, nz) {                                                                              \
        to_north[z * nx + item.x] = to[JACOBI_PAD + (z * ny + ny - 1) * nx + item.x];                                  \
      };                                                                                                               \
    }                                                                                                                  \
    JACOBI_APART();                                                                                                    \
    if ((sides & 16) && z == 0) {                                                                                      \
      TERN_REGION_NOSYNC { to_down[item.y * nx + item.x] = to[JACOBI_PAD + item.y * nx + item.x]; };                   \
    }                                                                                                                  \
    JACOBI_APART();                                                                                                    \
    if ((sides & 32) && z == nz - 1) {                                                                                 \
      TERN_REGION_NOSYNC { to_up[item.y * nx + item.x] = to[JACOBI_PAD + (z * ny + item.y) * nx + item.x]; };          \
    }                                                                                                                  \
  }
#define JACOBI_CHANGE(name, real)                                                                                      \
  TERN_KERNEL(name, int nx, int ny, int nz, int start, int row_step, int plane_step, TERN_GLOBAL const real* a,        \
              TERN_GLOBAL const real* b, TERN_GLOBAL real* most) {                                                     \
    const int z = group.z;                                                                                             \
    TERN_PRIVATE(real, largest);                                                                                       \
    TERN_REGION_NOSYNC { TERN_MY(largest) = 0; };                                                                      \
    for (int y = 0; y < ny; ++y) {                                                                                     \
      const int row = start + z * plane_step + y * row_step;                                                           \
      TERN_REGION_IN(nx, 1, nz) {                                                                                      \
        const real off = fabs(a[row + item.x] - b[row + item.x]);                                                      \
        TERN_MY(largest) = off > TERN_MY(largest) ? off : TERN_MY(largest);                                            \
      };                                                                                                               \
    }                                                                                                                  \
    TERN_REGION_IN(nx, 1, nz) { most[z * nx + item.x] = TERN_MY(largest); };                                           \
  }
// Some cells of a field that has layers around its block.
#define JACOBI_DEEP(name, real)                                                                                        \
  TERN_KERNEL(name, int nx, int ny, int nz, int start, int row_step, int plane_step, real alpha, real beta,            \
              TERN_GLOBAL const real* from, TERN_GLOBAL real* to) {                                                    \
    const int z = group.z, last = min(ny, group.y * JACOBI_ROWS + JACOBI_ROWS);                                        \
    for (int y = group.y * JACOBI_ROWS; y < last; ++y) {                                                               \
      TERN_GLOBAL const real* const c = from + start + z * plane_step + y * row_step;                                  \
      TERN_GLOBAL real* const o = to + start + z * plane_step + y * row_step;                                          \
      TERN_REGION_IN(nx, group.count_y, nz) {                                                                          \
        const int x = item.x;                                                                                          \
        o[x] = alpha * c[x] +                                                                                          \
               beta * (((((c[x - 1] + c[x + 1]) + c[x - row_step]) + c[x + row_step]) + c[x - plane_step]) +           \
                       c[x + plane_step]);                                                                             \
      };                                                                                                               \
    }                                                                                                                  \
  }
#define JACOBI_COPY(name, real)                                                                                        \
  TERN_KERNEL(name, int nx, int ny, int nz, int from_start, int from_row, int from_plane, int to_start, int to_row,    \
              int to_plane, TERN_GLOBAL const real* from, TERN_GLOBAL real* to) {                                      \
    const int z = group.z, last = min(ny, group.y * JACOBI_ROWS + JACOBI_ROWS);                                        \
    for (int y = group.y * JACOBI_ROWS; y < last; ++y) {                                                               \
      TERN_GLOBAL const real* const c = from + from_start + z * from_plane + y * from_row;                             \
      TERN_GLOBAL real* const o = to + to_start + z * to_plane + y * to_row;                                           \
      TERN_REGION_IN(nx, group.count_y, nz) { o[item.x] = c[item.x]; };                                                \
    }                                                                                                                  \
  }
JACOBI_SWEEP(sweep_double, double)
JACOBI_SWEEP(sweep_float, float)
JACOBI_CELLS(cells_double, double)
JACOBI_CELLS(cells_float, float)
JACOBI_CHANGE(change_double, double)
JACOBI_CHANGE(change_float, float)
JACOBI_DEEP(deep_double, double)
JACOBI_DEEP(deep_float, float)
JACOBI_COPY(copy_double, double)
JACOBI_COPY(copy_float, float)
TERN_KERNELS_END(jacobi)

namespace jacobi3d {
namespace {

static_assert(field_pad == JACOBI_PAD);

template <class T> constexpr const auto& sweep_of() {
  if constexpr (sizeof(T) == 8)
    return jacobi::sweep_double;
  else
    return jacobi::sweep_float;
}
template <class T> constexpr const auto& cells_of() {
  if constexpr (sizeof(T) == 8)
    return jacobi::cells_double;
  else
    return jacobi::cells_float;
}
template <class T> constexpr const auto& change_of() {
  if constexpr (sizeof(T) == 8)
    return jacobi::change_double;
  else
    return jacobi::change_float;
}

template <class T> constexpr const auto& deep_of() {
  if constexpr (sizeof(T) == 8)
    return jacobi::deep_double;
  else
    return jacobi::deep_float;
}
template <class T> constexpr const auto& copy_of() {
  if constexpr (sizeof(T) == 8)
    return jacobi::copy_double;
  else
    return jacobi::copy_float;
}

int small(std::int64_t n) { return static_cast<int>(n); }
/// The largest one up to `most`.
std::int64_t divisor(std::int64_t n, std::int64_t most) {
  std::int64_t d = std::min(n, most);
  while (n % d != 0) --d;
  return d;
}
constexpr std::int64_t least_width = 16; ///< of groups that divide a block: narrower ones are no use
/// Items of a group along x: whole vectors, and at least as many as it has rows.
int group_width(std::int64_t nx) { return small(std::clamp<std::int64_t>((nx + 15) / 16 * 16, JACOBI_ROWS, 256)); }

// On the host several iterations are one function. Each kind of vector unit has its own, as
// kernels.
#define JACOBI_SWEEP_BOX(real)                                                                                         \
  TERN_KERNEL_CLONES void sweep_box(const layout& l, const cell_box& box, real alpha, real beta, const real* from,     \
                                    real* TERN_RESTRICT to) {                                                          \
    const std::int64_t row = l.row, plane = l.plane, length = box.high[0] - box.low[0];                                \
    for (std::int64_t z = box.low[2]; z < box.high[2]; ++z)                                                            \
      for (std::int64_t y = box.low[1]; y < box.high[1]; ++y) {                                                        \
        const real* const c = from + l.at(box.low[0], y, z);                                                           \
        real* const o = to + l.at(box.low[0], y, z);                                                                   \
        for (std::int64_t x = 0; x < length; ++x)                                                                      \
          o[x] = alpha * c[x] +                                                                                        \
                 beta * (((((c[x - 1] + c[x + 1]) + c[x - row]) + c[x + row]) + c[x - plane]) + c[x + plane]);         \
      }                                                                                                                \
  }
JACOBI_SWEEP_BOX(double)
JACOBI_SWEEP_BOX(float)

/// Iteration i is i planes behind the first one: what it reads has just been written, and is in the
/// caches. It overwrites what the one before it has no use for any more.
template <class T>
void sweep_together(const layout& l, const std::vector<cell_box>& boxes, T alpha, T beta, T* first, T* second) {
  std::int64_t from = boxes.front().low[2], end = boxes.front().high[2];
  for (const cell_box& b : boxes) end = std::max(end, b.high[2]);
  T* const both[2] = {first, second};
  for (std::int64_t front = from; front < end + static_cast<std::int64_t>(boxes.size()); ++front)
    for (std::size_t i = 0; i < boxes.size(); ++i) {
      cell_box plane = boxes[i];
      const std::int64_t z = front - static_cast<std::int64_t>(i);
      if (z < plane.low[2] || z >= plane.high[2]) continue;
      plane.low[2] = z;
      plane.high[2] = z + 1;
      sweep_box(l, plane, alpha, beta, both[i % 2], both[1 - i % 2]);
    }
}

tern::items items_of(const cells& n) {
  return tern::items(n[0], (n[1] + JACOBI_ROWS - 1) / JACOBI_ROWS, n[2]).group(group_width(n[0]));
}

tern::hetero_task submitted(tern::hetero_task t, where on) {
  if (on) t.on(*on);
  t.submit();
  return t;
}

} // namespace

template <class T>
tern::hetero_task submit_sweep(const sweep_numbers& how, const field<T>& from, const field<T>& to, const faces<T>& in,
                               const faces<T>& out, where on) {
  const cells& n = how.n;
  const T alpha = static_cast<T>(how.alpha), beta = static_cast<T>((1 - how.alpha) / 6);
  const auto task = [&](const auto& kernel, const tern::items& items) {
    return submitted(tern::hetero_task(kernel, items, small(n[0]), small(n[1]), small(n[2]),
                                       static_cast<int>(how.out_sides), alpha, beta, tern::read(from), tern::write(to),
                                       tern::read(in[0]), tern::read(in[1]), tern::read(in[2]), tern::read(in[3]),
                                       tern::read(in[4]), tern::read(in[5]), tern::write(out[0]), tern::write(out[1]),
                                       tern::write(out[2]), tern::write(out[3]), tern::write(out[4]),
                                       tern::write(out[5])),
                     on);
  };
  if (on == tern::hetero::device_kind::opencl) {
    const std::int64_t width = divisor(n[0], 256), height = divisor(n[1], std::min<std::int64_t>(4, width));
    if (width >= least_width)
      return task(cells_of<T>(), tern::items(n[0], n[1], n[2]).group(small(width), small(height)));
  }
  return task(sweep_of<T>(), items_of(how.n));
}

template <class T>
tern::hetero_task submit_sweeps(const layout& l, const std::vector<cell_box>& boxes, double alpha_given,
                                const field<T>& from, const field<T>& to, where on) {
  const T alpha = static_cast<T>(alpha_given), beta = static_cast<T>((1 - alpha_given) / 6);
  if (on == tern::hetero::device_kind::host)
    return submitted(
        tern::hetero_task([l, boxes, alpha, beta](T* a, T* b) { sweep_together(l, boxes, alpha, beta, a, b); },
                          tern::read_write(from), tern::read_write(to)),
        {});
  tern::hetero_task last;
  const field<T>* const both[2] = {&from, &to};
  for (std::size_t i = 0; i < boxes.size(); ++i) {
    const cells n = boxes[i].size(), &low = boxes[i].low;
    last = submitted(tern::hetero_task(deep_of<T>(), items_of(n), small(n[0]), small(n[1]), small(n[2]),
                                       small(l.at(low[0], low[1], low[2])), small(l.row), small(l.plane), alpha, beta,
                                       tern::read(*both[i % 2]), tern::read_write(*both[1 - i % 2])),
                     on);
  }
  return last;
}

template <class T>
void submit_pack(const layout& l, const cell_box& of, const field<T>& from, const tern::hetero_object<T>& to,
                 where on) {
  const cells n = of.size();
  submitted(tern::hetero_task(copy_of<T>(), items_of(n), small(n[0]), small(n[1]), small(n[2]),
                              small(l.at(of.low[0], of.low[1], of.low[2])), small(l.row), small(l.plane), 0,
                              small(n[0]), small(n[0] * n[1]), tern::read(from), tern::write(to)),
            on);
}

template <class T>
void submit_unpack(const layout& l, const cell_box& of, const tern::hetero_object<T>& from, const field<T>& to,
                   where on) {
  const cells n = of.size();
  submitted(tern::hetero_task(copy_of<T>(), items_of(n), small(n[0]), small(n[1]), small(n[2]), 0, small(n[0]),
                              small(n[0] * n[1]), small(l.at(of.low[0], of.low[1], of.low[2])), small(l.row),
                              small(l.plane), tern::read(from), tern::read_write(to)),
            on);
}

template <class T>
void submit_change(const cells& n, const layout& l, const field<T>& a, const field<T>& b,
                   const tern::hetero_object<T>& most, where on) {
  submitted(tern::hetero_task(change_of<T>(), tern::items(n[0], 1, n[2]).group(group_width(n[0])), small(n[0]),
                              small(n[1]), small(n[2]), small(l.start), small(l.row), small(l.plane), tern::read(a),
                              tern::read(b), tern::write(most)),
            on);
}

#define JACOBI3D_MAKE(T)                                                                                               \
  template tern::hetero_task submit_sweep(const sweep_numbers&, const field<T>&, const field<T>&, const faces<T>&,     \
                                          const faces<T>&, where);                                                     \
  template tern::hetero_task submit_sweeps(const layout&, const std::vector<cell_box>&, double, const field<T>&,       \
                                           const field<T>&, where);                                                    \
  template void submit_pack(const layout&, const cell_box&, const field<T>&, const tern::hetero_object<T>&, where);    \
  template void submit_unpack(const layout&, const cell_box&, const tern::hetero_object<T>&, const field<T>&, where);  \
  template void submit_change(const cells&, const layout&, const field<T>&, const field<T>&,                           \
                              const tern::hetero_object<T>&, where);
JACOBI3D_MAKE(double)
JACOBI3D_MAKE(float)

} // namespace jacobi3d
