// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What a model is of: a kernel, at one size, on one model of device. Internal.

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include <tern/hetero/access.hpp>
#include <tern/hetero/devices.hpp>
#include <tern/hetero/kernel.hpp>

namespace tern::hetero::detail {

/// How a task uses an object, as far as its time may depend on it.
struct sized_use {
  std::size_t element = 0;               ///< bytes
  std::array<std::int64_t, 3> extents{}; ///< elements of the part
  access_mode how = access_mode::read;
};

/// Tasks of one kernel that are taken to last equally long on a device. A value; any thread.
struct size_class {
  std::uint64_t hash = 0;  ///< of all that the class depends on
  std::uint64_t bytes = 0; ///< of all uses; what times of unknown sizes are estimated by
  std::string text;        ///< for people: "r 8x1024x1024, w 8x1024; 16384 x 64"

  bool operator==(const size_class&) const = default;
};

/// The hash of a class alone, for looking it up at each task: it allocates nothing.
class size_hash {
public:
  /// \param number what the program says that decides, such as a number of iterations; 0: nothing.
  explicit size_hash(std::uint64_t number) noexcept : so_far_(number) {}
  /// In the order of the task's arguments.
  void add(const sized_use& u) noexcept;
  /// Of all uses, with the grid.
  std::uint64_t of(const grid& shape) const noexcept;

private:
  std::uint64_t so_far_;
};
std::uint64_t hash_of_size(std::span<const sized_use> uses, const grid& shape, std::uint64_t number = 0) noexcept;
/// With its text. \param number as of size_hash.
size_class size_class_of(std::span<const sized_use> uses, const grid& shape, std::uint64_t number = 0);

/// A kernel that is written otherwise is another one.
struct kernel_identity {
  std::string name;
  std::uint64_t text = 0; ///< a hash of its source, its module, or its function's type

  auto operator<=>(const kernel_identity&) const = default;
};
/// Reads the source if it is not in the program. \param number as of size_hash: sizes of tasks with
/// another number say nothing of those with this one. \throws as `text_of`.
kernel_identity identity_of(const kernel_code& code, std::uint64_t number = 0);

/// By which times of one device are taken to be those of another: name and driver; of the host the
/// number of its workers. \param simulated the words that simulated devices were made of.
std::string device_model(const device_info& info, std::string_view simulated = {});

/// The key of a model. Ordered by name first, then by device and size.
struct model_key {
  kernel_identity kernel;
  std::string device; ///< of `device_model`
  std::uint64_t size = 0;

  auto operator<=>(const model_key&) const = default;
};

} // namespace tern::hetero::detail
