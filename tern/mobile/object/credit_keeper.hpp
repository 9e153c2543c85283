// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Credit of counted references that must not be returned yet. Internal.

#include <cstdint>
#include <utility>
#include <vector>

#include <tern/mobile/object_id.hpp>

namespace tern::mobile::detail {

/// While it lives, what its fiber unpacks may have to be unpacked once more: credit that would be
/// returned meanwhile is kept. If unpacking has failed the keeper is destroyed with it; else `take`
/// gives it, to be returned.
class credit_keeper {
public:
  using credits = std::vector<std::pair<object_id, std::uint64_t>>;

  credit_keeper();
  ~credit_keeper();
  credit_keeper(const credit_keeper&) = delete;
  credit_keeper& operator=(const credit_keeper&) = delete;
  /// The calling fiber's; null: it has none.
  static credit_keeper* here() noexcept;
  void keep(object_id id, std::uint64_t credit) { kept_.emplace_back(id, credit); }
  /// Ends it: what is returned from now on is not kept.
  credits take();

private:
  credits kept_;
};

} // namespace tern::mobile::detail
