// SPDX-License-Identifier: Apache-2.0
#include <tern/global/codec/frame.hpp>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>

#include <tern/base/error.hpp>
#include <tern/global/codec/builtin.hpp>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace tern::global::detail {
namespace {

constexpr std::size_t checksum_bytes = sizeof(std::uint64_t);

std::uint64_t checksum_of(std::span<const std::byte> frame) {
  return XXH3_64bits(frame.data() + checksum_bytes, frame.size() - checksum_bytes);
}

[[noreturn]] void bad_frame(const array_shape& wanted, const std::string& why) {
  throw error(errc::invalid_data, "an encoded array in place of " + wanted.text() + " " + why,
              "all ranks must run the same program");
}

std::shared_ptr<const codec> codec_of(const frame_header& h, const array_shape& wanted) {
  const std::string_view all(h.codec.data(), h.codec.size());
  const std::string_view text = all.substr(0, all.find('\0'));
  if (all.find_first_not_of('\0', text.size()) != all.npos) bad_frame(wanted, "names its codec wrongly");
  try {
    return make_codec(text);
  } catch (const error& e) {
    bad_frame(wanted, std::string("cannot be decoded: ") + e.what());
  }
}

} // namespace

void finish_frame(const codec& c, const array_shape& s, std::span<std::byte> frame, chunk_place at) {
  frame_header h;
  h.stored = frame.size() - frame_prefix;
  h.extent = s.extent;
  h.element = s.element;
  h.kind = static_cast<std::uint8_t>(s.kind);
  h.chunk = at.chunk;
  h.chunks = at.chunks;
  std::copy(c.text().begin(), c.text().end(), h.codec.begin());
  std::memcpy(frame.data(), &h, sizeof h);
  const std::uint64_t sum = checksum_of(frame);
  std::memcpy(frame.data(), &sum, sizeof sum);
}

byte_buffer encode_frame(const codec& c, const array_shape& s, std::span<const std::byte> elements, chunk_place at) {
  byte_buffer frame(frame_prefix + c.bound(s));
  const std::size_t stored = c.encode(s, elements, frame.bytes().subspan(frame_prefix));
  frame.resize(frame_prefix + stored);
  finish_frame(c, s, frame.bytes(), at);
  return frame;
}

std::shared_ptr<const codec> decode_frame(std::span<const std::byte> frame, const array_shape& wanted,
                                          std::span<std::byte> to, chunk_place at) {
  if (frame.size() < frame_prefix) bad_frame(wanted, "has " + std::to_string(frame.size()) + " bytes in all");
  frame_header h;
  std::memcpy(&h, frame.data(), sizeof h);
  if (h.checksum != checksum_of(frame)) bad_frame(wanted, "is damaged: its checksum differs");
  if (h.stored != frame.size() - frame_prefix)
    bad_frame(wanted, "says " + std::to_string(h.stored) + " bytes of itself, and has " +
                          std::to_string(frame.size() - frame_prefix));
  if (h.extent != wanted.extent || h.element != wanted.element || h.kind != static_cast<std::uint8_t>(wanted.kind))
    bad_frame(wanted, "is of another shape or type");
  if (chunk_place{h.chunk, h.chunks} != at)
    bad_frame(wanted, "is chunk " + std::to_string(h.chunk) + " of " + std::to_string(h.chunks) + ", not " +
                          std::to_string(at.chunk) + " of " + std::to_string(at.chunks));
  const std::shared_ptr<const codec> c = codec_of(h, wanted);
  if (const std::string why = c->refuses(wanted); !why.empty())
    bad_frame(wanted, "is encoded by " + c->text() + ": " + why);
  c->decode(wanted, frame.subspan(frame_prefix), to);
  return c;
}

std::optional<chunk_place> place_of_frame(std::span<const std::byte> frame) noexcept {
  if (frame.size() < frame_prefix) return {};
  frame_header h;
  std::memcpy(&h, frame.data(), sizeof h);
  if (h.chunk >= h.chunks || h.checksum != checksum_of(frame)) return {};
  return chunk_place{h.chunk, h.chunks};
}

} // namespace tern::global::detail
