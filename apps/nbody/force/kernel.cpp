// SPDX-License-Identifier: Apache-2.0
#include "apps/nbody/force/kernel_lanes.hpp"

#include <algorithm>
#include <utility>

namespace nbody {

#ifdef NBODY_X86
kernel kernel_avx512(); // kernel_avx512.cpp
kernel kernel_avx2();   // kernel_avx2.cpp
#endif

std::array<float*, 10> source_list::grow(std::size_t count) {
  const std::size_t wanted = size_ + count + lanes;
  if (wanted > room_) {
    const std::size_t room = (2 * wanted + lanes - 1) / lanes * lanes;
    std::vector<float> larger(arrays_ * room);
    for (std::size_t a = 0; a < arrays_; ++a) std::copy_n(space_.data() + a * room_, size_, larger.data() + a * room);
    space_ = std::move(larger);
    room_ = room;
  }
  std::array<float*, 10> to{};
  for (std::size_t a = 0; a < arrays_; ++a) to[a] = space_.data() + a * room_ + size_;
  size_ += count;
  return to;
}

source_view source_list::view() {
  const std::size_t size = size_;
  const std::size_t padding = (lanes - size % lanes) % lanes;
  const auto rest = grow(padding);
  for (std::size_t a = 0; a < arrays_; ++a) std::fill_n(rest[a], padding, 0.0F);
  size_ = size;
  const auto at = [&](std::size_t a) { return a < arrays_ ? space_.data() + a * room_ : nullptr; };
  return {at(0), at(1), at(2), at(3), at(4), at(5), at(6), at(7), at(8), at(9), size + padding};
}

std::vector<kernel> usable_kernels() {
  std::vector<kernel> all;
#ifdef NBODY_X86
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f")) all.push_back(kernel_avx512());
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) all.push_back(kernel_avx2());
#endif
  all.push_back(kernel_here("portable"));
  return all;
}

const kernel& best_kernel() {
  static const kernel best = usable_kernels().front();
  return best;
}

} // namespace nbody
