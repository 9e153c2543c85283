// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// How the mock NVRTC's machine code and PTX look. Machine code is a library for the loader (ELF).
/// Unused bytes of its head hold its size, a sum and the architecture, as a driver gets no length.
/// PTX has the same in hexadecimal.

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>

namespace mock {

struct image {
  std::string library; ///< the bytes that the loader wants
  int architecture = 0;
  int ptx_version = 0; ///< CUDA's that made it, 13000; 0: machine code
};

/// What a kernel may have of a group's memory without asking, and what ptxas says of one that has
/// more of its own.
constexpr std::size_t usual_shared = 48 * 1024;
inline std::string too_much_shared(const std::string& kernel, std::size_t bytes) {
  char numbers[64];
  std::snprintf(numbers, sizeof numbers, "(0x%zx bytes, 0x%zx max)", bytes, usual_shared);
  return "Entry function '" + kernel + "' uses too much shared data " + numbers;
}

constexpr std::string_view ptx_mark = "// mock PTX of CUDA ";
constexpr std::size_t ident = 9, head = 64, most_bytes = (1 << 24) - 1;

inline std::uint32_t sum_of(std::string_view bytes) {
  std::uint32_t sum = 2166136261u;
  for (const char c : bytes) sum = (sum ^ static_cast<unsigned char>(c)) * 16777619u;
  return (sum ^ sum >> 24) & 0xffffff;
}

/// The size that an ELF file's own head tells; 0 if it is none.
inline std::size_t elf_bytes(const char* at) {
  std::uint64_t offset = 0;
  std::uint16_t size = 0, count = 0;
  if (std::memcmp(at,
                  "\x7f"
                  "ELF",
                  4) != 0)
    return 0;
  std::memcpy(&offset, at + 0x28, 8);
  std::memcpy(&size, at + 0x3a, 2);
  std::memcpy(&count, at + 0x3c, 2);
  return offset > most_bytes ? 0 : static_cast<std::size_t>(offset) + std::size_t{size} * count;
}

inline std::string make_cubin(std::string library, int architecture) {
  const std::uint32_t size = static_cast<std::uint32_t>(library.size()), sum = sum_of(library);
  library[ident] = static_cast<char>(architecture);
  std::memcpy(&library[ident + 1], &size, 3);
  std::memcpy(&library[ident + 4], &sum, 3);
  return library;
}

inline std::string make_ptx(std::string_view library, int architecture, int version, const std::string& entries) {
  std::string text = std::string(ptx_mark) + std::to_string(version) + "\n.version " +
                     std::to_string(version / 1000 - 4) + "." + std::to_string(version % 1000 / 10) + "\n.target sm_" +
                     std::to_string(architecture) + "\n" + entries + "// " + std::to_string(library.size()) + " " +
                     std::to_string(sum_of(library)) + "\n";
  for (std::size_t i = 0; i < library.size(); ++i) {
    const auto c = static_cast<unsigned char>(library[i]);
    if (i % 48 == 0) text += i == 0 ? "//" : "\n//";
    text += "0123456789abcdef"[c >> 4];
    text += "0123456789abcdef"[c & 15];
  }
  return text + "\n";
}

/// \param why gets what is wrong with it.
inline std::optional<image> read_cubin(const char* at, std::string& why) {
  image made;
  const std::size_t bytes = elf_bytes(at);
  std::uint32_t size = 0, sum = 0;
  std::memcpy(&size, at + ident + 1, 3);
  std::memcpy(&sum, at + ident + 4, 3);
  if (bytes < head || bytes != size) return why = "the head of the machine code is damaged", std::nullopt;
  made.library.assign(at, bytes);
  made.architecture = static_cast<unsigned char>(at[ident]);
  std::memset(&made.library[ident], 0, 7);
  if (sum_of(made.library) != sum) return why = "the machine code is damaged", std::nullopt;
  return made;
}

inline std::optional<image> read_ptx(std::string_view text, std::string& why) {
  image made;
  const auto number_after = [&](std::string_view mark) {
    const std::size_t found = text.find(mark);
    long n = 0;
    for (std::size_t i = found + mark.size(); found != text.npos && i < text.size() && n < 100000000; ++i) {
      if (text[i] < '0' || text[i] > '9') break;
      n = n * 10 + (text[i] - '0');
    }
    return n;
  };
  made.ptx_version = static_cast<int>(number_after(ptx_mark));
  made.architecture = static_cast<int>(number_after("\n.target sm_"));
  const long bytes = number_after("\n// ");
  const std::string of = "\n// " + std::to_string(bytes) + " ";
  const long sum = number_after(of);
  std::size_t i = text.find(of);
  i = i == text.npos ? i : text.find('\n', i + 1);
  int high = -1;
  for (; i < text.size(); ++i) {
    const char c = text[i];
    const int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
    if (digit < 0 && c != '\n' && c != '/')
      return why = "the PTX has something else where code should be", std::nullopt;
    if (digit >= 0) {
      if (high >= 0) made.library += static_cast<char>(high << 4 | digit);
      high = high >= 0 ? -1 : digit;
    }
  }
  if (made.library.size() < head || static_cast<long>(made.library.size()) != bytes ||
      static_cast<long>(sum_of(made.library)) != sum)
    return why = "the PTX is damaged", std::nullopt;
  return made;
}

} // namespace mock
