// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What a device's compiler says, as errors show it. Internal.

#include <algorithm>
#include <string>

namespace tern::hetero::detail {

/// \param log as it was read into a buffer: it ends where a null is, if there is one.
/// \return it without what is empty at its end, and at most 16 KiB of it.
inline std::string shown_log(std::string log) {
  constexpr std::size_t longest = 16384;
  log.erase(std::find(log.begin(), log.end(), '\0'), log.end());
  while (!log.empty() && (log.back() == '\n' || log.back() == ' ')) log.pop_back();
  if (log.size() > longest) log = log.substr(0, longest) + "\n…";
  return log.empty() ? "(its compiler does not say why)" : log;
}

} // namespace tern::hetero::detail
