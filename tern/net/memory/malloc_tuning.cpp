// SPDX-License-Identifier: Apache-2.0
/// \file
/// What the process does with memory that it frees.
#include <tern/net/memory/malloc_tuning.hpp>

#include <cstdlib>

#ifdef __GLIBC__
#include <malloc.h>
#endif

namespace tern::net {

const option<int> keep_memory_option{"keep-memory", 256,
                                     "how many MiB of memory that was freed last a process keeps for what comes next, "
                                     "large blocks too; 0: as the C library is set up",
                                     between<int>(0, 1 << 20)};

void keep_memory([[maybe_unused]] const options& opts) {
#ifdef __GLIBC__
  const int most = opts[keep_memory_option];
  // The C library's own variables take precedence where they are set.
  for (const char* name : {"MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_", "MALLOC_TOP_PAD_", "GLIBC_TUNABLES"})
    if (const char* const text = std::getenv(name); text && *text) return;
  if (most == 0) return;
  constexpr int largest = 32 << 20; // that the library lets lie on its heaps (DEFAULT_MMAP_THRESHOLD_MAX)
  constexpr int reach = 1 << 30;    // of an int, in bytes
  // Without: each block from 128 KiB on comes from the kernel, page by page, is filled with zeros,
  // and goes back there.
  mallopt(M_MMAP_THRESHOLD, largest);
  mallopt(M_TRIM_THRESHOLD, most > reach >> 20 ? reach : most << 20);
#endif
}

} // namespace tern::net
