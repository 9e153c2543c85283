// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The library's own codecs. Functions take the place of static objects, because a linker leaves
/// out a file of a static library that no other file refers to. Internal.

#include <string>

#include <tern/base/error.hpp>
#include <tern/global/codec.hpp>

namespace tern::global::detail {

codec_kind none_kind();
codec_kind zstd_kind();
codec_kind zfp_kind();

/// Bytes that no `encode` has made.
[[noreturn]] void bad_stream(const codec& c, const array_shape& s, const std::string& why);
/// For a codec whose library was not there when Tern was built.
error without_library(const std::string& name, const std::string& package);

/// For a whole number without, and others with as many digits as tell them apart.
std::string text_of_number(double x);

} // namespace tern::global::detail
