// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// For tests of performance models: a date, keys and times.

#include <cstdint>
#include <string>

#include <tern/hetero/models/estimate/model_set.hpp>

namespace tern::hetero::detail::test {

constexpr std::int64_t today = 1'764'111'146; ///< seconds since 1970

inline model_key key_of(const std::string& kernel, std::uint64_t size = 1, const std::string& device = "d") {
  return {{kernel, 7}, device, size};
}

/// \param fresh of the last of `n` equal times.
inline kernel_model times_of(int n, double time, std::uint32_t fresh = 0, std::int64_t last = today) {
  kernel_model m;
  for (int i = 0; i < n; ++i) m.times.add(time);
  m.fresh = fresh;
  m.last = last;
  return m;
}

/// One model, all of it fresh.
inline model_set fresh_models(const std::string& kernel, int n, double time = 100) {
  model_set all;
  all.kernels[key_of(kernel)] = times_of(n, time, static_cast<std::uint32_t>(n));
  return all;
}

} // namespace tern::hetero::detail::test
