// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// A policy's name and parameters, under the names that this layer's policies use.

#include <tern/base/policy_parameters.hpp>

namespace tern::balance {

using parameters = tern::policy_parameters;
using tern::policy_text;
using tern::split_policy;

} // namespace tern::balance
