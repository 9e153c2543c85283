// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The innermost loops: gravity of lists of sources on the bodies of a group.

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace nbody {

/// How many sources are taken at once. Sums are over the sources of each lane, then over lanes: the
/// same order whatever the processor has.
inline constexpr std::size_t lanes = 16;

/// The arrays of a list, for the loops.
struct source_view {
  const float *x, *y, *z, *mass;
  const float *xx, *xy, *xz, *yy, *yz, *zz; ///< null for bodies
  std::size_t size;                         ///< whole lanes
};

/// Sources in single precision, about the group's middle, in units that the caller chooses.
class source_list {
public:
  explicit source_list(bool with_moments) : arrays_(with_moments ? 10 : 4) {}
  void clear() noexcept { size_ = 0; }
  std::size_t size() const noexcept { return size_; }
  /// Space for so many more; the arrays in the order of `source_view`, from the first new one on.
  std::array<float*, 10> grow(std::size_t count);
  /// Padded with sources without mass to whole lanes; the list keeps its size. Until it changes.
  source_view view();

private:
  std::size_t arrays_, size_ = 0, room_ = 0;
  std::vector<float> space_; ///< the arrays, `room_` each
};

/// What a body feels: acceleration and potential. Each list is summed in single precision over
/// blocks of 1,024 sources, and blocks in double precision.
struct feeling {
  double x = 0, y = 0, z = 0, potential = 0;
};

struct kernel {
  const char* name; ///< "avx512", "avx2", "portable"
  /// Adds to `felt[i]` what the sources do to a body at (x, y, z)[i]. A source at the same place
  /// does nothing. `softening2` is the square of Plummer's length.
  void (*bodies)(const source_view& from, const float* x, const float* y, const float* z, std::size_t targets,
                 float softening2, feeling* felt);
  /// The same with quadrupoles.
  void (*cells)(const source_view& from, const float* x, const float* y, const float* z, std::size_t targets,
                float softening2, feeling* felt);
};

/// The best one that the processor can run.
const kernel& best_kernel();
/// All that it can run, the best first.
std::vector<kernel> usable_kernels();

} // namespace nbody
