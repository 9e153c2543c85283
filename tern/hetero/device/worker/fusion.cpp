// SPDX-License-Identifier: Apache-2.0
#include <tern/hetero/device/worker/fusion.hpp>

#include <algorithm>
#include <functional>

namespace tern::hetero::detail {

std::int64_t fused_kind::measured::least() const noexcept {
  const auto n = static_cast<std::ptrdiff_t>(std::min<std::uint64_t>(count, remembered));
  return n == 0 ? 0 : *std::min_element(last.begin(), last.begin() + n);
}

std::int64_t fused_kind::cost(bool together) const noexcept { return modes_[together ? 1 : 0].least(); }

void fused_kind::never() noexcept { together_ = false, never_ = true; }

void fused_kind::began(std::int64_t now, std::size_t n) noexcept {
  if (at_device_ == 0) since_ = now;
  at_device_ += n;
  if (at_device_ > 1 && could_be_ < hot) could_be_ += n;
}

void fused_kind::ended(std::int64_t now, std::size_t n) noexcept {
  at_device_ -= n;
  if (old_ > 0) { // what was launched the other way is not counted
    old_ -= std::min(old_, n);
    if (old_ == 0) since_ = now;
    return;
  }
  done_ += n;
  const bool over = done_ >= epoch;
  if (at_device_ == 0 || over) {
    busy_ += now - since_;
    since_ = now;
  }
  if (over) end_epoch();
}

// The worse way may cost many times as much as the better one: then it is tried the less often.
bool fused_kind::look_at_other_way() noexcept {
  const std::int64_t a = modes_[0].least(), b = modes_[1].least();
  const auto [better, worse] = std::minmax(a, b);
  const std::int64_t times = std::max<std::int64_t>(1, worse / std::max<std::int64_t>(1, better));
  if (++epochs_ < every * patience_ * static_cast<std::uint64_t>(times)) return false;
  epochs_ = 0;
  patience_ = std::min(2 * patience_, rarest);
  return true;
}

// A first epoch together may have a compilation in it, so that it proves nothing against that.
bool fused_kind::is_learning() const noexcept {
  if (modes_[0].count > 0 && modes_[1].count > 0 && modes_[1].least() * evident < modes_[0].least()) return false;
  return modes_[0].count < looks || modes_[1].count < looks;
}

bool fused_kind::better_together() const noexcept {
  const std::int64_t apart = modes_[0].least(), together = modes_[1].least();
  if (!knows_) return 8 * together < 9 * apart;
  return kept_ ? 3 * together <= 4 * apart : together < apart;
}

void fused_kind::end_epoch() noexcept {
  measured& m = modes_[together_ ? 1 : 0];
  m.last[m.count++ % remembered] = std::max<std::int64_t>(1, busy_ / static_cast<std::int64_t>(done_));
  done_ = 0;
  busy_ = 0;
  if (never_ || could_be_ < hot) return;
  const bool was = together_;
  if (!knows_ && is_learning()) {
    together_ = modes_[1].count < modes_[0].count;
  } else {
    const bool before = kept_;
    kept_ = better_together();
    if (knows_ && kept_ != before) patience_ = 1;
    knows_ = true;
    together_ = look_at_other_way() != kept_;
  }
  if (together_ != was) old_ = at_device_;
}

std::size_t fusion::hash::operator()(const key& k) const noexcept {
  std::size_t h = std::hash<const void*>()(k.code); // address: looked up only
  const auto add = [&h](std::size_t v) { h = (h ^ v) * 0x9e3779b97f4a7c15u; };
  for (std::size_t d = 0; d < 3; ++d) {
    add(static_cast<std::size_t>(k.shape.groups[d]));
    add(static_cast<std::size_t>(k.shape.items[d]));
  }
  add(k.dynamic_bytes);
  return h;
}

} // namespace tern::hetero::detail
