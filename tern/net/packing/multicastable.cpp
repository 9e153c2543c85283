// SPDX-License-Identifier: Apache-2.0
#include <tern/net/packing/multicastable.hpp>

#include <tern/task/fiber.hpp>

namespace tern::net::detail {
namespace {

const fiber_local<int> packing_for_many; // a fiber's, since a user's `save` may suspend it

} // namespace

multicast_packing::multicast_packing() { ++*packing_for_many; }
multicast_packing::~multicast_packing() { --*packing_for_many; }
bool multicast_packing::here() { return *packing_for_many > 0; }

} // namespace tern::net::detail
