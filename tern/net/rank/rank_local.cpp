// SPDX-License-Identifier: Apache-2.0
#include <tern/net/rank_local.hpp>

#include <atomic>

#include <tern/net/node.hpp>

namespace tern {
namespace net {
namespace {

std::atomic<std::size_t> local_slots{0}; // counts static objects, before main

} // namespace

std::size_t new_local_slot() noexcept { return local_slots.fetch_add(1, std::memory_order_relaxed); }
std::size_t local_slot_count() noexcept { return local_slots.load(std::memory_order_relaxed); }
void* local_slot(std::size_t index, void* (*make)(), void (*destroy)(void*)) {
  return node::here().local(index, make, destroy);
}

} // namespace net

int rank() { return net::node::here().rank(); }
int size() { return net::node::here().size(); }
const options& run_options() { return net::node::here().opts(); }

} // namespace tern
