// SPDX-License-Identifier: Apache-2.0
#include <tern/hetero/device/nvml/nvml.hpp>

#include <tern/hetero/device/discovery.hpp>
#include <tern/hetero/device/dynamic_library.hpp>

namespace tern::hetero::detail {
namespace {

std::string text_of(const nvml_api& api, nvml_api::result r) {
  const char* const text = api.ErrorString(r);
  return text ? text : "NVML's error " + std::to_string(r);
}

std::optional<nvml_api> open_one(const std::string& name, std::string& why) {
  std::string loader;
  dynamic_library library = dynamic_library::open(name, loader);
  if (!library) {
    why = "NVIDIA's management library, which comes with the driver, cannot be opened (" + loader + ")";
    return {};
  }
  nvml_api api;
  library.find(api.Init, "nvmlInit_v2");
  library.find(api.ErrorString, "nvmlErrorString");
  library.find(api.DeviceGetHandleByPciBusId, "nvmlDeviceGetHandleByPciBusId_v2");
  library.find(api.DeviceGetTotalEnergyConsumption, "nvmlDeviceGetTotalEnergyConsumption");
  library.find(api.DeviceGetPowerUsage, "nvmlDeviceGetPowerUsage");
  library.find(api.DeviceGetEnforcedPowerLimit, "nvmlDeviceGetEnforcedPowerLimit");
  if (!library.missing().empty()) {
    why = name + " lacks " + library.missing();
    return {};
  }
  if (const nvml_api::result r = api.Init(); r != 0) {
    why = name + " says: " + text_of(api, r);
    return {};
  }
  library.keep();
  return api;
}

} // namespace

std::optional<double> nvml_energy::joules() noexcept {
  unsigned long long millijoules = 0;
  if (api_.DeviceGetTotalEnergyConsumption(of_, &millijoules) != 0) return std::nullopt;
  return static_cast<double>(millijoules) * 1e-3;
}

std::optional<device_power> nvml_energy::before_measuring() noexcept {
  unsigned usage = 0, limit = 0;
  if (api_.DeviceGetPowerUsage(of_, &usage) != 0 || api_.DeviceGetEnforcedPowerLimit(of_, &limit) != 0 || limit < usage)
    return std::nullopt;
  return device_power{limit * 1e-3, usage * 1e-3};
}

std::shared_ptr<energy_source> open_nvml_energy(std::span<const std::string> libraries, const std::string& at,
                                                std::string& why) {
  static auto& all = *new opened_libraries<nvml_api>; // never destroyed: runtimes use what it knows
  std::shared_ptr<energy_source> made;
  on_thread_stack([&] {
    std::optional<nvml_api> api;
    for (const std::string& name : libraries)
      if ((api = all.get(name, [&] { return open_one(name, why); }))) break;
    if (!api) return;
    nvml_api::gpu* gpu = nullptr;
    unsigned long long millijoules = 0;
    nvml_api::result r = api->DeviceGetHandleByPciBusId(at.c_str(), &gpu);
    if (r == 0) r = api->DeviceGetTotalEnergyConsumption(gpu, &millijoules); // GPUs before Volta have no counter
    if (r != 0)
      why = "NVML says of the GPU at " + at + ": " + text_of(*api, r);
    else
      made = std::make_shared<nvml_energy>(*api, gpu);
  });
  return made;
}

} // namespace tern::hetero::detail
