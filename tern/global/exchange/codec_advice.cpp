// SPDX-License-Identifier: Apache-2.0
#include <tern/global/exchange/codec_advice.hpp>

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

double codec_advice::slowest(element of) const {
  const auto found = codecs_.find(of);
  return found == codecs_.end() ? 0 : std::max(found->second.encode.mean(), found->second.decode.mean());
}

double codec_advice::expected(int peer, element of, double left, double raw) const {
  const auto found = outcomes_.find({peer, of});
  if (found != outcomes_.end()) return found->second.best();
  return std::max(slowest(of), left * raw);
}

bool codec_advice::may_pay(int peer, element of) {
  const auto wire = wires_.find(peer);
  if (wire == wires_.end()) return false;
  const double raw = wire->second.best();
  const bool pays_at_best = expected(peer, of, 0, raw) < worth_it * raw;
  return (++asked_ % one_in == 0) != pays_at_best;
}

bool codec_advice::pays(int peer, element of, double left) {
  const auto wire = wires_.find(peer);
  if (wire == wires_.end() || left >= worth_it) return false;
  const double raw = wire->second.best();
  return expected(peer, of, left, raw) < worth_it * raw;
}

void codec_advice::sent_encoded(int peer, element of, std::size_t bytes, double seconds) {
  outcomes_[{peer, of}].add(bytes, seconds);
}
void codec_advice::sent(int peer, std::size_t bytes, double seconds) { wires_[peer].add(bytes, seconds); }
void codec_advice::encoded(element of, std::size_t bytes, double seconds) { codecs_[of].encode.add(bytes, seconds); }
void codec_advice::decoded(element of, std::size_t bytes, double seconds) { codecs_[of].decode.add(bytes, seconds); }

} // namespace tern::global::detail
