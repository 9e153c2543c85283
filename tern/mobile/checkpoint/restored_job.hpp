// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What a rank knows of the checkpoints that its job has written and read. Internal.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <tern/mobile/checkpoint.hpp>
#include <tern/net/node.hpp>

namespace tern::mobile::detail {

/// One for each rank. One fiber at a time: that which calls collectives.
class restored_job {
public:
  static restored_job& of(net::node& here);

  /// \throws error(invalid_state) if the job was to go on from a checkpoint, and has not.
  void check_before_saving(const net::node& here) const;
  /// The last good checkpoint in the folder, as far as this job has written or read it.
  std::optional<std::uint64_t> last_saved(const std::string& folder) const;
  void note_saved(const std::string& folder, std::uint64_t generation) {
    saved_[folder] = generation;
    last_ = folder;
  }
  /// The folder that the job has written to, or read from, last; empty: none.
  const std::string& last_folder() const noexcept { return last_; }

  bool done = false; ///< `restored` was called
  std::vector<saved_root> roots;

private:
  std::map<std::string, std::uint64_t> saved_;
  std::string last_;
};

} // namespace tern::mobile::detail
