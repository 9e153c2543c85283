// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// On which rank each element of an array is born.

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>
#include <typeinfo>

#include <tern/base/archive.hpp>
#include <tern/base/extents.hpp>
#include <tern/net/handler.hpp>
#include <tern/net/message.hpp>

namespace tern {

namespace mobile::detail {

/// A mapping of the program's own. Static objects only: constructing one enters it. It is known by
/// the number of a handler, which is the same on all ranks; that handler takes no messages.
class mapping_record {
public:
  using function = int (*)(const std::int64_t* index, const std::int64_t* size, int ranks);
  mapping_record(const std::type_info& identity, std::string_view pretty, const char* file, int dimensions,
                 function maps);
  mapping_record(const mapping_record&) = delete;
  mapping_record& operator=(const mapping_record&) = delete;
  int dimensions() const noexcept { return dimensions_; }
  int operator()(const std::int64_t* index, const std::int64_t* size, int ranks) const {
    return maps_(index, size, ranks);
  }
  const std::string& name() const noexcept { return known_as_.name(); }
  std::uint32_t id() const { return known_as_.id(); }
  /// \throws error(invalid_data) if there is none.
  static const mapping_record& find(std::uint32_t id);

private:
  const net::handler_record known_as_;
  const int dimensions_;
  const function maps_;
  const mapping_record* const next_;
};

template <class F> struct mapping_signature;
template <class R, std::size_t N>
struct mapping_signature<R (*)(const std::array<std::int64_t, N>&, const std::array<std::int64_t, N>&, int)> {
  static constexpr std::size_t dimensions = N;
};
template <class R, std::size_t N>
struct mapping_signature<R (*)(const std::array<std::int64_t, N>&, const std::array<std::int64_t, N>&, int) noexcept>
    : mapping_signature<R (*)(const std::array<std::int64_t, N>&, const std::array<std::int64_t, N>&, int)> {};

template <auto F> struct mapping_tag {};
template <auto F> int apply_mapping(const std::int64_t* index, const std::int64_t* size, int ranks) {
  constexpr std::size_t n = mapping_signature<decltype(+F)>::dimensions;
  std::array<std::int64_t, n> i{}, e{};
  for (std::size_t d = 0; d < n; ++d) i[d] = index[d], e[d] = size[d];
  return static_cast<int>(F(i, e, ranks));
}
template <auto F>
inline const mapping_record mapping_of{typeid(mapping_tag<F>), net::detail::signature_of<F>(), TERN_THIS_FILE,
                                       static_cast<int>(mapping_signature<decltype(+F)>::dimensions),
                                       &apply_mapping<F>};

} // namespace mobile::detail

/// On which rank each element of an array is born: `tern::block_mapping`, `tern::cyclic_mapping` or
/// `tern::map_by<&f>`. A value.
class array_mapping {
public:
  enum class kind : std::uint8_t { block, cyclic, own };
  /// Blocks.
  constexpr array_mapping() noexcept = default;
  constexpr explicit array_mapping(kind k) noexcept : kind_(k) {}
  constexpr explicit array_mapping(const mobile::detail::mapping_record& own) noexcept : kind_(kind::own), own_(&own) {}
  kind what() const noexcept { return kind_; }
  /// \pre what() == kind::own
  const mobile::detail::mapping_record& own() const noexcept { return *own_; }
  template <class A> void save(A& ar) const { ar(kind_, own_ ? own_->id() : std::uint32_t{0}); }
  template <class A> void load(A& ar) {
    std::uint32_t id = 0;
    ar(kind_, id);
    own_ = kind_ == kind::own ? &mobile::detail::mapping_record::find(id) : nullptr;
  }

private:
  kind kind_ = kind::block;
  const mobile::detail::mapping_record* own_ = nullptr;
};

/// Each rank has as many elements that follow each other (the last dimension runs fastest), or one
/// more. With this mapping a reduction combines elements where they were born.
inline constexpr array_mapping block_mapping{};
/// One after the other, in turn: neighbours are on different ranks.
inline constexpr array_mapping cyclic_mapping{array_mapping::kind::cyclic};
/// As the program's function says: `int f(const tern::indices<N>& index, const tern::extents<N>&
/// size, int ranks)`, or a lambda without captures. It is asked on any rank, in any fiber, whenever
/// an element is named; it must give the same rank each time, and must not wait.
template <auto F> inline const array_mapping map_by{mobile::detail::mapping_of<F>};

} // namespace tern
