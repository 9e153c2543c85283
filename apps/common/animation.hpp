// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Pictures in one file that moves: WebP, by libwebp's encoder, where it was there when this was
/// built.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace apps {

/// Whether `animation` can write anything.
bool animations_are_built() noexcept;

/// One picture after the other, for ever again. One thread at a time.
class animation {
public:
  /// \throws tern::error(unsupported) if the encoder was not there when this was built;
  /// error(invalid_argument) for a size that WebP does not have (1 to 16383).
  animation(int width, int height, int milliseconds_each, float quality = 80);
  animation(const animation&) = delete;
  animation& operator=(const animation&) = delete;
  ~animation();
  /// \param pixels 0xffRRGGBB, rows without gaps from the top. \throws tern::error(system) with
  /// what the encoder says.
  void add(const std::uint32_t* pixels);
  std::size_t frames() const noexcept;
  /// \throws tern::error(io) that names the file; error(system); error(invalid_state) without a
  /// picture.
  void write(const std::string& path);

private:
  struct encoder;
  std::unique_ptr<encoder> encoder_;
};

} // namespace apps
