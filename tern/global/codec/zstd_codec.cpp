// SPDX-License-Identifier: Apache-2.0
/// \file
/// Zstandard behind a byte shuffle.
#include <tern/global/codec/builtin.hpp>

#ifdef TERN_HAS_ZSTD
#include <memory>
#include <string>

#include <zstd.h>

#include <tern/base/bytes.hpp>
#include <tern/global/codec/shuffle.hpp>
#endif

namespace tern::global::detail {
namespace {

constexpr const char* zstd_text = "lossless: Zstandard, behind a byte shuffle; level=1 to 19";

#ifdef TERN_HAS_ZSTD

class zstd_codec final : public codec {
public:
  explicit zstd_codec(int level) : codec("zstd:level=" + std::to_string(level), true), level_(level) {}
  std::size_t bound(const array_shape& s) const override { return ZSTD_compressBound(s.bytes()); }
  std::size_t encode(const array_shape& s, std::span<const std::byte> from, std::span<std::byte> to) const override {
    byte_buffer sorted;
    if (s.element > 1) {
      sorted = byte_buffer(from.size());
      shuffle_bytes(s.element, from, sorted.bytes());
      from = sorted.bytes();
    }
    struct closer {
      void operator()(ZSTD_CCtx* c) const noexcept { ZSTD_freeCCtx(c); }
    };
    const std::unique_ptr<ZSTD_CCtx, closer> state(ZSTD_createCCtx()); // ZSTD_compress has it on the stack, a fiber's
    if (!state) throw error(errc::out_of_memory, "zstd has no memory for its state");
    const std::size_t made = ZSTD_compressCCtx(state.get(), to.data(), to.size(), from.data(), from.size(), level_);
    if (ZSTD_isError(made))
      throw error(errc::internal,
                  text() + " cannot encode " + s.text() + ": " + ZSTD_getErrorName(made)); // to has its bound
    return made;
  }
  void decode(const array_shape& s, std::span<const std::byte> from, std::span<std::byte> to) const override {
    byte_buffer sorted;
    std::span<std::byte> into = to;
    if (s.element > 1) {
      sorted = byte_buffer(to.size());
      into = sorted.bytes();
    }
    const std::size_t made = ZSTD_decompress(into.data(), into.size(), from.data(), from.size());
    if (ZSTD_isError(made)) bad_stream(*this, s, ZSTD_getErrorName(made));
    if (made != to.size()) bad_stream(*this, s, "they are " + std::to_string(made) + " bytes");
    if (s.element > 1) unshuffle_bytes(s.element, sorted.bytes(), to);
  }

private:
  const int level_;
};

#endif

} // namespace

codec_kind zstd_kind() {
#ifdef TERN_HAS_ZSTD
  return {"zstd", zstd_text, {}, [](policy_parameters& p) -> std::unique_ptr<codec> {
            return std::make_unique<zstd_codec>(p.count("level", 1, 1, 19));
          }};
#else
  return {"zstd", zstd_text, "libzstd-dev", nullptr};
#endif
}

} // namespace tern::global::detail
