// SPDX-License-Identifier: Apache-2.0
#include <tern/global/transfer/settings.hpp>

#include <algorithm>

#include <unistd.h>

#define XXH_INLINE_ALL // so that no library is needed where Tern runs
#include <xxhash.h>

#include <tern/global/travel.hpp>
#include <tern/hetero/device/settings.hpp>

namespace tern::global {

namespace {
constexpr int most_inside = 1 << 20;
bool is_landing(const std::string& text) {
  const auto bytes = hetero::detail::bytes_in(text);
  return text.empty() || (bytes && *bytes > 0);
}
} // namespace

const option<int> inline_option{"global-inline", 2048,
                                "device data of up to so many bytes travel within their message, if the host has them "
                                "and nothing is to write them",
                                between(0, most_inside)};

namespace detail {

const option<std::string> landing_option{
    "global-landing",
    "",
    "device data that a rank has asked others for and that have not landed take so much memory at most, as 512M or "
    "4G, beside one object; empty: a quarter of the machine's memory",
    {.accepts = &is_landing, .allowed = "a number of bytes above 0, with K, M, G or T behind it or not, or nothing"}};
const option<int> ahead_option{
    "global-ahead", 1024,
    "objects on their way out of a rank, beyond which each send of one is slowed, by up to 1 ms; 0: send waits until "
    "its data have been computed",
    at_least(0)};
const option<bool> verify_option{"global-verify", false,
                                 "device data are checked on arrival against a checksum taken where they left"};

settings::settings(const options& opts)
    : inside(static_cast<std::size_t>(opts[inline_option])), ahead(static_cast<std::size_t>(opts[ahead_option])),
      verify(opts[verify_option]) {
  const std::string& text = opts[landing_option];
  const auto memory =
      static_cast<std::uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  landing = text.empty() ? memory / 4 : hetero::detail::bytes_in(text).value_or(1);
}

std::size_t piece_bytes(std::size_t bytes) noexcept {
  return std::clamp<std::size_t>(bytes / 24, std::size_t{256} << 10, std::size_t{2} << 20);
}

std::uint64_t checksum(std::span<const std::byte> bytes) noexcept {
  const std::uint64_t sum = XXH3_64bits(bytes.data(), bytes.size());
  return sum != 0 ? sum : 1;
}

} // namespace detail
} // namespace tern::global
