// SPDX-License-Identifier: Apache-2.0
#include "tools/pictures/frame.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace tern::pictures {

std::string number(double value, int decimals) {
  char digits[64];
  std::snprintf(digits, sizeof digits, "%.*f", decimals, value);
  std::string text = digits;
  const auto point = std::min(text.find('.'), text.size());
  for (auto at = static_cast<std::ptrdiff_t>(point) - 3; at > (text[0] == '-' ? 1 : 0); at -= 3)
    text.insert(static_cast<std::size_t>(at), ",");
  return text;
}

unit unit_for(double longest) {
  return longest >= 0.1 ? unit{"s", 1} : longest >= 1e-4 ? unit{"ms", 1e-3} : unit{"µs", 1e-6};
}
std::string duration(double seconds, const unit& in) {
  const double value = seconds / in.seconds;
  const int decimals = value <= 0 ? 0 : std::clamp(3 - static_cast<int>(std::floor(std::log10(value))), 0, 3);
  return number(value, decimals) + " " + in.name;
}

double axis::place(double value) const {
  return logarithmic ? std::log(value / low) / std::log(high / low) : (value - low) / (high - low);
}

std::vector<axis::tick> axis::ticks(int wanted) const {
  std::vector<tick> found;
  if (logarithmic) {
    const bool is_long = std::log10(high / low) > 3.5;
    for (double decade = std::pow(10, std::floor(std::log10(low))); decade <= high; decade *= 10)
      for (const double times : {1., 2., 5.})
        if (const double v = decade * times; v >= low * 0.999 && v <= high * 1.001 && !(is_long && times > 1))
          found.push_back(
              {v, text_of ? text_of(v) : number(v, v < 1 ? static_cast<int>(std::ceil(-std::log10(decade))) : 0)});
    return found;
  }
  const double raw = (high - low) / wanted, power = std::pow(10, std::floor(std::log10(raw)));
  double step = 10 * power;
  for (const double times : {5., 2., 1.})
    if (times * power >= raw * 0.999) step = times * power;
  if (whole) step = std::max(step, 1.0);
  const int decimals = std::max(0, static_cast<int>(std::ceil(-std::log10(step) - 1e-9)));
  for (double n = std::ceil(low / step - 1e-9); n * step <= high + step * 1e-9; ++n)
    found.push_back({n * step + 0.0, number(n * step + 0.0, decimals)}); // 0 and not -0
  return found;
}

std::string shortened(canvas& on, std::string text, double room, double size, bool bold) {
  if (on.length_of(text, size, bold) <= room) return text;
  while (!text.empty() && on.length_of(text + "…", size, bold) > room) {
    while ((text.back() & 0xc0) == 0x80) text.pop_back(); // the rest of a character
    text.pop_back();
  }
  return text + "…";
}

void headline(canvas& on, double left, const std::string& title, const std::string& subtitle) {
  on.text(left, 52, shortened(on, title, width - left - 24, 31, true), 31, ink, 0, true);
  on.text(left, 84, shortened(on, subtitle, width - left - 24, medium), medium, faint);
}

void draw_axes(canvas& on, const frame& f, const std::string& below, const std::string& beside, bool with_x) {
  for (const auto& tick : f.y.ticks(5)) {
    on.text(f.left - 12, f.up(tick.value) + 6, tick.text, small, faint, 1);
    on.rule(f.left - 6, f.up(tick.value), f.left, f.up(tick.value), {ink, 1.5});
  }
  for (const auto& tick : f.x.ticks(10)) {
    on.rule(f.across(tick.value), f.bottom(), f.across(tick.value), f.bottom() + 6, {ink, 1.5});
    if (with_x) on.text(f.across(tick.value), f.bottom() + 27, tick.text, small, faint, 0.5);
  }
  if (with_x) on.text(f.left + f.wide / 2, f.bottom() + 58, below, medium, ink, 0.5);
  on.turned_text(34, f.top + f.high / 2, beside, medium, ink, 0.5);
  on.rule(f.left, f.bottom(), f.right(), f.bottom(), {ink, 1.5});
  on.rule(f.left, f.top, f.left, f.bottom(), {ink, 1.5});
}

look look_of(std::size_t number) {
  constexpr std::array<colour, 7> hues{blue, vermillion, green, purple, orange, sky, ink};
  const std::array<std::span<const double>, 4> dashes{std::span<const double>{}, dashed, dotted, mixed};
  return {hues[number % hues.size()], dashes[number / hues.size() % dashes.size()]};
}

} // namespace tern::pictures
