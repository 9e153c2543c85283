// SPDX-License-Identifier: Apache-2.0
#include "apps/nbody/output/film.hpp"

#include <filesystem>
#include <utility>

#include <fmt/core.h>

namespace nbody {
namespace {

constexpr int milliseconds = 60;

} // namespace

film::film(std::string folder, int pixels) : folder_(std::move(folder)), pixels_(pixels) {}

void film::add(std::uint64_t number, double time, const std::vector<float>& x, const std::vector<float>& y,
               const std::vector<float>& z, const std::vector<std::uint8_t>& label) {
  const bool first = !seen_;
  if (first) {
    seen_ = camera_for(x, y, z, label, pixels_);
    seen_->side *= 1.5;
    if (apps::animations_are_built()) moving_.emplace(pixels_, pixels_, milliseconds);
  }
  sky above(*seen_);
  above.add(x, y, z, label);
  if (first) bright_ = above.bright();
  auto pixels = above.develop(bright_);
  write_marks(pixels, *seen_, fmt::format("t = {:.2f}", time));
  if (moving_) moving_->add(pixels.data());
  const auto path = std::filesystem::path(folder_) / fmt::format("frame_{:04}.png", number);
  write_png(path.string(), std::move(pixels), *seen_, "");
}

bool film::finish() {
  if (!moving_) return false;
  moving_->write((std::filesystem::path(folder_) / "film.webp").string());
  return true;
}

} // namespace nbody
