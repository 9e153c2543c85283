// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What a directory is made of that programs do not compile: directory.hpp names it only. Internal.

#include <tern/mobile/entry/rank_objects.hpp>
#include <tern/mobile/load/contacts.hpp>
#include <tern/mobile/load/handler_costs.hpp>
#include <tern/mobile/load/object_loads.hpp>

namespace tern::mobile::detail {

struct directory_parts {
  directory_parts(net::node& here, directory_services& services) : objects(here, services), loads(objects) {}
  rank_objects objects;
  object_loads loads;
  handler_costs costs;
  contact_counter contacts;
};

} // namespace tern::mobile::detail
