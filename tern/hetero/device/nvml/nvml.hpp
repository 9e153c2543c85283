// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// NVIDIA's management library: how much energy a GPU has taken. Internal.

#include <memory>
#include <optional>
#include <span>
#include <string>

#include <tern/hetero/power/energy_source.hpp>

namespace tern::hetero::detail {

/// Functions of NVML, by their names without `nvml`. A result of 0 is success.
struct nvml_api {
  using gpu = void; ///< its handles are pointers
  using result = int;
  result (*Init)() = nullptr;
  const char* (*ErrorString)(result) = nullptr;
  result (*DeviceGetHandleByPciBusId)(const char*, gpu**) = nullptr;
  result (*DeviceGetTotalEnergyConsumption)(gpu*, unsigned long long*) = nullptr; ///< millijoules
  result (*DeviceGetPowerUsage)(gpu*, unsigned*) = nullptr;                       ///< milliwatts
  result (*DeviceGetEnforcedPowerLimit)(gpu*, unsigned*) = nullptr;               ///< milliwatts
};

/// The counter of one GPU, from Volta on.
class nvml_energy final : public energy_source {
public:
  nvml_energy(const nvml_api& api, nvml_api::gpu* of) noexcept : api_(api), of_(of) {}
  std::string name() const override { return "NVML"; }
  std::optional<double> joules() noexcept override;
  /// Its limit, and what it takes now.
  std::optional<device_power> before_measuring() noexcept override;

private:
  const nvml_api api_;
  nvml_api::gpu* const of_;
};

/// Opens the first of the libraries that is there; it stays open. \param at where the GPU is on the
/// bus, "0000:3b:00.0". \param why gets what is missing. \return null: that. Takes some
/// milliseconds the first time. Thread-safe.
std::shared_ptr<energy_source> open_nvml_energy(std::span<const std::string> libraries, const std::string& at,
                                                std::string& why);

} // namespace tern::hetero::detail
