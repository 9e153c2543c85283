// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Causal contexts that are told what the work takes of devices that they count. Internal to Tern's
/// layers.

#include <tern/task/fiber/causal_context.hpp>

namespace tern::detail {

/// A device's worker finds it in a causal_context by a dynamic cast: once for each task of its
/// device, never for others.
class charged_context : public causal_context {
public:
  /// Work that is counted here, and not released yet, has taken so many seconds of a device. Any
  /// thread. \param amount how much work that was, in a unit that is the same on all devices; 0:
  /// not known.
  virtual void charge(double seconds, double amount) noexcept = 0;

protected:
  ~charged_context() = default;
};

} // namespace tern::detail
