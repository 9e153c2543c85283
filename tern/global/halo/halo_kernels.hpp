// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The kernels of a halo: one writes what all neighbours need, one all ghost layers. Internal.

#include <span>

#include <tern/global/halo/halo_layout.hpp>
#include <tern/hetero/hetero_object.hpp>

namespace tern::global::detail {

/// Submits a task that writes the parts for all neighbours, one after the other by side. \param
/// part of the object, with ghost layers.
template <class T>
void submit_pack(const halo_layout& of, hetero::detail::object_state* field, const hetero::detail::box& part,
                 const hetero_object<T>& to);
/// Submits a task that writes the ghost layers. \param from by side; one at least.
template <class T>
void submit_unpack(const halo_layout& of, hetero::detail::object_state* field, const hetero::detail::box& part,
                   std::span<const hetero_object<T>> from);

extern template void submit_pack(const halo_layout&, hetero::detail::object_state*, const hetero::detail::box&,
                                 const hetero_object<float>&);
extern template void submit_pack(const halo_layout&, hetero::detail::object_state*, const hetero::detail::box&,
                                 const hetero_object<double>&);
extern template void submit_pack(const halo_layout&, hetero::detail::object_state*, const hetero::detail::box&,
                                 const hetero_object<int>&);
extern template void submit_unpack(const halo_layout&, hetero::detail::object_state*, const hetero::detail::box&,
                                   std::span<const hetero_object<float>>);
extern template void submit_unpack(const halo_layout&, hetero::detail::object_state*, const hetero::detail::box&,
                                   std::span<const hetero_object<double>>);
extern template void submit_unpack(const halo_layout&, hetero::detail::object_state*, const hetero::detail::box&,
                                   std::span<const hetero_object<int>>);

} // namespace tern::global::detail
