// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Kernels on unsigned numbers, which are the same on all devices.

#include <tern/hetero/dialect.hpp>

TERN_KERNELS_BEGIN(graph_kernels)

TERN_FN uint stir(uint a, uint b) { return a * 1664525u + b * 22695477u + 1013904223u; }

// y = stir(y, x + a), on parts of nx columns and ny rows
TERN_KERNEL(mix, int nx, int ny, uint a, int px, TERN_GLOBAL const uint* x, int py, TERN_GLOBAL uint* y) {
  TERN_REGION_IN(nx, ny, 1) { y[item.y * py + item.x] = stir(y[item.y * py + item.x], x[item.y * px + item.x] + a); };
}

TERN_KERNEL(fill, int nx, int ny, uint a, int py, TERN_GLOBAL uint* y) {
  TERN_REGION_IN(nx, ny, 1) { y[item.y * py + item.x] = stir(a, item.y * 1000 + item.x); };
}

TERN_KERNEL(add, int nx, int ny, uint a, int py, TERN_GLOBAL uint* y) {
  TERN_REGION_IN(nx, ny, 1) { y[item.y * py + item.x] += a * (item.x + 3 * item.y + 1); };
}

TERN_KERNELS_END(graph_kernels)
