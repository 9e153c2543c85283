// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What the broken copies of source files (CMakeLists.txt) ask: is this bug wanted in this process?
/// The same program is right where --bug wants none.

namespace tern::property {

/// Does `--bug` name it? Any thread.
bool is_wanted(const char* bug) noexcept;
/// Before the first `is_wanted`. Null: none.
void want_bug(const char* bug) noexcept;

} // namespace tern::property

#define TERN_BUG(name) tern::property::is_wanted(#name)
