// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Compiled kernels, kept on disk from run to run. Internal.
///
/// An entry is a file, named by a hash of its key and written whole or not at all: programs may use
/// a folder at the same time, also over a network. It holds the key in full, so that two keys of
/// one hash are not taken for each other, and a checksum. What is not as it should be is a miss.
/// Nothing here is an error: at worst kernels are compiled again.

#include <cstddef>
#include <filesystem>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include <tern/base/options.hpp>

namespace tern::hetero::detail {

/// Thread-safe: it is but the folder's name.
class kernel_cache {
public:
  kernel_cache() = default; ///< keeps nothing
  /// \param folder is made when something is stored, for its owner alone; empty: nothing is kept.
  explicit kernel_cache(std::filesystem::path folder) : folder_(std::move(folder)) {}
  /// The folder that `hetero-cache` means, by itself or by the environment. Where the environment
  /// names none, or one that cannot be written, kernels are kept until the process ends, in a
  /// temporary folder for all its ranks.
  explicit kernel_cache(const options& opts);

  /// Where they are kept from run to run; empty: nowhere.
  const std::filesystem::path& folder() const noexcept { return folder_; }
  /// Whether `store` does anything.
  bool keeps() const noexcept { return elsewhere_ || !folder_.empty(); }
  /// \return what was stored under the key. Nothing if there is none, or it is damaged (then it is
  /// removed), or the file belongs to another user: another user's code is not run.
  std::optional<std::vector<std::byte>> find(std::string_view key) const;
  /// Replaces what was stored under the key. Errors go to the log, at level debug.
  void store(std::string_view key, std::span<const std::byte> bytes) const;
  /// For an entry that its driver refused.
  void remove(std::string_view key) const;

private:
  static std::filesystem::path file_of(const std::filesystem::path& folder, std::string_view key);
  static std::optional<std::vector<std::byte>> find_in(const std::filesystem::path& folder, std::string_view key);

  std::filesystem::path folder_;
  bool elsewhere_ = false; ///< if it cannot be written, or is empty, the temporary folder takes its place
};

} // namespace tern::hetero::detail
