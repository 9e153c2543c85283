// SPDX-License-Identifier: Apache-2.0
#include <tern/global/coding/codec_advice.hpp>

#include <algorithm>

namespace tern::global::detail {
namespace {
constexpr double worth_it = 0.9;
constexpr std::uint64_t one_in = 64;
} // namespace

void codec_advice::pace::add(std::size_t bytes, double seconds) noexcept {
  if (bytes == 0 || !(seconds > 0)) return;
  last_[count_++ % last_.size()] = seconds / static_cast<double>(bytes);
}

double codec_advice::pace::best() const noexcept {
  const std::size_t n = std::min(count_, last_.size());
  return n == 0 ? 0 : *std::min_element(last_.begin(), last_.begin() + static_cast<std::ptrdiff_t>(n));
}

double codec_advice::pace::mean() const noexcept {
  const std::size_t n = std::min(count_, last_.size());
  double sum = 0;
  for (std::size_t i = 0; i < n; ++i) sum += last_[i];
  return n == 0 ? 0 : sum / static_cast<double>(n);
}

double codec_advice::slowest(const element& of) const {
  const auto found = codecs_.find(of);
  return found == codecs_.end() ? 0 : std::max(found->second.encode.mean(), found->second.decode.mean());
}

double codec_advice::expected(route to, const element& of, double left, double raw) const {
  const auto found = outcomes_.find({to, of});
  if (found != outcomes_.end()) return found->second.best();
  return std::max(slowest(of), left * raw);
}

codec_advice::answer codec_advice::ask(route to, const element& of) {
  const auto wire = wires_.find(to);
  if (wire == wires_.end()) return answer::measure;
  const double raw = wire->second.best();
  const bool pays_at_best = expected(to, of, 0, raw) < worth_it * raw;
  if (++asked_ % one_in != 0) return pays_at_best ? answer::sample : answer::raw;
  if (pays_at_best) return answer::measure;
  outcomes_.erase({to, of}); // what it took once may have been for a load that is gone
  return answer::sample;
}

bool codec_advice::pays(route to, const element& of, double left) const {
  const auto wire = wires_.find(to);
  if (wire == wires_.end() || left >= worth_it) return false;
  const double raw = wire->second.best();
  return expected(to, of, left, raw) < worth_it * raw;
}

void codec_advice::sent_encoded(route to, const element& of, std::size_t bytes, double seconds) {
  outcomes_[{to, of}].add(bytes, seconds);
}
void codec_advice::sent(route to, std::size_t bytes, double seconds) { wires_[to].add(bytes, seconds); }
void codec_advice::encoded(const element& of, std::size_t bytes, double seconds) {
  codecs_[of].encode.add(bytes, seconds);
}
void codec_advice::decoded(const element& of, std::size_t bytes, double seconds) {
  codecs_[of].decode.add(bytes, seconds);
}

} // namespace tern::global::detail
