// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Kernels of the dialect on the host with every access checked (`hetero-checked`). Internal.
///
/// A program's own kernels stay as they are. A block's text, which the program contains for
/// devices, is compiled once more when a task first needs it, by the C++ compiler of the machine:
/// pointers to objects and to the group's memory become classes that know their extents. What is
/// compiled is kept like the kernels of devices (kernel_cache.hpp).
///
/// Three forms, each compiled when it is first needed:
/// - `whole`: the elements of each argument follow each other without gaps. An access beyond them
///   reads 0, writes nothing and sets a flag, so that loops are still vectorised.
/// - `parts`: the same if some argument is a part with gaps between its rows.
/// - `report`: for a group that has set the flag. It runs again, slowly, and reports the access.

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>

#include <tern/base/options.hpp>
#include <tern/hetero/device/kernel_cache.hpp>
#include <tern/hetero/kernel.hpp>
#include <tern/hetero/record/argument_source.hpp>
#include <tern/hetero/record/task_record.hpp>
#include <tern/task/sync.hpp>

namespace tern::hetero::detail {

// What library and compiled text tell each other: one definition for both.
#define TERN_FOR_BOTH(...)                                                                                             \
  __VA_ARGS__                                                                                                          \
  inline constexpr std::string_view checked_definitions = #__VA_ARGS__;
TERN_FOR_BOTH(
    struct checked_view {
      long count;         // from the first element to the last one, both included
      long pitch;         // 0: no gaps
      long slice;         // elements from slice to slice
      long columns, rows; // of a slice
      double per_pitch, per_slice;
    };
    struct checked_failure {
      int told, line, access; // 0 reads, 1 writes, 2 uses, 3 changes
      int in_item, x, y, z;
      int parameter; // -1: memory of the group, `memory`
      const char* memory;
      long index, count;
    };
    struct checked_call {
      int groups[3], items[3];
      long first, last;
      char* dynamic;
      long dynamic_bytes;
      const void* const* values;
      const checked_view* views;
      char* spare;    // what is used in the place of structs beyond the end
      long bad_group; // -1: none
      checked_failure failure;
    };)
#undef TERN_FOR_BOTH
constexpr std::size_t checked_spare_bytes = 4096;

enum class checked_form : unsigned char { whole, parts, report };

/// The text in C++: the words of the dialect, and the block with `TERN_GLOBAL T*` and `TERN_LOCAL
/// T*` as classes.
/// \throws what `text_of` throws.
std::string checked_source(const source_block& block, checked_form form);
/// The block's text with pointers to objects and to the group's memory as `TERN_POINTER(T)`; lines
/// stay where they are.
std::string with_checked_pointers(std::string_view text);
/// What a kernel's parameter is called, of "int n, TERN_POINTER(const double) x". \return "" if
/// there is none.
std::string parameter_name(std::string_view parameters, std::size_t number);

/// The checked kernels of a scheduler's programs. Threads: any.
class checked_kernels {
public:
  explicit checked_kernels(const options& opts);
  ~checked_kernels();
  checked_kernels(const checked_kernels&) = delete;
  checked_kernels& operator=(const checked_kernels&) = delete;

  /// Runs all groups, spread over the workers. In a task's fiber. \param sources where parameter i
  /// comes from.
  /// \param values its value is at `values[i]`. \throws error(invalid_argument) for an access
  /// beyond an object, a view or memory of the group, with kernel, line, item, index and extents;
  /// error(invalid_data) with what the compiler says; error(not_found) if there is no compiler;
  /// what `text_of` throws.
  void run(task_record& t, std::span<const source_of> sources, const kernel_code& code, const grid& shape,
           std::size_t dynamic, const void* const* values);

private:
  using entry = void (*)(checked_call*);
  struct library;
  void find_compiler();
  std::unique_ptr<library> compile(const source_block& block, checked_form form);
  /// Compiled if need be. \param parameters gets their text, unless it is null.
  entry get(const kernel_code& code, checked_form form, const char** parameters);
  [[noreturn]] static void report(task_record& t, std::span<const source_of> sources, const kernel_code& code,
                                  const grid& shape, std::int64_t group, const checked_failure& f,
                                  std::string_view names);

  const kernel_cache cache_;
  const bool contract_;
  const std::string wanted_; ///< compiler
  mutex lock_;
  // Under the lock.
  std::string compiler_, version_; ///< empty: not looked for
  std::array<std::unordered_map<const source_block*, std::unique_ptr<library>>, 3> libraries_; // address: looked up
};

} // namespace tern::hetero::detail
