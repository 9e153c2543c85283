// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Models as text: what the file of models holds. Internal.
///
/// The first line is `{"tern models":1}`. Each further line is a JSON object, one model, whose last
/// member is `"crc"`: the XXH3 (64 bits, 16 hexadecimal digits) of all that stands before the comma
/// in front of it. A line is read only if that is right, so a damaged one is never half understood.
///
///     {"kernel":"axpy","text":"4d1…","device":"host:2 workers","size":"8c0…","uses":"r 8x1024; …",
///      "bytes":8192,"last":1764111146,"ns":[1200,1180],"crc":"90f…"}
///     {"link":"host:2 workers","to":"NVIDIA … / 570","range":20,"last":…,"bytes":[…],"ns":[…],"crc":…}
///     {"link":"host:2 workers","to":"NVIDIA … / 570","last":…,"both ways":[1.62,…],"crc":…}
///     {"power":"NVIDIA … / 570","busy":310,"idle":42,"last":…,"crc":…}

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include <tern/hetero/models/estimate/model_set.hpp>

namespace tern::hetero::detail {

constexpr int model_text_version = 1;

/// Of all models, sorted; equal sets give equal texts. Times are rounded to nanoseconds, those
/// below a microsecond to thousandths of one. Any thread.
std::string text_of(const model_set& models);

struct parsed_models {
  enum class header { none, right, other_version, damaged };
  header first = header::none;          ///< none: the text is empty
  model_set models;                     ///< empty, unless the header is right
  std::vector<std::size_t> wrong_lines; ///< numbers from 1, ascending; they were skipped
};

/// Trusts nothing: any text gives models or lines that are wrong, and takes no more memory than its
/// own size justifies. Of two lines about the same, the later one counts. Any thread.
parsed_models parse_models(std::string_view text);

/// All models as one JSON document, with estimates, for other programs: an object with arrays
/// `kernels`, `links` and `power`. Times are in nanoseconds. \param now seconds since 1970; gives
/// the ages.
std::string json_of(const model_set& models, std::int64_t now);

} // namespace tern::hetero::detail
