// SPDX-License-Identifier: Apache-2.0
/// \file
/// zfp: arrays of floating-point numbers.
#include <tern/global/codec/builtin.hpp>

#ifdef TERN_HAS_ZFP
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <string>

#include <zfp.h>

#include <tern/base/bytes.hpp>
#endif

namespace tern::global::detail {
namespace {

constexpr const char* zfp_text = "floats and doubles: rate=BITS an element, accuracy=ERROR, or reversible";

#ifdef TERN_HAS_ZFP

struct zfp_closer {
  void operator()(zfp_stream* z) const noexcept { zfp_stream_close(z); }
  void operator()(bitstream* b) const noexcept { stream_close(b); }
  void operator()(zfp_field* f) const noexcept { zfp_field_free(f); }
};
template <class T> std::unique_ptr<T, zfp_closer> owned(T* made) {
  if (!made) throw error(errc::out_of_memory, "zfp has no memory for its state");
  return std::unique_ptr<T, zfp_closer>(made);
}

enum class zfp_mode { rate, accuracy, reversible };

/// zfp's description of an array. Dimensions of one element would fill blocks with copies.
struct zfp_array {
  std::array<std::size_t, 3> n{1, 1, 1}; // fastest first
  uint dimensions = 0;
  zfp_type type;
  explicit zfp_array(const array_shape& s) : type(s.kind == element_kind::float32 ? zfp_type_float : zfp_type_double) {
    for (std::size_t d = 3; d-- > 0;)
      if (s.extent[d] != 1) n[dimensions++] = static_cast<std::size_t>(s.extent[d]);
    dimensions = std::max(dimensions, 1u);
  }
  std::size_t blocks() const noexcept { return ((n[0] + 3) / 4) * ((n[1] + 3) / 4) * ((n[2] + 3) / 4); }
  auto field(void* data) const {
    switch (dimensions) {
    case 1:
      return owned(zfp_field_1d(data, type, n[0]));
    case 2:
      return owned(zfp_field_2d(data, type, n[0], n[1]));
    default:
      return owned(zfp_field_3d(data, type, n[0], n[1], n[2]));
    }
  }
};

class zfp_codec final : public codec {
public:
  zfp_codec(std::string text, zfp_mode mode, double number)
      : codec(std::move(text), mode == zfp_mode::reversible), mode_(mode), number_(number) {}

  std::string refuses(const array_shape& s) const override {
    if (s.kind != element_kind::float32 && s.kind != element_kind::float64)
      return lossless() ? "zfp takes float and double" : "it is lossy, for float and double alone";
    return {};
  }
  std::size_t bound(const array_shape& s) const override {
    const zfp_array a(s);
    const auto z = configured(a);
    return zfp_stream_maximum_size(z.get(), a.field(nullptr).get());
  }
  std::optional<std::size_t> fixed_size(const array_shape& s) const override {
    if (mode_ != zfp_mode::rate) return {};
    const zfp_array a(s);
    const std::size_t word = stream_word_bits, bits = a.blocks() * configured(a)->maxbits;
    return (bits + word - 1) / word * (word / 8);
  }
  std::size_t encode(const array_shape& s, std::span<const std::byte> from, std::span<std::byte> to) const override {
    const zfp_array a(s);
    const auto z = configured(a);
    const auto field = a.field(const_cast<std::byte*>(from.data())); // zfp reads it
    const auto bits = owned(stream_open(to.data(), to.size()));
    zfp_stream_set_bit_stream(z.get(), bits.get());
    zfp_stream_rewind(z.get());
    const std::size_t made = zfp_compress(z.get(), field.get());
    if (made == 0) throw error(errc::internal, text() + " cannot encode " + s.text());
    return made;
  }
  void decode(const array_shape& s, std::span<const std::byte> from, std::span<std::byte> to) const override {
    const zfp_array a(s);
    const auto z = configured(a);
    const auto field = a.field(to.data());
    if (const auto fixed = fixed_size(s); fixed && from.size() != *fixed)
      bad_stream(*this, s,
                 "there are " + std::to_string(from.size()) + " bytes of them, not " + std::to_string(*fixed));
    const std::size_t most = zfp_stream_maximum_size(z.get(), field.get());
    if (from.empty() || from.size() > most)
      bad_stream(*this, s, "there are " + std::to_string(from.size()) + " bytes of them");
    // zfp does not know where its input ends. A block takes a bit more than all bits of its
    // elements at most, whatever they are.
    const std::size_t values = std::size_t{1} << 2 * a.dimensions;
    const std::size_t padded = std::max(most, a.blocks() * (values * (8 * s.element + 2) + 128) / 8) + 64;
    byte_buffer in(padded);
    std::memcpy(in.data(), from.data(), from.size());
    std::memset(in.data() + from.size(), 0, padded - from.size());
    const auto bits = owned(stream_open(in.data(), in.size()));
    zfp_stream_set_bit_stream(z.get(), bits.get());
    zfp_stream_rewind(z.get());
    if (zfp_decompress(z.get(), field.get()) == 0) bad_stream(*this, s, "zfp refuses them");
  }

private:
  std::unique_ptr<zfp_stream, zfp_closer> configured(const zfp_array& a) const {
    auto z = owned(zfp_stream_open(nullptr));
    switch (mode_) {
    case zfp_mode::rate:
      zfp_stream_set_rate(z.get(), number_, a.type, a.dimensions, zfp_false);
      break;
    case zfp_mode::accuracy:
      zfp_stream_set_accuracy(z.get(), number_);
      break;
    case zfp_mode::reversible:
      zfp_stream_set_reversible(z.get());
      break;
    }
    return z;
  }
  const zfp_mode mode_;
  const double number_;
};

std::unique_ptr<codec> make_zfp(policy_parameters& p) {
  const double rate = p.number("rate", 0, 1, 32);
  const double accuracy =
      p.number("accuracy", 0, std::numeric_limits<double>::min(), std::numeric_limits<double>::max());
  const bool reversible = p.word("reversible", "no", "yes|no") == "yes";
  p.finish(); // a wrong name is worse than a missing one
  if ((rate > 0) + (accuracy > 0) + reversible != 1)
    throw error(errc::invalid_option, "codec zfp needs to know how many bits to keep",
                "say one of zfp:rate=BITS, zfp:accuracy=ERROR and zfp:reversible");
  if (rate > 0) return std::make_unique<zfp_codec>("zfp:rate=" + text_of_number(rate), zfp_mode::rate, rate);
  if (accuracy > 0)
    return std::make_unique<zfp_codec>("zfp:accuracy=" + text_of_number(accuracy), zfp_mode::accuracy, accuracy);
  return std::make_unique<zfp_codec>("zfp:reversible", zfp_mode::reversible, 0);
}

#endif

} // namespace

codec_kind zfp_kind() {
#ifdef TERN_HAS_ZFP
  return {"zfp", zfp_text, {}, &make_zfp};
#else
  return {"zfp", zfp_text, "libzfp-dev", nullptr};
#endif
}

} // namespace tern::global::detail
