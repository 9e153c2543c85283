// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// All models of a machine, as a value. Internal.

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include <tern/hetero/models/estimate/link_model.hpp>
#include <tern/hetero/models/estimate/model_key.hpp>
#include <tern/hetero/models/estimate/sample_history.hpp>

namespace tern::hetero::detail {

/// Times of a kernel at one size on one model of device.
struct kernel_model {
  size_class size;
  sample_history times;    ///< nanoseconds
  std::uint32_t fresh = 0; ///< of the last samples: since the models were last stored
  std::int64_t last = 0;   ///< when the last sample came, in seconds since 1970
  bool warm = false;       ///< the first sample of this process has come; not stored
};

/// Power that a model of device takes.
struct power_model {
  double busy = 0, idle = 0; ///< watts
  bool fresh = false;
  std::int64_t last = 0;
};

/// Threads: as a value.
struct model_set {
  static constexpr std::int64_t expires_after = 90 * 24 * 3600; ///< seconds without a new sample
  static constexpr std::size_t kernels_most = 16384;            ///< beyond it, the oldest go

  struct dated_link {
    link_model link;
    std::int64_t last = 0;
  };

  std::map<model_key, kernel_model> kernels;
  std::map<std::pair<std::string, std::string>, dated_link> links; ///< by model of device, from and to
  std::map<std::string, power_model> power;                        ///< by model of device

  bool empty() const noexcept { return kernels.empty() && links.empty() && power.empty(); }
  bool has_fresh() const noexcept;
  /// Adds what is fresh in the other, in its order; the rest of the other is left out, as it came
  /// from where this comes from.
  void merge_fresh(const model_set& newer);
  /// Removes what has expired, and the oldest kernels beyond the most. Times that lie ahead are set
  /// to `now`: the clock was wrong. \param now seconds since 1970.
  void expire(std::int64_t now);
  /// \return what is fresh, with all of its samples. Here nothing is fresh any more. Addresses of
  /// models stay.
  model_set take_fresh();
};

} // namespace tern::hetero::detail
