// SPDX-License-Identifier: Apache-2.0
#include <tern/hetero/power/powercap.hpp>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <exception>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>
#include <system_error>
#include <utility>

#include <unistd.h>

namespace tern::hetero::detail {
namespace {

template <class T> std::optional<T> read_from(const std::string& file) {
  std::ifstream in(file);
  T value{};
  return in >> value ? std::optional(value) : std::nullopt;
}

} // namespace

std::string powercap_energy::name() const {
  std::string all;
  for (const package& p : packages_) all += (all.empty() ? "powercap (" : ", ") + p.name;
  return all + ")";
}

std::optional<double> powercap_energy::joules() noexcept {
  try {
    double all = 0;
    for (package& p : packages_) {
      const auto now = read_from<std::uint64_t>(p.counter);
      if (!now) return std::nullopt;
      if (*now >= p.last)
        p.joules += static_cast<double>(*now - p.last) * 1e-6;
      else if (p.range > p.last)
        p.joules += static_cast<double>(p.range - p.last + *now) * 1e-6;
      p.last = *now;
      all += p.joules;
    }
    return all;
  } catch (const std::exception&) { // no memory
    return std::nullopt;
  }
}

std::optional<device_power> powercap_energy::before_measuring() noexcept {
  device_power watts;
  for (const package& p : packages_) {
    if (p.limit <= 0) return std::nullopt;
    watts.busy += p.limit;
  }
  return watts;
}

std::optional<double> powercap_energy::busy_seconds() noexcept {
  try {
    std::ifstream in(stat_);
    std::string line, word;
    std::uint64_t ticks = 0, cpus = 0;
    while (std::getline(in, line) && line.starts_with("cpu")) {
      std::istringstream of(line);
      of >> word;
      if (word != "cpu") {
        ++cpus;
        continue;
      }
      std::uint64_t user = 0, nice = 0, system = 0, idle = 0, waiting = 0, interrupts = 0, soft_interrupts = 0;
      if (!(of >> user >> nice >> system >> idle >> waiting >> interrupts >> soft_interrupts)) return std::nullopt;
      ticks = user + nice + system + interrupts + soft_interrupts;
    }
    if (cpus == 0) return std::nullopt;
    return static_cast<double>(ticks) / static_cast<double>(::sysconf(_SC_CLK_TCK)) / static_cast<double>(cpus);
  } catch (const std::exception&) { // no memory
    return std::nullopt;
  }
}

std::shared_ptr<energy_source> open_powercap_energy(const std::string& folder, std::string& why,
                                                    const std::string& stat) {
  std::vector<powercap_energy::package> found;
  std::error_code none;
  std::vector<std::string> zones;
  for (const auto& entry : std::filesystem::directory_iterator(folder, none)) zones.push_back(entry.path().string());
  // The same package may be there twice, by registers ("intel-rapl:0") and by addresses
  // ("intel-rapl-mmio:0"), which count less.
  std::sort(zones.begin(), zones.end(), std::greater<>());
  for (const std::string& zone : zones) {
    const std::string at = zone + "/";
    const auto name = read_from<std::string>(at + "name");
    if (!name || !name->starts_with("package")) continue; // of its parts, and of the whole platform
    if (std::any_of(found.begin(), found.end(), [&](const auto& p) { return p.name == *name; })) continue;
    powercap_energy::package p{.name = *name, .counter = at + "energy_uj"};
    errno = 0;
    const auto counter = read_from<std::uint64_t>(p.counter);
    if (!counter) {
      why = p.counter + " cannot be read (" + (errno != 0 ? std::strerror(errno) : "it has no number") +
            "); an administrator can allow it: chmod a+r";
      return nullptr;
    }
    p.last = *counter;
    p.range = read_from<std::uint64_t>(at + "max_energy_range_uj").value_or(0);
    p.limit = static_cast<double>(read_from<std::uint64_t>(at + "constraint_0_power_limit_uw").value_or(0)) * 1e-6;
    found.push_back(std::move(p));
  }
  if (found.empty()) {
    why = folder + " has no counter of a CPU package (a virtual machine, or no driver intel_rapl)";
    return nullptr;
  }
  std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  return std::make_shared<powercap_energy>(std::move(found), stat);
}

} // namespace tern::hetero::detail
