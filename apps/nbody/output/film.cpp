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
  }
  sky above(*seen_);
  above.add(x, y, z, label);
  if (first) bright_ = above.bright();
  auto pixels = above.develop(bright_);
  write_marks(pixels, *seen_, fmt::format("t = {:.2f}", time));
  append(pixels);
  write_png(path_of(number), std::move(pixels), *seen_, "");
}

std::string film::path_of(std::uint64_t number) const {
  return (std::filesystem::path(folder_) / fmt::format("frame_{:04}.png", number)).string();
}

void film::append(const std::vector<std::uint32_t>& pixels) {
  if (!moving_ && apps::animations_are_built()) moving_.emplace(pixels_, pixels_, milliseconds);
  if (moving_) moving_->add(pixels.data());
}

std::vector<double> film::view() const {
  if (!seen_) return {};
  return {seen_->middle[0], seen_->middle[1], seen_->middle[2], seen_->side, seen_->tilt, bright_};
}

std::uint64_t film::go_on(const std::vector<double>& view, std::uint64_t pictures) {
  if (view.size() == 6) {
    seen_ = camera{{view[0], view[1], view[2]}, view[3], view[4], pixels_};
    bright_ = view[5];
  }
  std::uint64_t missing = 0;
  for (std::uint64_t n = 0; n < pictures; ++n) {
    const auto pixels = read_png(path_of(n), pixels_);
    if (pixels.empty())
      ++missing;
    else
      append(pixels);
  }
  return missing;
}

bool film::finish() {
  if (!moving_) return false;
  moving_->write((std::filesystem::path(folder_) / "film.webp").string());
  return true;
}

} // namespace nbody
