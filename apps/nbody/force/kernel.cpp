// SPDX-License-Identifier: Apache-2.0
#include "apps/nbody/force/kernel_lanes.hpp"

namespace nbody {

#ifdef NBODY_X86
kernel kernel_avx512(); // kernel_avx512.cpp
kernel kernel_avx2();   // kernel_avx2.cpp
#endif

void source_list::clear() noexcept {
  for (auto* a : {&x, &y, &z, &mass, &xx, &xy, &xz, &yy, &yz, &zz}) a->clear();
}

void source_list::add(float px, float py, float pz, float m) {
  x.push_back(px);
  y.push_back(py);
  z.push_back(pz);
  mass.push_back(m);
}

void source_list::pad(bool with_moments) {
  while (size() % lanes) add(0, 0, 0, 0);
  if (with_moments)
    for (auto* a : {&xx, &xy, &xz, &yy, &yz, &zz}) a->resize(size());
}

source_view source_list::view() const noexcept {
  return {x.data(),  y.data(),  z.data(),  mass.data(), xx.data(), xy.data(),
          xz.data(), yy.data(), yz.data(), zz.data(),   size()};
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
