// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// PTX of kernels that was made when the program was built (`tern_device_code` in CMake), found by
/// the text that it was made of. Internal, but files that `tern kernels ptx` writes include it.

#include <array>
#include <cstdint>
#include <string_view>

namespace tern::hetero {
struct source_block;
}

namespace tern::hetero::detail {

/// Two halves of a hash (XXH3).
using text_hash = std::array<std::uint64_t, 2>;

/// Of all that the block's PTX depends on: its text and the dialect's definitions before it. Not of
/// the file's name and the lines, which differ from build to build.
/// \param fused of kernels that are several at a time (prelude.hpp). \throws what `text_of` throws.
text_hash hash_of_text(const source_block& block, bool fused = false);

/// A block of kernels as PTX. All that it points to lives as long as the program.
struct made_code {
  const char* block;      ///< the block's name
  text_hash text;         ///< what it was made of
  int capability;         ///< of the oldest devices that run it: 70 is 7.0
  bool contracted;        ///< with a * b + c as one operation (the option `hetero-fma`)
  std::string_view image; ///< PTX, ended by '\0'
  bool fused = false;     ///< its kernels are several at a time
};

/// Adds them: a static object of a file that `tern kernels ptx` has written. Before or while tasks
/// run; one of the same text twice is as good as once. Thread-safe.
class made_code_registration {
public:
  explicit made_code_registration(const made_code& code);
};

struct found_code {
  const made_code* code = nullptr; ///< null: there is none
  bool of_another_text = false;    ///< there is one for a block of this name, and it is out of date
};
/// \param capability of the device. Thread-safe.
found_code find_made_code(std::string_view block, const text_hash& text, int capability, bool contracted,
                          bool fused = false);

} // namespace tern::hetero::detail
