// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Sorting on one worker, in place and without memory: what `parallel_sort` does with pieces
/// that fit into a cache, and with elements whose moves may throw.
///
/// Quicksort that recognises patterns (Peters, "Pattern-defeating Quicksort", 2021): pivots from
/// medians of three to nine; equal elements are put aside at once; partitions that go wrong are
/// counted, and after too many of them heap sort takes over, so the time is O(n log n) always.
/// Elements that are cheap to copy are partitioned without branches, by moving a hole through the
/// range (the cyclic variant of Lomuto's scheme, after Edelkamp and Weiss, "BlockQuicksort", 2016,
/// and Bergdoll and Peters, "ipnsort", 2024), and short pieces go through sorting networks (the one
/// for 16: Green, 1969), numbers two or four columns at a time in vector registers with bitonic
/// merges (Batcher, 1968).
///
/// Whatever the comparison throws, the range holds all of its elements, in some order, if moves do
/// not throw.

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <iterator>
#include <limits>
#include <type_traits>
#include <utility>

// Calls are qualified: the elements' own namespaces are none of our business.
namespace tern::detail::sorting {

/// So cheap to copy that a copy too many costs less than a branch that is foretold wrongly.
template <class T>
inline constexpr bool cheap = std::conjunction_v<std::is_trivially_copyable<T>, std::is_trivially_copy_constructible<T>,
                                                 std::is_trivially_copy_assignable<T>> &&
                              sizeof(T) <= 32;

template <class T, class Less>
inline constexpr bool ascending =
    std::is_same_v<Less, std::less<>> || std::is_same_v<Less, std::less<T>> || std::is_same_v<Less, std::ranges::less>;
template <class T, class Less>
inline constexpr bool descending = std::is_same_v<Less, std::greater<>> || std::is_same_v<Less, std::greater<T>> ||
                                   std::is_same_v<Less, std::ranges::greater>;

/// Numbers that every processor's vector registers can compare.
template <class T, class Less>
inline constexpr bool
    in_lanes = std::disjunction_v<std::is_same<T, double>, std::is_same<T, float>, std::is_same<T, std::int32_t>> &&
               (ascending<T, Less> || descending<T, Less>);

/// For each number of elements up to 16, which pairs to compare.
struct network_table {
  struct pair {
    std::uint8_t low, high;
  };
  std::array<std::uint16_t, 18> begin{};
  std::array<pair, 480> pairs{};
};

inline constexpr network_table::pair network_16[60] = {
    {0, 13},  {1, 12}, {2, 15},  {3, 14},  {4, 8},   {5, 6}, {7, 11},  {9, 10},  {0, 5},   {1, 7},   {2, 9},   {3, 4},
    {6, 13},  {8, 14}, {10, 15}, {11, 12}, {0, 1},   {2, 3}, {4, 5},   {6, 8},   {7, 9},   {10, 11}, {12, 13}, {14, 15},
    {0, 2},   {1, 3},  {4, 10},  {5, 11},  {6, 7},   {8, 9}, {12, 14}, {13, 15}, {1, 2},   {3, 12},  {4, 6},   {5, 7},
    {8, 10},  {9, 11}, {13, 14}, {1, 4},   {2, 6},   {5, 8}, {7, 10},  {9, 13},  {11, 14}, {2, 4},   {3, 6},   {9, 12},
    {11, 13}, {3, 5},  {6, 8},   {7, 9},   {10, 12}, {3, 4}, {5, 6},   {7, 8},   {9, 10},  {11, 12}, {6, 7},   {8, 9}};
inline constexpr network_table::pair network_8[19] = {{0, 2}, {1, 3}, {4, 6}, {5, 7}, {0, 4}, {1, 5}, {2, 6},
                                                      {3, 7}, {0, 1}, {2, 3}, {4, 5}, {6, 7}, {2, 4}, {3, 5},
                                                      {1, 4}, {3, 6}, {1, 2}, {3, 4}, {5, 6}};

inline constexpr network_table::pair network_4[5] = {{0, 2}, {1, 3}, {0, 1}, {2, 3}, {1, 2}};

inline constexpr network_table networks = [] {
  network_table t;
  std::size_t k = 0;
  for (std::size_t n = 0; n <= 16; ++n) {
    // Elements that are not there count as the greatest: they are at the end already, and stay.
    t.begin[n] = static_cast<std::uint16_t>(k);
    for (const auto& p : network_16)
      if (p.low < n && p.high < n) t.pairs[k++] = p;
  }
  t.begin[17] = static_cast<std::uint16_t>(k);
  return t;
}();

/// At most 16 elements; no branch depends on them.
template <class It, class Less> void network_sort(It first, std::size_t n, Less& less) {
  using T = std::iter_value_t<It>;
  const auto* end = networks.pairs.data() + networks.begin[n + 1];
  for (const auto* p = networks.pairs.data() + networks.begin[n]; p != end; ++p) {
    const auto a = first + p->low, b = first + p->high;
#ifdef __clang__
    constexpr bool select = true;
#else
    constexpr bool select = std::is_integral_v<T>; // of anything else g++ makes a branch
#endif
    const bool swap = less(*b, *a);
    if constexpr (select) {
      const T x = *a, y = *b;
      *a = swap ? y : x;
      *b = swap ? x : y;
    } else {
      const auto shift = (p->high - p->low) & -static_cast<std::iter_difference_t<It>>(swap);
      const T x = *(a + shift), y = *(b - shift);
      *a = x;
      *b = y;
    }
  }
}

/// Sorts 9 to 32 numbers, two or four columns at a time.
template <class T, class Less> class lanes {
public:
  static constexpr std::size_t least = 9, most = 32;
  static void sort(T* v, std::size_t n) {
    if (n > 16)
      sort_in<32 / width>(v, n);
    else
      sort_in<16 / width>(v, n);
  }

private:
  static constexpr std::size_t width = 16 / sizeof(T);
  using row [[gnu::vector_size(16)]] = T;

  static constexpr T greatest() {
    using limits = std::numeric_limits<T>;
    if constexpr (std::is_floating_point_v<T>)
      return ascending<T, Less> ? limits::infinity() : -limits::infinity();
    else
      return ascending<T, Less> ? limits::max() : limits::lowest();
  }
  // The exact forms that become minpd and maxpd, and keep both values whatever they are.
  [[gnu::always_inline]] static row lesser(row a, row b) {
    if constexpr (ascending<T, Less>)
      return b < a ? b : a;
    else
      return b > a ? b : a;
  }
  [[gnu::always_inline]] static row greater(row a, row b) {
    if constexpr (ascending<T, Less>)
      return b < a ? a : b;
    else
      return b > a ? a : b;
  }
  [[gnu::always_inline]] static void exchange(row& a, row& b) {
    const row x = a, y = b;
    a = lesser(x, y);
    b = greater(x, y);
  }
  template <int... Lane> [[gnu::always_inline]] static row shuffle(row a, row b) {
    return __builtin_shufflevector(a, b, Lane...);
  }

  template <std::size_t Rows> [[gnu::always_inline]] static void sort_columns(row* x) {
    const auto steps = [x]<std::size_t... I>(const auto& net, std::index_sequence<I...>) {
      (exchange(x[net[I].low], x[net[I].high]), ...);
    };
    if constexpr (Rows == 16)
      steps(network_16, std::make_index_sequence<60>());
    else if constexpr (Rows == 8)
      steps(network_8, std::make_index_sequence<19>());
    else
      steps(network_4, std::make_index_sequence<5>());
  }
  /// Sorts columns that are bitonic.
  template <std::size_t Rows> [[gnu::always_inline]] static void merge_columns(row* x) {
#pragma GCC unroll 4
    for (std::size_t half = Rows / 2; half > 0; half /= 2)
#pragma GCC unroll 16
      for (std::size_t i = 0; i < Rows; ++i)
        if (!(i & half)) exchange(x[i], x[i + half]);
  }
  /// Merges sorted columns to one sequence, which goes on from the foot of each column to the head
  /// of the next.
  template <std::size_t Rows> [[gnu::always_inline]] static void join_columns(row* x) {
    // Comparing a column with the next one upside down leaves the lesser half in one, the greater
    // in the other.
    for (std::size_t i = 0; i < Rows / 2; ++i) {
      row &upper = x[i], &lower = x[Rows - 1 - i];
      if constexpr (width == 2) {
        const row y = shuffle<1, 0>(lower, lower), p = lesser(upper, y), q = greater(upper, y);
        upper = shuffle<0, 2>(p, q);
        lower = shuffle<1, 3>(p, q);
      } else {
        const row y = shuffle<1, 0, 3, 2>(lower, lower), p = lesser(upper, y), q = greater(upper, y);
        upper = shuffle<0, 4, 2, 6>(p, q);
        lower = shuffle<1, 5, 3, 7>(p, q);
      }
    }
    merge_columns<Rows>(x);
    if constexpr (width == 4) {
      for (std::size_t i = 0; i < Rows / 2; ++i) {
        row &upper = x[i], &lower = x[Rows - 1 - i];
        const row y = shuffle<3, 2, 1, 0>(lower, lower), p = lesser(upper, y), q = greater(upper, y);
        upper = shuffle<0, 1, 4, 5>(p, q);
        lower = shuffle<3, 2, 7, 6>(p, q);
      }
      for (std::size_t i = 0; i < Rows; ++i) {
        const row y = shuffle<1, 0, 3, 2>(x[i], x[i]);
        x[i] = shuffle<0, 4, 2, 6>(lesser(x[i], y), greater(x[i], y));
      }
      merge_columns<Rows>(x);
    }
  }
  template <std::size_t Rows> [[gnu::always_inline]] static void store_columns(const row* x, T* to) {
    for (std::size_t i = 0; i < Rows; i += width) {
      row column[width];
      if constexpr (width == 2) {
        column[0] = shuffle<0, 2>(x[i], x[i + 1]);
        column[1] = shuffle<1, 3>(x[i], x[i + 1]);
      } else {
        const row a = shuffle<0, 4, 1, 5>(x[i], x[i + 1]), b = shuffle<0, 4, 1, 5>(x[i + 2], x[i + 3]);
        const row c = shuffle<2, 6, 3, 7>(x[i], x[i + 1]), d = shuffle<2, 6, 3, 7>(x[i + 2], x[i + 3]);
        column[0] = shuffle<0, 1, 4, 5>(a, b);
        column[1] = shuffle<2, 3, 6, 7>(a, b);
        column[2] = shuffle<0, 1, 4, 5>(c, d);
        column[3] = shuffle<2, 3, 6, 7>(c, d);
      }
      for (std::size_t j = 0; j < width; ++j) std::memcpy(to + j * Rows + i, &column[j], sizeof(row));
    }
  }

  /// Of the numbers, up to as many as there are places and more than half as many.
  template <std::size_t Rows> static void sort_in(T* v, std::size_t n) {
    constexpr std::size_t places = Rows * width, half = places / 2;
    row x[Rows];
    // The first and the last half as many; what of the latter was among the former is replaced.
    std::memcpy(x, v, sizeof(x) / 2);
    const row pad = row{} + greatest();
    const auto twice = static_cast<T>(places - n);
    row number;
    for (std::size_t j = 0; j < width; ++j) number[j] = static_cast<T>(j);
#pragma GCC unroll 8
    for (std::size_t i = 0; i < Rows / 2; ++i) {
      row y;
      std::memcpy(&y, v + (n - half) + i * width, sizeof(y));
      x[Rows / 2 + i] = number + static_cast<T>(i * width) < row{} + twice ? pad : y;
    }
    sort_columns<Rows>(x);
    join_columns<Rows>(x);
    T sorted[places];
    store_columns<Rows>(x, sorted);
    std::memcpy(v, sorted, half * sizeof(T));
    std::memcpy(v + (n - half), sorted + (n - half), half * sizeof(T));
  }
};

template <class It, class Less> void insertion_sort(It first, It last, Less& less) {
  if (first == last) return;
  for (It i = first + 1; i != last; ++i) {
    if (!less(*i, *(i - 1))) continue;
    auto value = std::move(*i);
    It hole = i;
    try {
      do {
        *hole = std::move(*(hole - 1));
        --hole;
      } while (hole != first && less(value, *(hole - 1)));
    } catch (...) {
      *hole = std::move(value);
      throw;
    }
    *hole = std::move(value);
  }
}

template <class It, class Less> void heap_sort(It first, It last, Less& less) {
  // By swaps: the standard one holds an element while it compares.
  const auto sift = [&](auto at, auto n) {
    for (auto child = 2 * at + 1; child < n; at = child, child = 2 * at + 1) {
      if (child + 1 < n && less(first[child], first[child + 1])) ++child;
      if (!less(first[at], first[child])) return;
      std::iter_swap(first + at, first + child);
    }
  };
  const auto n = last - first;
  for (auto i = n / 2; i-- > 0;) sift(i, n);
  for (auto i = n; i-- > 1;) {
    std::iter_swap(first, first + i);
    sift(std::iter_difference_t<It>{0}, i);
  }
}

/// Copies an element; numbers through integer registers, of which processors can store more at a
/// time.
template <class It> void copy(It from, It to) {
  using T = std::iter_value_t<It>;
  if constexpr (std::is_same_v<T, double>) {
    using bits [[gnu::may_alias]] = std::uint64_t;
    reinterpret_cast<bits&>(*to) = reinterpret_cast<const bits&>(*from);
  } else if constexpr (std::is_same_v<T, float>) {
    using bits [[gnu::may_alias]] = std::uint32_t;
    reinterpret_cast<bits&>(*to) = reinterpret_cast<const bits&>(*from);
  } else {
    *to = *from;
  }
}

/// Moves the elements for which `goes_left` to the front.
/// \return where the others begin.
template <class It, class Pred> It partition(It first, It last, Pred goes_left) {
  using T = std::iter_value_t<It>;
  if (first == last) return first;
  if constexpr (cheap<T>) {
    const T taken = *first; // leaves a hole
    It hole = first, left = first;
    try {
      for (It right = first + 1; right != last; ++right) {
        const bool is_left = goes_left(*right);
        sorting::copy(left, hole);
        sorting::copy(right, left);
        hole = right;
        left += is_left;
      }
      const bool is_left = goes_left(taken);
      sorting::copy(left, hole);
      *left = taken;
      left += is_left;
    } catch (...) {
      *hole = taken;
      throw;
    }
    return left;
  } else {
    for (;;) {
      while (first != last && goes_left(*first)) ++first;
      while (first != last && !goes_left(*(last - 1))) --last;
      if (first == last) return first;
      --last;
      std::iter_swap(first, last);
      ++first;
    }
  }
}

/// At most `shortest<It, Less>` elements.
template <class It, class Less> void sort_short(It first, It last, Less& less) {
  using T = std::iter_value_t<It>;
  if constexpr (in_lanes<T, Less> && std::is_pointer_v<It>) {
    const auto n = static_cast<std::size_t>(last - first);
    if (n >= lanes<T, Less>::least)
      lanes<T, Less>::sort(first, n);
    else
      sorting::insertion_sort(first, last, less);
  } else if constexpr (cheap<T>) {
    sorting::network_sort(first, static_cast<std::size_t>(last - first), less);
  } else {
    sorting::insertion_sort(first, last, less);
  }
}
template <class It, class Less>
inline constexpr std::iter_difference_t<It> shortest = in_lanes<std::remove_pointer_t<It>, Less> ? 32 : 16;

template <class It, class Less> It median(It a, It b, It c, Less& less) {
  if (less(*b, *a)) std::swap(a, b);
  if (!less(*c, *b)) return b;
  return less(*c, *a) ? a : c;
}

/// Brings a good guess of the median to the front.
template <class It, class Less> void choose_pivot(It first, It last, Less& less) {
  const auto n = last - first;
  It middle = first + n / 2;
  if (n < 128) {
    middle = sorting::median(first + n / 4, middle, last - 1 - n / 4, less);
  } else {
    const auto q = n / 8;
    middle = sorting::median(sorting::median(first + 1, first + q, first + 2 * q, less),
                             sorting::median(middle - q, middle, middle + q, less),
                             sorting::median(last - 1 - 2 * q, last - 1 - q, last - 1, less), less);
  }
  std::iter_swap(first, middle);
}

/// Not of an element with itself: that would move from what was moved from.
template <class It> void swap_different(It a, It b) {
  if (a != b) std::iter_swap(a, b);
}

/// Breaks up patterns that misled the choice of a pivot.
template <class It> void scatter(It first, It last) {
  const auto n = last - first;
  if (n <= 16) return;
  auto random = static_cast<std::uint64_t>(n);
  for (const auto at : {n / 4, n / 2, n - 1 - n / 4})
    for (auto i = at - 1; i <= at + 1; ++i) {
      random = random * 6364136223846793005u + 1442695040888963407u;
      const auto other = (random >> 33) % static_cast<std::uint64_t>(n);
      sorting::swap_different(first + i, first + static_cast<std::iter_difference_t<It>>(other));
    }
}

/// How many bad partitions are forgiven.
inline int patience(std::uint64_t n) { return static_cast<int>(std::bit_width(n)); }

/// One step: partitions [first, last), of more than `shortest`. What lies between the two results
/// is where it belongs.
/// \param after what precedes `first` is an element that is not greater than any here.
template <class It, class Less> std::pair<It, It> split(It first, It last, Less& less, int& patience_left, bool after) {
  using T = std::iter_value_t<It>;
  sorting::choose_pivot(first, last, less);
  // Of a copy the compiler knows that writing elements does not change it.
  std::conditional_t<cheap<T>, const T, const T&> pivot = *first;
  if (after && !less(*(first - 1), pivot))
    return {first, sorting::partition(first + 1, last, [&](const T& x) { return !less(pivot, x); })};
  const It cut = sorting::partition(first + 1, last, [&](const T& x) { return less(x, pivot); }) - 1;
  sorting::swap_different(first, cut);
  if (std::min(cut - first, last - cut) < (last - first) / 8) {
    --patience_left;
    sorting::scatter(first, cut);
    sorting::scatter(cut + 1, last);
  }
  return {cut, cut + 1};
}

/// Sorts [first, last).
/// \param after what precedes `first` is an element that is not greater than any here.
template <class It, class Less> void quick_sort(It first, It last, Less& less, int patience_left, bool after = false) {
  while (last - first > shortest<It, Less>) {
    if (patience_left <= 0) return sorting::heap_sort(first, last, less);
    const auto [left_end, right] = sorting::split(first, last, less, patience_left, after);
    // The longer part stays here, so the stack is never deep.
    if (left_end - first < last - right) {
      sorting::quick_sort(first, left_end, less, patience_left, after);
      first = right;
      after = true;
    } else {
      sorting::quick_sort(right, last, less, patience_left, true);
      last = left_end;
    }
  }
  sorting::sort_short(first, last, less);
}
template <class It, class Less> void quick_sort(It first, It last, Less& less) {
  sorting::quick_sort(first, last, less, patience(static_cast<std::uint64_t>(last - first)));
}

} // namespace tern::detail::sorting
