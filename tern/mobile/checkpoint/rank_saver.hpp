// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What a rank saves: its objects, and tables of what belongs to them. Internal.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <tern/mobile/checkpoint/object_storage.hpp>
#include <tern/mobile/checkpoint/saved_tables.hpp>
#include <tern/mobile/directory.hpp>

namespace tern::mobile::detail {

/// Saves the objects of the calling rank into a sink. \pre nothing is under way, and no object
/// moves meanwhile. One fiber.
class rank_saver {
public:
  rank_saver(net::node& here, object_sink& to) : here_(here), all_(directory::of(here)), to_(to) {}
  /// By id. Lets other fibers run now and then. \throws what packing an object throws, with its
  /// name.
  void save_objects();
  /// After the objects. \param root_credits what references in the roots were given
  void save_rest(std::vector<saved_root> roots, split_recorder::credits root_credits);

private:
  void save(const entry& e, split_recorder& given);
  saved_class& class_of(const type_record& type, std::uint32_t& number);

  net::node& here_;
  directory& all_;
  object_sink& to_;
  saved_tables tables_;
  std::map<const type_record*, std::uint32_t> numbers_; // address: looked up only; of classes
};

} // namespace tern::mobile::detail
