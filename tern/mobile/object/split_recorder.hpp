// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// How much credit of counted references goes into what a fiber packs. Internal.

#include <cstdint>
#include <utility>
#include <vector>

#include <tern/mobile/object_id.hpp>

namespace tern::mobile::detail {

/// While it lives, notes which credit references give to what its fiber packs. One for a fiber at a
/// time.
class split_recorder {
public:
  /// What a reference gives.
  enum class gives : std::uint8_t {
    parts, ///< of its credit, as always
    copies ///< credit that it does not have: what is packed is for another job
  };
  using credits = std::vector<std::pair<object_id, std::uint64_t>>;
  /// Of a copy: so much that it need not ask for more for long, and that 2^24 of them are less than
  /// 2^64.
  static constexpr std::uint64_t of_copy = std::uint64_t{1} << 40;

  explicit split_recorder(gives what);
  ~split_recorder();
  split_recorder(const split_recorder&) = delete;
  split_recorder& operator=(const split_recorder&) = delete;
  /// The calling fiber's; null: it has none.
  static split_recorder* here() noexcept;
  bool gives_copies() const noexcept { return what_ == gives::copies; }
  void note(object_id id, std::uint64_t credit) { given_.emplace_back(id, credit); }
  /// What was noted since it was made, or since the last call.
  credits take() noexcept { return std::exchange(given_, {}); }

private:
  const gives what_;
  credits given_;
};

} // namespace tern::mobile::detail
