// SPDX-License-Identifier: Apache-2.0
#include <tern/hetero/models/estimate/model_key.hpp>

#include <algorithm>

#define XXH_INLINE_ALL // so that no library is needed where Tern runs
#include <xxhash.h>

namespace tern::hetero::detail {
namespace {

std::uint64_t mix_hash(std::uint64_t seed, const void* data, std::size_t bytes) noexcept {
  return XXH3_64bits_withSeed(data, bytes, seed);
}

// Two words to one, of which each bit depends on all of theirs (as wyhash: the halves of a
// product). Each placed task needs the hash of its uses: XXH3's start and end would cost too much.
__extension__ using wide = unsigned __int128;
constexpr std::uint64_t fold(std::uint64_t a, std::uint64_t b) noexcept {
  const wide product = static_cast<wide>(a ^ 0x9e3779b97f4a7c15) * (b ^ 0xe7037ed1a0b428db);
  return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
}
constexpr std::uint64_t low_and_high(int low, int high) noexcept {
  return static_cast<std::uint64_t>(static_cast<std::uint32_t>(high)) << 32 | static_cast<std::uint32_t>(low);
}

std::string dimensions(std::span<const int> of, std::span<const int> times) {
  std::string text;
  std::size_t last = of.size();
  while (last > 1 && of[last - 1] == 1 && times[last - 1] == 1) --last; // 16384, not 16384x1x1
  for (std::size_t d = 0; d < last; ++d) text += (d ? "x" : "") + std::to_string(of[d]);
  return text;
}

const char* letter(access_mode how) noexcept {
  switch (how) {
  case access_mode::read:
    return "r";
  case access_mode::write:
    return "w";
  case access_mode::read_write:
    return "rw";
  case access_mode::commute:
    return "c";
  }
  return "reduce"; // the runtime's own mode
}

} // namespace

void size_hash::add(const sized_use& u) noexcept {
  const std::uint64_t first = fold(static_cast<std::uint64_t>(u.extents[0]), static_cast<std::uint64_t>(u.extents[1]));
  const std::uint64_t rest =
      fold(static_cast<std::uint64_t>(u.extents[2]), u.element << 8 | static_cast<std::uint64_t>(u.how));
  so_far_ = fold(so_far_ + 1, first ^ (rest << 1 | rest >> 63));
}

std::uint64_t size_hash::of(const grid& shape) const noexcept {
  const std::uint64_t groups =
      fold(low_and_high(shape.groups[0], shape.groups[1]), low_and_high(shape.groups[2], shape.items[0]));
  return fold(so_far_ + 2, fold(groups, low_and_high(shape.items[1], shape.items[2])));
}

std::uint64_t hash_of_size(std::span<const sized_use> uses, const grid& shape, std::uint64_t number) noexcept {
  size_hash h(number);
  for (const sized_use& u : uses) h.add(u);
  return h.of(shape);
}

size_class size_class_of(std::span<const sized_use> uses, const grid& shape, std::uint64_t number) {
  size_class c{hash_of_size(uses, shape, number), 0, {}};
  for (const sized_use& u : uses) {
    std::uint64_t bytes = u.element;
    c.text += (c.text.empty() ? "" : ", ") + std::string(letter(u.how)) + " " + std::to_string(u.element);
    for (std::size_t d = 0; d < 3; ++d) {
      bytes *= static_cast<std::uint64_t>(u.extents[d]);
      if (u.extents[d] != 1 || d == 2) c.text += "x" + std::to_string(u.extents[d]); // x runs fastest, and is last
    }
    c.bytes += bytes;
  }
  c.text += (c.text.empty() ? "" : "; ") + dimensions(shape.groups, shape.items) + " groups of " +
            dimensions(shape.items, shape.groups);
  if (number != 0) c.text += "; " + std::to_string(number);
  return c;
}

kernel_identity identity_of(const kernel_code& code, std::uint64_t number) {
  std::uint64_t h =
      mix_hash(static_cast<std::uint64_t>(code.form), code.options, std::string_view(code.options).size());
  if (code.source) {
    const std::string whole = text_of(code.source());
    const std::string_view text = std::string_view(whole).substr(whole.find('\n') + 1); // not where it stands
    h = mix_hash(h, text.data(), text.size());
  } else {
    h = mix_hash(h, code.text.data(), code.text.size());
  }
  if (number != 0) h = fold(h, number);
  return {code.name, h};
}

std::string device_model(const device_info& info, std::string_view simulated) {
  if (info.kind == device_kind::host) return "host:" + std::to_string(info.compute_units) + " workers";
  std::string text = info.name + " / " + info.driver;
  if (info.kind == device_kind::simulated && !simulated.empty()) text += " / " + std::string(simulated);
  if (info.kind == device_kind::simulated && simulated.find('@') != simulated.npos)
    text += " / " + info.id; // unlike others
  return text;
}

} // namespace tern::hetero::detail
