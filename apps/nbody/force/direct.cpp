// SPDX-License-Identifier: Apache-2.0
#include "apps/nbody/force/direct.hpp"

#include <cmath>

namespace nbody {

accelerations sum_directly(const bodies& all, std::span<const std::uint32_t> targets, const force_settings& how) {
  accelerations to;
  to.resize(targets.size());
  const double softening2 = how.softening * how.softening;
  for (std::size_t k = 0; k < targets.size(); ++k) {
    const std::size_t i = targets[k];
    double sum[4] = {};
    for (std::size_t j = 0; j < all.size(); ++j) {
      const double d[3] = {all.x[j] - all.x[i], all.y[j] - all.y[i], all.z[j] - all.z[i]};
      const double r2 = d[0] * d[0] + d[1] * d[1] + d[2] * d[2] + softening2;
      if (j == i || !(r2 > 0)) continue;
      const double inverse = 1 / std::sqrt(r2), potential = all.mass[j] * inverse;
      for (int a = 0; a < 3; ++a) sum[a] += potential * inverse * inverse * d[a];
      sum[3] -= potential;
    }
    to.x[k] = how.gravity * sum[0];
    to.y[k] = how.gravity * sum[1];
    to.z[k] = how.gravity * sum[2];
    to.potential[k] = how.gravity * sum[3];
  }
  return to;
}

double relative_error(const accelerations& a, const accelerations& b) {
  double sum = 0;
  for (std::size_t i = 0; i < b.x.size(); ++i) {
    const double off[3] = {a.x[i] - b.x[i], a.y[i] - b.y[i], a.z[i] - b.z[i]};
    const double size2 = b.x[i] * b.x[i] + b.y[i] * b.y[i] + b.z[i] * b.z[i];
    if (size2 > 0) sum += (off[0] * off[0] + off[1] * off[1] + off[2] * off[2]) / size2;
  }
  return b.x.empty() ? 0 : std::sqrt(sum / static_cast<double>(b.x.size()));
}

} // namespace nbody
