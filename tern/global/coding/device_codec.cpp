// SPDX-License-Identifier: Apache-2.0
#include <tern/global/coding/device_codec.hpp>

#include <charconv>
#include <string>
#include <string_view>
#include <system_error>

#include <tern/global/codec/zfp_kernels.hpp>
#include <tern/global/coding/coder.hpp>
#include <tern/hetero/hetero_task.hpp>

namespace tern::global::detail {
namespace {

constexpr std::string_view rate_codec = "zfp:rate=";

void count(int rate, bool encodes, std::int64_t elements) {
  coder::here().count_on_devices(std::string(rate_codec) + std::to_string(rate), encodes,
                                 static_cast<std::size_t>(elements) * sizeof(float),
                                 static_cast<std::size_t>(encoded_units(elements, rate)) * sizeof(std::uint16_t));
}

} // namespace

int kernel_rate(const codec& c, const array_shape& s) noexcept {
  const std::string_view text = c.text();
  if (c.decides() || s.kind != element_kind::float32 || s.extent[0] != 1 || s.extent[1] != 1 ||
      s.extent[2] > most_kernel_elements || !text.starts_with(rate_codec))
    return 0;
  int rate = 0;
  const char* const end = text.data() + text.size();
  const auto [at, bad] = std::from_chars(text.data() + rate_codec.size(), end, rate);
  return bad == std::errc() && at == end && rate % 4 == 0 && rate <= largest_kernel_rate ? rate : 0;
}

std::int64_t encoded_units(std::int64_t elements, int rate) noexcept {
  return ((elements + 3) / 4 * (rate / 4) + 3) / 4 * 4; // whole words of 64 bits
}

encoded_object encode_on_device(const hetero_view<float, 1>& from, int rate, hetero::device_kind where) {
  const auto n = static_cast<int>(from.count());
  encoded_object to(encoded_units(n, rate));
  hetero_task t(zfp_kernels::encode, items((n + 3) / 4), n, rate, read(from), write(to));
  t.name("zfp encodes").on(where).submit();
  count(rate, true, n);
  return to;
}

void decode_on_device(const encoded_object& from, int rate, const hetero_view<float, 1>& to,
                      hetero::device_kind where) {
  const auto n = static_cast<int>(to.count());
  hetero_task t(zfp_kernels::decode, items((n + 3) / 4), n, rate, read(from), write(to));
  t.name("zfp decodes").on(where).submit();
  count(rate, false, n);
}

} // namespace tern::global::detail
