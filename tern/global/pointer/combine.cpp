// SPDX-License-Identifier: Apache-2.0
/// \file
/// Sums, smaller and larger ones of elements.
#include <array>
#include <cstdint>
#include <type_traits>

#include <tern/global/pointer/service.hpp>

namespace tern::global::detail {
namespace {

template <class T, accumulation How> void combine_as(std::byte* into, const std::byte* from, std::int64_t n) {
  T* const a = reinterpret_cast<T*>(into);
  const T* const b = reinterpret_cast<const T*>(from);
  for (std::int64_t i = 0; i < n; ++i) {
    if constexpr (How == accumulation::min) {
      a[i] = b[i] < a[i] ? b[i] : a[i];
    } else if constexpr (How == accumulation::max) {
      a[i] = a[i] < b[i] ? b[i] : a[i];
    } else if constexpr (std::is_integral_v<T>) { // sums wrap around
      using U = std::make_unsigned_t<T>;
      a[i] = static_cast<T>(static_cast<U>(a[i]) + static_cast<U>(b[i]));
    } else {
      a[i] += b[i];
    }
  }
}

template <class T> combine_elements combine_of(std::uint64_t element, std::uint32_t how) noexcept {
  if (element != element_of<T, 1>().hash && element != element_of<T, 2>().hash && element != element_of<T, 3>().hash)
    return nullptr;
  constexpr std::array all{&combine_as<T, accumulation::plus>, &combine_as<T, accumulation::min>,
                           &combine_as<T, accumulation::max>};
  return all[how];
}

} // namespace

combine_elements combine_for(std::uint64_t element, std::uint32_t how) noexcept {
  for (const combine_elements f :
       {combine_of<int>(element, how), combine_of<unsigned>(element, how), combine_of<std::int64_t>(element, how),
        combine_of<float>(element, how), combine_of<double>(element, how)})
    if (f) return f;
  return nullptr;
}

} // namespace tern::global::detail
