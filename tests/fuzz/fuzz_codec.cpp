// SPDX-License-Identifier: Apache-2.0
// Encoded arrays: any bytes are an array or error(invalid_data). An input is which array and which
// codec; how many changes there are, and whether the checksum is computed after them; the changes,
// each a place and a byte; and the array's bytes, which are encoded before, or, in a second kind of
// input, what stands in place of what the codec makes.
#include "fuzz.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include <tern/global/codec.hpp>
#include <tern/global/codec/frame.hpp>

#define XXH_INLINE_ALL
#include <xxhash.h>

using namespace tern::global;

namespace {

const std::array<array_shape, 8> shapes{
    shape_of<float, 1>({37}), shape_of<double, 1>({12}), shape_of<float, 2>({6, 9}),    shape_of<double, 3>({5, 3, 6}),
    shape_of<int, 1>({50}),   shape_of<char, 1>({77}),   shape_of<float, 3>({4, 1, 8}), shape_of<double, 2>({1, 1})};

/// Those of this build.
const std::vector<std::shared_ptr<const codec>>& all_codecs() {
  static const auto made = [] {
    std::vector<std::shared_ptr<const codec>> all;
    for (const char* const text :
         {"none", "zstd", "zfp:rate=1", "zfp:rate=8", "zfp:rate=17.5", "zfp:accuracy=0.01", "zfp:reversible"}) {
      try {
        all.push_back(make_codec(text));
      } catch (const tern::error& e) {
        fuzz::require(e.code() == tern::errc::unsupported, "a codec is not known");
      }
    }
    return all;
  }();
  return made;
}

void sign(tern::byte_buffer& frame) {
  if (frame.size() < sizeof(std::uint64_t)) return;
  const std::uint64_t sum = XXH3_64bits(frame.data() + sizeof sum, frame.size() - sizeof sum);
  std::memcpy(frame.data(), &sum, sizeof sum);
}

} // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::input in(data, size);
  const std::uint8_t which = in.number(), how = in.number();
  const array_shape& shape = shapes[which % shapes.size()];
  const bool given = how & 0x80, is_signed = how & 0x40;
  const codec& c = *all_codecs()[(how & 0x3f) % all_codecs().size()];
  std::vector<std::pair<std::uint16_t, std::uint8_t>> changes(in.number() % 16);
  for (auto& [at, to] : changes) {
    at = in.number<std::uint16_t>();
    to = in.number();
  }
  const auto rest = in.rest();
  if (!c.refuses(shape).empty()) return 0;

  tern::byte_buffer frame;
  std::vector<std::byte> array(shape.bytes());
  if (given) {
    frame = tern::byte_buffer(detail::frame_prefix + rest.size());
    if (!rest.empty()) std::memcpy(frame.data() + detail::frame_prefix, rest.data(), rest.size());
    detail::finish_frame(c, shape, frame.bytes());
  } else {
    std::copy_n(rest.begin(), std::min(rest.size(), array.size()), array.begin());
    frame = detail::encode_frame(c, shape, array);
    std::vector<std::byte> back(shape.bytes());
    detail::decode_frame(frame.bytes(), shape, back);
    fuzz::require(!c.lossless() || back == array, "a lossless codec has lost something");
  }
  for (const auto& [at, to] : changes) {
    if (at >= 0xff00)
      frame.resize(frame.size() - std::min<std::size_t>(frame.size(), to)); // it is cut
    else if (!frame.empty())
      frame[at % frame.size()] = static_cast<std::byte>(to);
  }
  if (is_signed) sign(frame);
  const fuzz::placed there(frame.bytes(), which >> 5);
  std::vector<std::byte> to(shape.bytes());
  fuzz::accepts({tern::errc::invalid_data}, [&] { detail::decode_frame(there.bytes(), shape, to); });
  return 0;
}
