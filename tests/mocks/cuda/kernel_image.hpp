// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What the mock NVRTC puts into a library of kernels, and the mock driver finds there. Also read
/// before every kernel, so it includes nothing.

extern "C" {

struct tern_mock_index {
  unsigned x, y, z;
};

/// What the item that runs sees, and what it can ask for.
struct tern_mock_items {
  tern_mock_index item, group, items, groups;
  unsigned linear;           ///< number of the item in its group
  unsigned count;            ///< items of a group
  unsigned dynamic;          ///< bytes of its dynamic memory
  unsigned long long* slots; ///< one for each item of the group, to hand values to each other
  void (*meet)(int warp);    ///< returns when all items of the group, or of the warp, have called it or ended
  void (*trap)();            ///< does not return
};

struct tern_mock_kernel {
  const char* name;
  void (*run)(void** parameters);
  unsigned long parameters;
  const unsigned long *offsets, *sizes;
  const unsigned char* pointers; ///< which of them are
  int most_items;                ///< of a group: its launch bounds; 0 is any
};

/// A variable in a group's memory. Aligned so that they lie one after the other.
struct alignas(32) tern_mock_shared {
  void* at;
  unsigned long bytes;
  const char* kernel;
};

/// Symbol `tern_mock_image_table`.
struct tern_mock_image {
  int version;
  const tern_mock_kernel* kernels; ///< the last has no name
  tern_mock_items** now;           ///< set before a kernel runs
  char* dynamic;                   ///< null if no kernel has dynamic memory
  const tern_mock_shared *shared, *shared_end;
};
}

constexpr int tern_mock_image_version = 3;
constexpr unsigned long tern_mock_dynamic_bytes = 228 * 1024;
