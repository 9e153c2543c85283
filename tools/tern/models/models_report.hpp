// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What `tern models` shows of performance models.

#include <cstdint>
#include <string>

#include <tern/hetero/models/estimate/model_set.hpp>

namespace tern::tool {

/// Is it matched by the glob (`*`, `?`, `[…]`)? An empty pattern matches all.
bool matches(const std::string& pattern, const std::string& text);

/// Those whose kernel, or one of whose devices, is matched.
hetero::detail::model_set matching(const hetero::detail::model_set& all, const std::string& pattern);

/// Tables of kernels, links and power, of what there is of them. \param now seconds since 1970.
std::string table_of(const hetero::detail::model_set& models, std::int64_t now);

/// Draws times over sizes, a line for each kernel and device, into a PNG file. \return what it
/// shows: "12 times of 3 kernels". \throws std::runtime_error that names the file.
std::string plot(const hetero::detail::model_set& models, const std::string& title, const std::string& path);

} // namespace tern::tool
