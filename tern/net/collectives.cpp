// SPDX-License-Identifier: Apache-2.0
#include <tern/net/collectives.hpp>

#include <tern/base/detail/type_name.hpp>
#include <tern/net/runtime.hpp>

namespace tern {

namespace net::detail {

collective_name name_collective(const char* operation, const std::type_info& type, int root) {
  collective_name name;
  name.what = std::string(operation) + "<" + tern::detail::type_name(type) + ">(root " + std::to_string(root) + ")";
  name.signature = 14695981039346656037ull; // FNV-1a
  for (unsigned char c : name.what) name.signature = (name.signature ^ c) * 1099511628211ull;
  return name;
}

// Ranks are numbered from the root; rank v receives from v without its lowest set bit, and sends to v + 2^k for every
// 2^k below that bit.
void broadcast_bytes(node& here, byte_buffer& bytes, int root, const collective_name& name) {
  const std::uint64_t sequence = here.next_collective(name.what);
  const int n = here.size(), v = (here.rank() - root + n) % n;
  const auto actual = [&](int virtual_rank) { return (virtual_rank + root) % n; };
  int bit = 1;
  for (; bit < n; bit <<= 1)
    if (v & bit) {
      bytes = here.collective_receive(actual(v - bit), sequence, name.signature, name.what);
      break;
    }
  for (bit >>= 1; bit > 0; bit >>= 1)
    if (v + bit < n) here.collective_send(actual(v + bit), sequence, name.signature, name.what, bytes.copy());
}

bool reduce_up(node& here, const collective_name& name, const std::function<byte_buffer()>& mine,
               const std::function<void(std::span<const std::byte>)>& absorb) {
  const std::uint64_t sequence = here.next_collective(name.what);
  const int n = here.size(), v = here.rank();
  for (int bit = 1; bit < n; bit <<= 1) {
    if (v & bit) {
      here.collective_send(v - bit, sequence, name.signature, name.what, mine());
      return false;
    }
    if (v + bit < n) {
      const byte_buffer part = here.collective_receive(v + bit, sequence, name.signature, name.what);
      absorb({part.data(), part.size()});
    }
  }
  return true;
}

} // namespace net::detail

void barrier() {
  net::node& here = net::node::here();
  const auto name = net::detail::name_collective("barrier", typeid(void), 0);
  net::detail::reduce_up(
      here, name, [] { return byte_buffer{}; }, [](std::span<const std::byte>) {});
  byte_buffer nothing;
  net::detail::broadcast_bytes(here, nothing, 0, name);
}

void quiesce() { net::node::here().quiesce(); }

} // namespace tern
