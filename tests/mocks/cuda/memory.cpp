// SPDX-License-Identifier: Apache-2.0
// The mock driver's device memory, registered host memory, and what they are checked for.
#include <cstdlib>
#include <cstring>

#include "state.hpp"

namespace mock {

std::map<std::uintptr_t, allocation>::const_iterator find_memory(const state& s, std::uintptr_t at) {
  auto found = s.memory.upper_bound(at);
  if (found == s.memory.begin()) return s.memory.end();
  --found;
  return at < found->first + std::max<std::size_t>(found->second.bytes, 1) ? found : s.memory.end();
}

namespace {

// What was freed there is forgotten as soon as something else lies there.
void forget_freed(state& s, range r) {
  auto one = s.freed.lower_bound(r.begin);
  if (one != s.freed.begin()) --one;
  while (one != s.freed.end() && one->first < r.end)
    one = one->first + one->second > r.begin ? s.freed.erase(one) : std::next(one);
}

bool settle_pending(call& c, range r, const std::string& what) {
  std::vector<std::pair<point, int>> which;
  const std::string first = c.pending_use(r, which);
  if (first.empty()) return false;
  c.failed = c.misuse(invalid_value, what + ", and " + first + " which uses it is not done", true);
  for (const auto& [at, device] : which) c.finish(at, device);
  return true;
}

} // namespace
} // namespace mock

using namespace mock;

MOCK_EXPORT cu::result cuMemGetInfo_v2(std::size_t* free, std::size_t* all) {
  call c("cuMemGetInfo", needs::context);
  if (c.failed) return c.failed;
  *all = c.s.set.memory;
  *free = c.s.set.memory - c.here().used;
  return 0;
}

MOCK_EXPORT cu::result cuMemAlloc_v2(cu::pointer* made, std::size_t bytes) {
  call c("cuMemAlloc", needs::context);
  if (c.failed || c.forbidden_in_capture()) return c.failed;
  if (!made || bytes == 0) return c.misuse(invalid_value, "no bytes, or nowhere to put the address");
  c.go_on();
  if (c.s.set.fail_alloc > 0 && --c.s.set.fail_alloc == 0) return cu::out_of_memory;
  if (bytes > c.s.set.memory - c.here().used) return cu::out_of_memory;
  char* const at = map_memory(bytes);
  if (!at) return cu::out_of_memory;
  c.here().used += bytes;
  forget_freed(c.s, {address(at), address(at) + bytes});
  c.s.memory.emplace(address(at), allocation{c.at, bytes, ++c.s.allocated});
  ++c.s.counted.allocs;
  *made = address(at);
  return c.status();
}

MOCK_EXPORT cu::result cuMemFree_v2(cu::pointer p) {
  call c("cuMemFree", needs::context_even_lost);
  if (c.failed || p == 0 || c.forbidden_in_capture()) return c.failed;
  const auto found = c.s.memory.find(p);
  if (found == c.s.memory.end())
    return c.misuse(invalid_value, "the memory " + hex(p) +
                                       (c.s.freed.contains(p)                     ? " has been freed already"
                                        : find_memory(c.s, p) != c.s.memory.end() ? " lies within an allocation"
                                                                                  : " was never allocated"));
  const allocation what = found->second;
  if (what.device != c.at)
    return c.misuse(invalid_value, "the memory " + hex(p) + " is of device " + std::to_string(what.device));
  settle_pending(c, {p, p + what.bytes},
                 "the memory " + hex(p) + " of " + std::to_string(what.bytes) + " bytes is freed");
  c.go_on();
  c.here().used -= what.bytes;
  c.s.memory.erase(p);
  c.s.freed[p] = what.bytes;
  ++c.s.counted.frees;
  unmap_memory(p, what.bytes);
  return c.failed ? c.failed : c.status();
}

MOCK_EXPORT cu::result cuMemHostRegister_v2(void* at, std::size_t bytes, unsigned flags) {
  call c("cuMemHostRegister", needs::context);
  if (c.failed || c.forbidden_in_capture()) return c.failed;
  if (!at || bytes == 0 || flags > 15) return c.misuse(invalid_value, "no memory, no bytes, or unknown flags");
  const std::uintptr_t begin = address(at), end = begin + bytes;
  if (const auto after = c.s.memory.lower_bound(begin);
      find_memory(c.s, begin) != c.s.memory.end() || (after != c.s.memory.end() && after->first < end))
    return c.misuse(invalid_value, "the memory " + hex(begin) + " is a device's");
  for (const auto& [from, one] : c.s.registered)
    if (from < end && begin < from + one.bytes) return cu::already_registered;
  std::size_t locked = bytes;
  for (const auto& [from, one] : c.s.registered) locked += one.bytes;
  if (locked > c.s.set.memlock) return cu::out_of_memory;
  c.s.registered.emplace(begin, registration{c.at, bytes, (flags & cu::host_register_portable) != 0});
  ++c.s.counted.registers;
  return 0;
}

MOCK_EXPORT cu::result cuMemHostUnregister(void* at) {
  call c("cuMemHostUnregister", needs::context_even_lost);
  if (c.failed || c.forbidden_in_capture()) return c.failed;
  const auto found = c.s.registered.find(address(at));
  if (found == c.s.registered.end())
    return c.misuse(not_registered, "the memory " + hex(address(at)) + " is not registered");
  const range r{found->first, found->first + found->second.bytes};
  settle_pending(c, r, "the memory " + hex(r.begin) + " is unregistered");
  c.s.registered.erase(r.begin);
  ++c.s.counted.unregisters;
  return c.failed ? c.failed : c.status();
}
