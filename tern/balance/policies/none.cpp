// SPDX-License-Identifier: Apache-2.0
/// \file
/// The policy `none`: objects stay where the program puts them.
#include <tern/balance/policy.hpp>

#include <tern/balance/policy/builtin.hpp>

namespace tern::balance {
namespace {

class none final : public policy {
public:
  none(policy_context& rank, parameters&) : policy(rank) {}
};

} // namespace

namespace detail {
policy_kind none_kind() { return kind_of<none>("none", "moves nothing"); }
} // namespace detail

} // namespace tern::balance
