// SPDX-License-Identifier: Apache-2.0
#include <tern/mobile/protect/buddies.hpp>

#include <algorithm>
#include <cstddef>
#include <map>
#include <numeric>
#include <tuple>

namespace tern::mobile::detail {

std::vector<std::int32_t> buddies_of(const std::vector<std::int32_t>& ranks, const std::vector<std::int32_t>& hosts) {
  struct member {
    std::int32_t place; // on its host
    std::int32_t host;
    std::size_t index;
  };
  const std::size_t n = ranks.size();
  std::vector<member> ring;
  std::map<std::int32_t, std::int32_t> seen;
  for (std::size_t i = 0; i < n; ++i) {
    const std::int32_t host = hosts[static_cast<std::size_t>(ranks[i])];
    ring.push_back({seen[host]++, host, i});
  }
  std::sort(ring.begin(), ring.end(), [](const member& a, const member& b) {
    return std::tuple(a.place, a.host, a.index) < std::tuple(b.place, b.host, b.index);
  });
  // By place in the ring: how far it is to the next of another host. From the back, twice round.
  std::vector<std::size_t> step(n, 1);
  if (seen.size() > 1)
    for (std::size_t i = 2 * n; i-- > 0;) {
      const std::size_t next = (i + 1) % n;
      step[i % n] = ring[next].host != ring[i % n].host ? 1 : step[next] + 1;
    }
  std::vector<std::int32_t> buddies(n);
  for (std::size_t i = 0; i < n; ++i) buddies[ring[i].index] = ranks[ring[(i + step[i]) % n].index];
  return buddies;
}

} // namespace tern::mobile::detail
