// SPDX-License-Identifier: Apache-2.0
// NVIDIA's management library, as far as tern/hetero/device/power uses it.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <sstream>
#include <string>

#include "tests/hetero/support/mock_nvml.hpp"

#define MOCK_EXPORT extern "C" __attribute__((visibility("default")))

namespace {

struct state {
  double watts = 0, usage = 50, limit = 700, joules = 0;
  bool energy = true, gpu = true;
  std::chrono::steady_clock::time_point since = std::chrono::steady_clock::now();
};

std::mutex guard;

state parse(const char* text) {
  state s;
  std::istringstream in(text ? text : "");
  for (std::string word; std::getline(in, word, ',');) {
    const auto number = [&](const char* name, double& to) {
      const std::string begin = std::string(name) + "=";
      if (word.rfind(begin, 0) != 0) return false;
      to = std::strtod(word.c_str() + begin.size(), nullptr);
      return true;
    };
    if (number("watts", s.watts) || number("usage", s.usage) || number("limit", s.limit)) continue;
    if (word == "no-energy") {
      s.energy = false;
    } else if (word == "no-gpu") {
      s.gpu = false;
    } else if (!word.empty()) {
      std::fprintf(stderr, "mock NVML: unknown word '%s'\n", word.c_str());
      std::_Exit(2);
    }
  }
  return s;
}

state& now() {
  static state one = parse(std::getenv("TERN_MOCK_NVML"));
  return one;
}

constexpr int success = 0, uninitialized = 1, invalid_argument = 2, not_supported = 3, not_found = 6;
bool initialized = false;

} // namespace

MOCK_EXPORT void tern_mock_nvml_configure(const char* text) {
  const std::lock_guard hold(guard);
  now() = parse(text);
}

MOCK_EXPORT void tern_mock_nvml_add(double joules) {
  const std::lock_guard hold(guard);
  now().joules += joules;
}

MOCK_EXPORT int nvmlInit_v2() {
  const std::lock_guard hold(guard);
  initialized = true;
  return success;
}

MOCK_EXPORT const char* nvmlErrorString(int r) {
  switch (r) {
  case success:
    return "Success";
  case uninitialized:
    return "Uninitialized";
  case invalid_argument:
    return "Invalid Argument";
  case not_supported:
    return "Not Supported";
  case not_found:
    return "Not Found";
  default:
    return "Unknown Error";
  }
}

MOCK_EXPORT int nvmlDeviceGetHandleByPciBusId_v2(const char* at, void** gpu) {
  const std::lock_guard hold(guard);
  if (!initialized) return uninitialized;
  if (!at || !*at || !gpu) return invalid_argument;
  if (!now().gpu) return not_found;
  *gpu = &now();
  return success;
}

MOCK_EXPORT int nvmlDeviceGetTotalEnergyConsumption(void* gpu, unsigned long long* millijoules) {
  const std::lock_guard hold(guard);
  if (gpu != &now()) return invalid_argument;
  if (!now().energy) return not_supported;
  const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - now().since;
  *millijoules = static_cast<unsigned long long>((now().joules + now().watts * passed.count()) * 1e3);
  return success;
}

MOCK_EXPORT int nvmlDeviceGetPowerUsage(void* gpu, unsigned* milliwatts) {
  const std::lock_guard hold(guard);
  if (gpu != &now()) return invalid_argument;
  *milliwatts = static_cast<unsigned>(now().usage * 1e3);
  return success;
}

MOCK_EXPORT int nvmlDeviceGetEnforcedPowerLimit(void* gpu, unsigned* milliwatts) {
  const std::lock_guard hold(guard);
  if (gpu != &now()) return invalid_argument;
  *milliwatts = static_cast<unsigned>(now().limit * 1e3);
  return success;
}
