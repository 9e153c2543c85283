// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The loops, compiled once for each instruction set (kernel_*.cpp). GNU's vector extension: 16
/// floats, which the compiler gives to one, two or four registers. No functions of the library: a
/// copy that is compiled for a newer processor must not become the one that all use.

#include "apps/nbody/force/kernel.hpp"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace nbody {
namespace {

typedef float lane_floats __attribute__((vector_size(64)));
typedef int lane_ints __attribute__((vector_size(64)));

inline lane_floats load_lanes(const float* from) {
  lane_floats to;
  __builtin_memcpy(&to, from, sizeof to);
  return to;
}

/// 1 / sqrt(x), to 2 units of the last place; 0 for 0.
inline lane_floats inverse_root(lane_floats x) {
  lane_floats y;
#if defined(__AVX512F__)
  y = (lane_floats)_mm512_maskz_rsqrt14_ps(0xffff,
                                           (__m512)x); // the form without a mask: gcc 12 warns of its own header
#elif defined(__AVX__)
  __m256 half[2];
  __builtin_memcpy(half, &x, sizeof x);
  for (__m256& h : half) h = _mm256_rsqrt_ps(h);
  __builtin_memcpy(&y, half, sizeof y);
#elif defined(__x86_64__)
  __m128 quarter[4];
  __builtin_memcpy(quarter, &x, sizeof x);
  for (__m128& q : quarter) q = _mm_rsqrt_ps(q);
  __builtin_memcpy(&y, quarter, sizeof y);
#else
  for (int i = 0; i < 16; ++i) y[i] = 1 / __builtin_sqrtf(x[i]);
#endif
  const lane_floats better = y * (1.5f - 0.5f * x * y * y); // Newton
  const lane_ints apart = x > 0.0f;
  return (lane_floats)((lane_ints)better & apart);
}

inline double sum_of(lane_floats v) {
  float part[16];
  __builtin_memcpy(part, &v, sizeof v);
  for (int width = 8; width > 0; width /= 2)
    for (int i = 0; i < width; ++i) part[i] += part[i + width];
  return static_cast<double>(part[0]);
}

struct lane_sums {
  lane_floats x{}, y{}, z{}, potential{};
  void give(feeling& to) const {
    to.x += sum_of(x);
    to.y += sum_of(y);
    to.z += sum_of(z);
    to.potential += sum_of(potential);
  }
};

constexpr std::size_t block = 1024; // sources

struct body_sources {
  lane_floats x, y, z, mass;
  body_sources(const source_view& from, std::size_t j)
      : x(load_lanes(from.x + j)), y(load_lanes(from.y + j)), z(load_lanes(from.z + j)),
        mass(load_lanes(from.mass + j)) {}
  void act(float px, float py, float pz, float softening2, lane_sums& on) const {
    const lane_floats dx = x - px, dy = y - py, dz = z - pz;
    const lane_floats inverse = inverse_root(dx * dx + dy * dy + dz * dz + softening2);
    const lane_floats potential = mass * inverse, pull = potential * inverse * inverse;
    on.potential -= potential;
    on.x += pull * dx;
    on.y += pull * dy;
    on.z += pull * dz;
  }
};

// With d from the target to the centre of mass, rho^2 = d^2 + softening^2 and the second moments M:
// potential = -m / rho - (3 d.M.d / rho^5 - tr M / rho^3) / 2, which is the second order of
// Plummer's potential itself; the acceleration is its gradient.
struct cell_sources : body_sources {
  lane_floats xx, xy, xz, yy, yz, zz;
  cell_sources(const source_view& from, std::size_t j)
      : body_sources(from, j), xx(load_lanes(from.xx + j)), xy(load_lanes(from.xy + j)), xz(load_lanes(from.xz + j)),
        yy(load_lanes(from.yy + j)), yz(load_lanes(from.yz + j)), zz(load_lanes(from.zz + j)) {}
  void act(float px, float py, float pz, float softening2, lane_sums& on) const {
    const lane_floats dx = x - px, dy = y - py, dz = z - pz;
    const lane_floats inverse = inverse_root(dx * dx + dy * dy + dz * dz + softening2);
    const lane_floats inverse2 = inverse * inverse, inverse3 = inverse2 * inverse, inverse5 = inverse3 * inverse2;
    const lane_floats mx = xx * dx + xy * dy + xz * dz, my = xy * dx + yy * dy + yz * dz,
                      mz = xz * dx + yz * dy + zz * dz;
    const lane_floats trace = xx + yy + zz, along = mx * dx + my * dy + mz * dz;
    on.potential -= mass * inverse + 1.5f * along * inverse5 - 0.5f * trace * inverse3;
    const lane_floats pull = mass * inverse3 + (7.5f * along * inverse2 - 1.5f * trace) * inverse5;
    const lane_floats turn = 3.0f * inverse5;
    on.x += pull * dx - turn * mx;
    on.y += pull * dy - turn * my;
    on.z += pull * dz - turn * mz;
  }
};

// Four targets at a time use a load of sources; each target's sums are its own.
template <class Sources>
void sum_lanes(const source_view& from, const float* x, const float* y, const float* z, std::size_t targets,
               float softening2, feeling* felt) {
  constexpr std::size_t together = 4;
  const std::size_t n = from.size;
  for (std::size_t begin = 0; begin < n; begin += block) {
    const std::size_t end = begin + block < n ? begin + block : n;
    std::size_t i = 0;
    for (; i + together <= targets; i += together) {
      lane_sums a, b, c, d;
      for (std::size_t j = begin; j < end; j += lanes) {
        const Sources s(from, j);
        s.act(x[i], y[i], z[i], softening2, a);
        s.act(x[i + 1], y[i + 1], z[i + 1], softening2, b);
        s.act(x[i + 2], y[i + 2], z[i + 2], softening2, c);
        s.act(x[i + 3], y[i + 3], z[i + 3], softening2, d);
      }
      a.give(felt[i]);
      b.give(felt[i + 1]);
      c.give(felt[i + 2]);
      d.give(felt[i + 3]);
    }
    for (; i < targets; ++i) {
      lane_sums a;
      for (std::size_t j = begin; j < end; j += lanes) Sources(from, j).act(x[i], y[i], z[i], softening2, a);
      a.give(felt[i]);
    }
  }
}

kernel kernel_here(const char* name) { return {name, &sum_lanes<body_sources>, &sum_lanes<cell_sources>}; }

} // namespace
} // namespace nbody
