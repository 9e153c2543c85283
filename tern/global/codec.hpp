// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Codecs: how arrays become fewer bytes for the network, and arrays again.
///
///     tern::send<&take>(to, step, tern::compressed(face, "zfp:rate=16")); // travel.hpp
///     tern::alltoall(world, mine, theirs, "zfp:rate=8");                  // alltoall.hpp
///
/// | text | what it does | lossless |
/// |---|---|---|
/// | `none` | nothing | yes |
/// | `zstd`, `zstd:level=3` | Zstandard behind a shuffle of the elements' bytes | yes |
/// | `zfp:rate=16` | zfp, so many bits for each element, 1 to 32 | no |
/// | `zfp:accuracy=1e-3` | zfp, as many bits as keep each error below that | no |
/// | `zfp:reversible` | zfp, as many bits as keep everything | yes |
///
/// `auto` as a parameter, as in `zstd:auto` or `zfp:rate=16,auto`, encodes only where measurements
/// say that it is quicker; `auto` alone is `zstd:auto`. With a lossy codec the digits that arrive
/// then depend on the time of day: without `auto` it encodes everything.
///
/// zfp takes arrays of float and double, in their own dimensions. It has blocks of 4 elements in
/// each dimension; dimensions of one element do not count. **A lossy codec is never a default**: it
/// is what a call says.
///
/// A codec of one's own is a class and a static object, as a policy is:
///
///     class halves final : public tern::global::codec {
///     public:
///       explicit halves(tern::policy_parameters&) : codec("halves", false) {}
///       …
///     };
///     const tern::global::registered_codec<halves> entered("halves", "floats of 16 bits");
///
/// Source: Zhou et al. 2022 compress the messages of collective operations so; Lindstrom 2014 is
/// zfp.

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <tern/base/extents.hpp>
#include <tern/base/options.hpp>
#include <tern/base/policy_parameters.hpp>

namespace tern::global {

/// What elements are, as far as codecs look at them.
enum class element_kind : std::uint8_t { other, integer, float32, float64 };

/// An array of elements that lie packed, the last dimension fastest.
struct array_shape {
  std::array<std::int32_t, 3> extent{1, 1, 1}; ///< as of a hetero_object: those of fewer dimensions have 1 in front
  std::uint32_t element = 1;                   ///< bytes
  element_kind kind = element_kind::other;

  std::size_t count() const noexcept {
    return static_cast<std::size_t>(extent[0]) * static_cast<std::size_t>(extent[1]) *
           static_cast<std::size_t>(extent[2]);
  }
  std::size_t bytes() const noexcept { return count() * element; }
  std::string text() const; ///< "4 x 100 elements of float"
  friend bool operator==(const array_shape&, const array_shape&) = default;
};
template <class T> constexpr element_kind kind_of_element() noexcept {
  if constexpr (std::is_same_v<T, float>)
    return element_kind::float32;
  else if constexpr (std::is_same_v<T, double>)
    return element_kind::float64;
  else
    return std::is_integral_v<T> ? element_kind::integer : element_kind::other;
}
/// \pre 1 to 2^31 - 1 elements in each dimension.
template <class T, int N> array_shape shape_of(const extents<N>& size) noexcept {
  array_shape s{.element = sizeof(T), .kind = kind_of_element<T>()};
  for (std::size_t d = 0; d < static_cast<std::size_t>(N); ++d)
    s.extent[3 - static_cast<std::size_t>(N) + d] = static_cast<std::int32_t>(size[d]);
  return s;
}

/// Makes bytes of an array's bytes. Guarantees: what `encode` has made `decode` takes, in any
/// process of the job. Threads: all functions from any, on several at once; they do not wait.
class codec {
public:
  /// \param text as users write it, in the form that a second codec can be made of: all parameters
  /// but `auto`, which says nothing of the bytes.
  /// \param lossless decoding gives each byte back.
  codec(std::string text, bool lossless) : text_(std::move(text)), lossless_(lossless) {}
  virtual ~codec() = default;
  codec(const codec&) = delete;
  codec& operator=(const codec&) = delete;

  const std::string& text() const noexcept { return text_; } ///< "zfp:rate=16"
  bool lossless() const noexcept { return lossless_; }
  bool decides() const noexcept { return decides_; } ///< `auto`: may leave elements as they are
  /// \return why it does not take such arrays; empty: it does.
  virtual std::string refuses(const array_shape&) const { return {}; }
  /// More bytes than this `encode` never makes. \pre it takes them; so below.
  virtual std::size_t bound(const array_shape& s) const = 0;
  /// How many it makes, if that is the same for all arrays of the shape.
  virtual std::optional<std::size_t> fixed_size(const array_shape&) const { return {}; }
  /// \param to `bound` bytes. \return how many were made.
  virtual std::size_t encode(const array_shape& s, std::span<const std::byte> from, std::span<std::byte> to) const = 0;
  /// \param from bytes from outside, whatever they are. \param to all of the array's bytes, which
  /// are all written. \throws error(invalid_data) if that cannot be; what is in `to` then means
  /// nothing.
  virtual void decode(const array_shape& s, std::span<const std::byte> from, std::span<std::byte> to) const = 0;

private:
  friend std::shared_ptr<const codec> make_codec(std::string_view text);
  const std::string text_;
  const bool lossless_;
  bool decides_ = false;
};

/// `global-codec`: none, zstd or auto, for what names no codec.
extern const option<std::string> codec_option;

/// A codec by name.
struct codec_kind {
  std::string name, what; ///< what it does, in a line
  std::string package;    ///< that Tern was built without, and that it needs; empty: it is there
  std::unique_ptr<codec> (*make)(policy_parameters& p);
};
/// All that the program has, by name.
std::vector<codec_kind> codecs();
/// \param text `zstd:level=3`; of zfp `zfp:reversible` too; all take `auto`. \throws
/// error(invalid_option) that lists the names there are, or names a wrong parameter;
/// error(unsupported) that names the package that Tern was built without. Any thread.
std::shared_ptr<const codec> make_codec(std::string_view text);
/// \throws error(invalid_argument) that names the codec and the array, if that is not for this.
void check_codec(const codec& c, const array_shape& s);

namespace detail {
void enter(codec_kind kind);
} // namespace detail

/// A static object of this type enters a codec, before `main`. C is constructible from
/// policy_parameters&.
template <class C> struct registered_codec {
  registered_codec(std::string name, std::string what) {
    detail::enter({std::move(name), std::move(what), {}, [](policy_parameters& p) -> std::unique_ptr<codec> {
                     return std::make_unique<C>(p);
                   }});
  }
};

} // namespace tern::global
