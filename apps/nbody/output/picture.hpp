// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Bodies as light: what telescopes would show of the stars.

#include <cstdint>
#include <string>
#include <vector>

namespace nbody {

/// What is seen: a square of space from above its z axis, or from another side.
struct camera {
  double middle[3] = {0, 0, 0}, side = 1; ///< the square's side, in units of length
  double tilt = 0;                        ///< radians about the x axis
  int pixels = 1000;                      ///< of a side
};

/// A camera that sees nearly all of the bodies: all but the farthest 2 % (of those that shine).
camera camera_for(const std::vector<float>& x, const std::vector<float>& y, const std::vector<float>& z,
                  const std::vector<std::uint8_t>& label, int pixels);

/// Colours by label (models.hpp): two discs in two colours, haloes faint.
class sky {
public:
  explicit sky(const camera& seen);
  /// Each body is a round spot of a pixel or two; light adds up.
  void add(const std::vector<float>& x, const std::vector<float>& y, const std::vector<float>& z,
           const std::vector<std::uint8_t>& label);
  /// Light of which a hundredth of the lit pixels has more: what `develop` takes as bright. A film
  /// uses that of its first picture for all.
  double bright() const;
  /// 0xffRRGGBB, rows from the top. \param bright see above.
  std::vector<std::uint32_t> develop(double bright) const;

private:
  camera seen_;
  std::vector<float> light_; ///< by pixel: red, green, blue
};

/// Writes a PNG, with a title above and a scale at the lower left if there is a title. \throws
/// tern::error(io) that names the file.
void write_png(const std::string& path, std::vector<std::uint32_t> pixels, const camera& seen,
               const std::string& title);
/// The same marks, on the pixels themselves.
void write_marks(std::vector<std::uint32_t>& pixels, const camera& seen, const std::string& title);

} // namespace nbody
