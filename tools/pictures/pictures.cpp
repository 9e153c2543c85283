// SPDX-License-Identifier: Apache-2.0
#include "tools/pictures/pictures.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <utility>

#include "tools/pictures/canvas.hpp"
#include "tools/pictures/frame.hpp"

namespace tern::pictures {
namespace {

colour lighter(const colour& c, double by) {
  return {c.red + (1 - c.red) * by, c.green + (1 - c.green) * by, c.blue + (1 - c.blue) * by};
}
colour darker(const colour& c, double by) { return {c.red * (1 - by), c.green * (1 - by), c.blue * (1 - by)}; }

/// Texts at the right end of lines, moved apart where they would overlap.
void label_lines(canvas& on, double x, std::vector<std::pair<double, std::string>> labels, double lowest) {
  constexpr double apart = 24;
  std::sort(labels.begin(), labels.end());
  std::vector<double> at;
  for (const auto& [y, text] : labels) at.push_back(at.empty() ? y : std::max(y, at.back() + apart));
  for (std::size_t i = at.size(); i-- > 0;) at[i] = std::min(at[i], i + 1 < at.size() ? at[i + 1] - apart : lowest);
  for (std::size_t i = 0; i < at.size(); ++i) {
    const point leader[]{{x, labels[i].first}, {x + 8, labels[i].first}, {x + 22, at[i]}, {x + 28, at[i]}};
    on.line(leader, {faint, 1.2});
    on.text(x + 34, at[i] + 6, labels[i].second, small, ink);
  }
}

void draw_bars(canvas& on, const frame& f, const busy_panel& p, const colour& hue, int workers) {
  const std::size_t n = p.busy.size();
  const double each = f.wide / static_cast<double>(n), gap = each >= 40 ? 3 : each >= 4 ? 1 : 0;
  for (std::size_t i = 0; i < n; ++i) {
    const double left = f.left + each * static_cast<double>(i);
    on.box(left, f.up(p.end), each - gap, f.bottom() - f.up(p.end), idle);
    on.box(left, f.up(p.busy[i]), each - gap, f.bottom() - f.up(p.busy[i]), hue);
  }
  if (const double rank = each * workers; workers > 1 && rank >= 16)
    for (double x = rank; x < f.wide - 1; x += rank)
      on.box(f.left + x - 2, f.up(p.end), each >= 4 ? 3 : 1, f.bottom() - f.up(p.end), paper);
}

/// A column of pixels for several workers.
void draw_profile(canvas& on, const frame& f, const busy_panel& p, const colour& hue) {
  const auto columns = static_cast<std::size_t>(f.wide);
  std::vector<point> means;
  on.box(f.left, f.up(p.end), f.wide, f.bottom() - f.up(p.end), idle);
  for (std::size_t c = 0; c < columns; ++c) {
    const auto from = p.busy.begin() + static_cast<std::ptrdiff_t>(c * p.busy.size() / columns);
    const auto to = p.busy.begin() + static_cast<std::ptrdiff_t>((c + 1) * p.busy.size() / columns);
    const auto [least, most] = std::minmax_element(from, to);
    const double x = f.left + static_cast<double>(c);
    on.box(x, f.up(*most), 1, f.bottom() - f.up(*most), lighter(hue, 0.55));
    on.box(x, f.up(*least), 1, f.bottom() - f.up(*least), hue);
    means.push_back({x + 0.5, f.up(std::accumulate(from, to, 0.0) / static_cast<double>(to - from))});
  }
  on.line(means, {darker(hue, 0.55), 1.6});
}

/// \return where the next begins.
double legend_box(canvas& on, double x, double y, const colour& in, const std::string& text) {
  on.box(x, y - 14, 26, 17, in);
  return x + 36 + on.text(x + 36, y, text, small, ink) + 34;
}
double legend_line(canvas& on, double x, double y, const stroke& how, const std::string& text) {
  on.rule(x, y - 6, x + 40, y - 6, how);
  return x + 50 + on.text(x + 50, y, text, small, ink) + 34;
}

/// Where a line is: its parts to the right of each moment are flat.
std::vector<point> steps(const frame& f, const std::vector<point>& values, double end) {
  std::vector<point> line;
  for (const auto& v : values) {
    if (!line.empty()) line.push_back({f.across(v.x), line.back().y});
    line.push_back({f.across(v.x), f.up(v.y)});
  }
  if (!line.empty()) line.push_back({f.across(end), line.back().y});
  return line;
}

} // namespace

void draw(const busy_picture& what, const std::string& path) {
  canvas on(width, height);
  constexpr double left = 130, right = 210, top = 176, bottom = 84, between = 66;
  double end = what.bound;
  std::size_t most_workers = 1;
  for (const auto& p : what.panels) {
    end = std::max({end, p.end, p.busy.empty() ? 0 : *std::max_element(p.busy.begin(), p.busy.end())});
    most_workers = std::max(most_workers, p.busy.size());
  }
  if (!(end > 0)) end = 1;
  const unit in = unit_for(end);
  const auto panels = static_cast<double>(what.panels.size());
  frame f{left, top, width - left - right, (height - top - bottom - between * (panels - 1)) / panels, {}, {}};
  f.x.high = static_cast<double>(most_workers);
  f.x.whole = true;
  f.y.high = end / in.seconds * 1.04;
  const bool profile = f.x.high > f.wide;

  headline(on, left, what.title, what.subtitle);
  double x = left;
  constexpr double y = 121;
  if (profile) {
    const colour hue = what.panels.size() > 1 ? faint : blue;
    x = legend_box(on, x, y, hue, "all workers of a pixel's column busy");
    x = legend_box(on, x, y, lighter(hue, 0.55), "some");
    x = legend_line(on, x, y, {darker(hue, 0.55), 2}, "their mean");
  } else {
    if (what.panels.size() > 1) x = legend_box(on, x, y, vermillion, "") - 40;
    x = legend_box(on, x, y, blue, "busy");
  }
  x = legend_box(on, x, y, idle, "idle");
  x = legend_line(on, x, y, {ink, 2, dashed}, "mean of all workers");
  if (what.bound > 0) legend_line(on, x, y, {ink, 2, dotted}, "bound: no schedule ends before");

  for (std::size_t i = 0; i < what.panels.size(); ++i) {
    busy_panel p = what.panels[i];
    f.top = top + static_cast<double>(i) * (f.high + between);
    for (double& b : p.busy) b /= in.seconds;
    const colour hue = i + 1 < what.panels.size() ? vermillion : blue;
    on.text(f.left, f.top - 14, shortened(on, p.title, f.wide - 400, large, true), large, ink, 0, true);
    const double mean =
        p.busy.empty() ? 0 : std::accumulate(p.busy.begin(), p.busy.end(), 0.0) / static_cast<double>(p.busy.size());
    if (p.end > 0)
      on.text(f.right(), f.top - 14, number(100 * mean * in.seconds / p.end, 1) + " % of the workers' time is used",
              medium, faint, 1);
    for (const auto& tick : f.y.ticks(5)) on.rule(f.left, f.up(tick.value), f.right(), f.up(tick.value), {grid, 1});
    p.end /= in.seconds;
    frame mine = f;
    mine.wide = f.wide * static_cast<double>(p.busy.size()) / f.x.high;
    if (profile && mine.wide >= 1)
      draw_profile(on, mine, p, hue);
    else
      draw_bars(on, mine, p, hue, what.workers);
    std::vector<std::pair<double, std::string>> labels;
    const auto across = [&](double value, const stroke& how, const std::string& text) {
      on.rule(f.left, f.up(value), f.right(), f.up(value), how);
      labels.emplace_back(f.up(value), text + " " + duration(value * in.seconds, in));
    };
    across(p.end, {ink, 2}, "ends at");
    across(mean, {ink, 2, dashed}, "mean");
    if (what.bound > 0) across(what.bound / in.seconds, {ink, 2, dotted}, "bound");
    label_lines(on, f.right() + 4, std::move(labels), f.bottom());
    draw_axes(on, f,
              "worker" + (what.workers > 1 ? ", rank by rank: " + number(what.workers, 0) + " of each" : std::string()),
              std::string("time busy (") + in.name + ")", i + 1 == what.panels.size());
  }
  on.write(path);
}

void draw(const course_picture& what, const std::string& path) {
  canvas on(width, height);
  constexpr double left = 130, right = 430, top = 156, bottom = 84, between = 72;
  double end = what.bound, worst = 1, most_moves = 0;
  for (const auto& c : what.courses) {
    end = std::max(end, c.end);
    std::vector<double> imbalances;
    for (const auto& m : c.moments) {
      if (m.imbalance > 0) imbalances.push_back(m.imbalance);
      most_moves = std::max(most_moves, static_cast<double>(m.moves));
    }
    if (imbalances.empty()) continue;
    // When some rank has the last object of a phase it is as large as the number of ranks, and says
    // nothing.
    const auto most = imbalances.begin() + static_cast<std::ptrdiff_t>(imbalances.size() * 9 / 10);
    std::nth_element(imbalances.begin(), most, imbalances.end());
    worst = std::max(worst, *most);
  }
  if (!(end > 0)) end = 1;
  const unit in = unit_for(end);
  frame above{left, top, width - left - right, (height - top - bottom - between) / 2, {}, {}};
  above.x.high = end / in.seconds * 1.01;
  frame below = above;
  below.top = above.bottom() + between;
  above.y = {1, std::max(worst * 1.08, 1.1), worst > 5};
  below.y.high = std::max(most_moves, 1.0) * 1.06;
  below.y.whole = true;

  headline(on, left, what.title, what.subtitle);
  on.text(left, above.top - 16, "Imbalance: the busiest rank's remaining work over the mean", large, ink, 0, true);
  on.text(left, below.top - 16, "Moves of objects until then", large, ink, 0, true);
  for (const frame* f : {&above, &below}) {
    for (const auto& tick : f->y.ticks(5))
      on.rule(f->left, f->up(tick.value), f->right(), f->up(tick.value), {grid, 1.5});
    for (const auto& tick : f->x.ticks(10))
      on.rule(f->across(tick.value), f->top, f->across(tick.value), f->bottom(), {grid, 1});
  }
  double y = above.top + 4;
  on.text(above.right() + 82, y + 6, "policy", small, faint);
  on.text(width - 24, y + 6, "ends at", small, faint, 1);
  y += 32;
  if (what.bound > 0) {
    for (const frame* f : {&above, &below}) {
      const double x = f->across(what.bound / in.seconds);
      on.rule(x, f->top, x, f->bottom(), {ink, 2, dotted});
    }
    on.rule(above.right() + 50, y - 12, above.right() + 50, y + 12, {ink, 2, dotted});
    on.text(above.right() + 82, y + 6, "bound: none ends before", small, ink);
    on.text(width - 24, y + 6, duration(what.bound, in), small, faint, 1);
    y += 32;
  }
  for (std::size_t i = 0; i < what.courses.size(); ++i) {
    const course& c = what.courses[i];
    const look as = look_of(i);
    std::vector<point> imbalance, moves;
    for (const auto& m : c.moments) {
      const double at = m.at / in.seconds;
      if (m.imbalance > 0) imbalance.push_back({above.across(at), above.up(std::max(m.imbalance, 1.0))});
      moves.push_back({at, static_cast<double>(m.moves)});
    }
    const std::vector<point> stairs = steps(below, moves, c.end / in.seconds);
    on.clip(above.left, above.top - 2, above.wide + 2, above.high + 4);
    on.line(imbalance, {as.hue, 2.4, as.dashes});
    on.unclip();
    on.line(stairs, {as.hue, 2.4, as.dashes});
    if (!imbalance.empty() && imbalance.back().y >= above.top) on.disc(imbalance.back(), 4, paper, {as.hue, 2.2});
    if (!stairs.empty()) on.disc(stairs.back(), 4, paper, {as.hue, 2.2});
    on.rule(above.right() + 28, y, above.right() + 72, y, {as.hue, 3, as.dashes});
    const double length = on.text(width - 24, y + 6, duration(c.end, in), small, faint, 1);
    on.text(above.right() + 82, y + 6, shortened(on, c.name, width - 40 - length - above.right() - 82, small), small,
            ink);
    y += 29;
  }
  draw_axes(on, above, "", "imbalance", false);
  draw_axes(on, below, std::string("time (") + in.name + ")", "moves", true);
  on.write(path);
}

} // namespace tern::pictures
