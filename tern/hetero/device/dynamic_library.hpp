// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Libraries that are opened while the program runs. Internal.

#include <string>
#include <utility>

namespace tern::hetero::detail {

/// A library that the loader opened, and what of it was looked for in vain. Move-only; closed at
/// its end, unless it is kept. Threads: one at a time.
class dynamic_library {
public:
  /// \param why what the loader says is added if there is no such library, after "; ".
  /// \return an empty one in that case.
  static dynamic_library open(const std::string& name, std::string& why);

  dynamic_library() noexcept = default;
  dynamic_library(dynamic_library&& other) noexcept
      : handle_(std::exchange(other.handle_, nullptr)), missing_(std::move(other.missing_)) {}
  dynamic_library& operator=(dynamic_library&& other) noexcept {
    std::swap(handle_, other.handle_);
    std::swap(missing_, other.missing_);
    return *this;
  }
  ~dynamic_library();

  explicit operator bool() const noexcept { return handle_ != nullptr; }
  /// \pre it is not empty. \return null: it has no such symbol.
  void* find(const char* symbol) const noexcept;
  /// The same for a function; one that is needed and is not there is added to `missing`.
  template <class F> void find(F*& function, const char* symbol, bool needed = true) {
    function = reinterpret_cast<F*>(find(symbol));
    if (!function && needed) add_missing(symbol);
  }
  /// Needed symbols that it lacks, separated by commas.
  const std::string& missing() const noexcept { return missing_; }
  /// It stays open until the process ends: its functions may be called from anywhere.
  void keep() noexcept { handle_ = nullptr; }

private:
  void add_missing(const char* symbol);
  void* handle_ = nullptr;
  std::string missing_;
};

} // namespace tern::hetero::detail
