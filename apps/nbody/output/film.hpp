// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Pictures through a run: frame_0000.png, …, and all of them in film.webp, where it can be made.

#include "apps/common/animation.hpp"
#include "apps/nbody/output/picture.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace nbody {

class film {
public:
  /// \param folder for the pictures; there. \param pixels of a side.
  film(std::string folder, int pixels);
  /// The camera stays where the first picture puts it, far enough away for what comes. \throws
  /// tern::error(io).
  void add(std::uint64_t number, double time, const std::vector<float>& x, const std::vector<float>& y,
           const std::vector<float>& z, const std::vector<std::uint8_t>& label);
  /// Writes film.webp, if there were pictures and the encoder is there. \return whether it has.
  bool finish();

private:
  std::string folder_;
  int pixels_;
  std::optional<camera> seen_;
  double bright_ = 1;
  std::optional<apps::animation> moving_;
};

} // namespace nbody
