// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Pictures of how work was balanced, as the literature shows it: how long each worker was busy,
/// and what happened over time. 1600 x 1000 pixels, in colours that all eyes can tell apart (Okabe
/// and Ito).

#include <cstdint>
#include <string>
#include <vector>

namespace tern::pictures {

/// How long each worker was busy, in a run that took until `end`; seconds, as all here.
struct busy_panel {
  std::string title;
  std::vector<double> busy; ///< by worker, rank by rank
  double end = 0;
};
/// One below the other, with the same axes. A bar for each worker, or, where there are more of them
/// than pixels, the least, mean and most of those that share a column of pixels.
struct busy_picture {
  std::string title, subtitle;
  std::vector<busy_panel> panels; ///< at least one
  int workers = 1;                ///< of each rank
  double bound = 0;               ///< before which no run can end; 0: not known
};
/// Writes a PNG file. \throws std::runtime_error that names the file, or if there is no cairo.
void draw(const busy_picture& what, const std::string& path);

/// A run from its beginning to `end`.
struct course {
  struct moment {
    double at, imbalance; ///< the busiest rank's remaining load over the mean; 0 or less: not known
    std::uint64_t moves;  ///< until then
  };
  std::string name;
  double end = 0;
  std::vector<moment> moments; ///< ascending
};
/// Imbalance above, moves below, a line for each run. The legend has them in the order given. The
/// axis of imbalance suits nine tenths of each run: lines leave it where it rises because hardly
/// any work is left.
struct course_picture {
  std::string title, subtitle;
  std::vector<course> courses; ///< at least one
  double bound = 0;            ///< as above
};
/// Likewise.
void draw(const course_picture& what, const std::string& path);

} // namespace tern::pictures
