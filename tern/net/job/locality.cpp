// SPDX-License-Identifier: Apache-2.0
/// \file
/// Which ranks are near each other.
#include <tern/net/communicator.hpp>

#include <algorithm>
#include <array>
#include <fstream>
#include <vector>

#include <unistd.h>

#include <tern/base/topology.hpp>
#include <tern/net/job/settings.hpp>
#include <tern/net/node.hpp>
#include <tern/net/transport.hpp>

namespace tern {

// Containers of one host may have the same name on different ones, or different names on one: the
// kernel's number of this boot is the same for all of them, and for no other host. Without it the
// name must do.
std::string net::transport::host() const {
  std::string boot;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), boot);
  if (!boot.empty()) return boot;
  std::array<char, 256> name{};
  gethostname(name.data(), name.size() - 1);
  return name.data();
}

namespace {

// The NUMA domain that all workers of a rank are bound to; -1: none.
int domain_of(net::node& here) {
  if (here.simulated()) return -1;
  const auto cpus = net::resolve(here.opts(), here.wire()).cpus;
  const machine all = describe_machine();
  int domain = -1;
  for (const auto& of_worker : cpus) {
    if (of_worker.empty()) return -1; // may run anywhere
    for (const int cpu : of_worker) {
      const auto core = std::find_if(all.allowed_cores.begin(), all.allowed_cores.end(), [cpu](const cpu_core& c) {
        return std::find(c.pus.begin(), c.pus.end(), cpu) != c.pus.end();
      });
      if (core == all.allowed_cores.end() || (domain != -1 && domain != core->numa)) return -1;
      domain = core->numa;
    }
  }
  return domain;
}

} // namespace

communicator communicator::split(locality what, std::string name, site where) const {
  net::node& here = context("split").here();
  std::string key = here.wire().host();
  if (what == locality::numa) key += " " + std::to_string(domain_of(here));
  const std::vector<std::string> keys = allgather(std::move(key), where);
  const auto first = std::find(keys.begin(), keys.end(), keys[static_cast<std::size_t>(rank())]) - keys.begin();
  return split(static_cast<int>(first), 0, std::move(name), where);
}

communicator communicator::leaders(const communicator& part, std::string name, site where) const {
  return split(part.rank() == 0 ? std::optional(0) : std::nullopt, 0, std::move(name), where);
}

} // namespace tern
