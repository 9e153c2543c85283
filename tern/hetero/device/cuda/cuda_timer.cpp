// SPDX-License-Identifier: Apache-2.0
#include <tern/hetero/device/cuda/cuda_timer.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <exception>
#include <utility>

#include <tern/hetero/device/cuda/cuda_device.hpp>

namespace tern::hetero::detail {

cuda_timer::~cuda_timer() {
  for (const pair& p : pairs_) {
    if (p.begin) target_.api.EventDestroy(p.begin);
    if (p.end) target_.api.EventDestroy(p.end);
  }
}

bool cuda_timer::works() const noexcept { return target_.api.EventElapsedTime != nullptr; }

bool cuda_timer::is_turn_of_copy(direction way, std::size_t bytes) noexcept {
  if (!is_of_host(way)) return false; // no model is made of others
  std::uint32_t& n = copies_[static_cast<std::size_t>(way)][static_cast<std::size_t>(std::bit_width(bytes)) % 64];
  return ++n <= first_copies || n % every == 0;
}

// What concerns the operation the driver says to it again.
bool cuda_timer::went(cu::result r) noexcept {
  if (r != cu::success && is_for_good(r)) trouble_ = r;
  return r == cu::success;
}

std::uint32_t cuda_timer::begin(cu::stream in) noexcept {
  if (unused_.empty()) {
    try {
      unused_.reserve(pairs_.size() + 1); // `forget` cannot fail
      pairs_.emplace_back();
    } catch (const std::exception&) { // no memory
      return 0;
    }
    unused_.push_back(static_cast<std::uint32_t>(pairs_.size()));
  }
  const std::uint32_t number = unused_.back();
  pair& p = pairs_[number - 1];
  const auto made = [this](cu::event& e) { return e || went(target_.api.EventCreate(&e, 0)); };
  if (!made(p.begin) || !made(p.end) || !went(target_.api.EventRecord(p.begin, in))) return 0;
  unused_.pop_back();
  return number;
}

std::uint32_t cuda_timer::span::end() noexcept {
  if (pair_ && !of_.went(of_.target_.api.EventRecord(of_.pairs_[pair_ - 1].end, in_))) return 0;
  return std::exchange(pair_, 0);
}

std::int64_t cuda_timer::take(std::uint32_t number) noexcept {
  if (number == 0) return 0;
  const pair& p = pairs_[number - 1];
  float milliseconds = 0;
  const cuda_api& api = target_.api;
  const bool told =
      went(api.CtxSetCurrent(target_.context)) && went(api.EventElapsedTime(&milliseconds, p.begin, p.end));
  forget(number);
  if (!told || !(milliseconds >= 0)) return 0;
  return std::max<std::int64_t>(1, std::llround(double{milliseconds} * 1e6));
}

void cuda_timer::forget(std::uint32_t number) noexcept {
  if (number != 0) unused_.push_back(number);
}

} // namespace tern::hetero::detail
