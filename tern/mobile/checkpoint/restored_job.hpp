// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What a rank knows of the checkpoints that its job has written and read. Internal.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <tern/mobile/checkpoint.hpp>
#include <tern/mobile/entry/rank_objects.hpp>

namespace tern::mobile::detail {

/// One for each rank. One fiber at a time: that which calls collectives.
class restored_job {
public:
  static restored_job& of(net::node& here);

  /// \throws error(invalid_state) if the job was to go on from a checkpoint, and has not.
  void check_before_saving(const net::node& here) const;
  /// Of homes that are here beside the rank's own: the first number that was not given.
  std::vector<std::pair<std::int32_t, std::uint64_t>> other_numbers(const rank_objects& objects) const;
  /// The last good checkpoint in the folder, as far as this job has written or read it.
  std::optional<std::uint64_t> last_saved(const std::string& folder) const;
  void note_saved(const std::string& folder, std::uint64_t generation) { saved_[folder] = generation; }

  bool done = false; ///< `restored` was called
  std::vector<saved_root> roots;
  std::vector<std::uint64_t> numbers; ///< by home: the first that had not been given when it was saved

private:
  std::map<std::string, std::uint64_t> saved_;
};

} // namespace tern::mobile::detail
