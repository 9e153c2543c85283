// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The library's own policies, each defined in its file in policies/. They are found through a table instead of static
/// objects, because a linker leaves out a file of a static library that nobody refers to.

#include <memory>

#include <tern/balance/policy.hpp>

namespace tern::balance::detail {

policy_kind none_kind();
policy_kind master_worker_kind();
policy_kind diffusion_kind();
policy_kind steal_kind();
policy_kind gossip_kind();
policy_kind greedy_kind();
policy_kind refine_kind();
policy_kind hierarchical_kind();
policy_kind communication_kind();

/// As users write its name, and a line that says what it does. P is constructible from (host&, parameters&).
template <class P> policy_kind kind_of(const char* name, const char* what) {
  return {name, what, [](host& h, parameters& p) -> std::unique_ptr<policy> { return std::make_unique<P>(h, p); }};
}

} // namespace tern::balance::detail
