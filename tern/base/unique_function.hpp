// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// A move-only `std::function`: holds closures that own what cannot be copied (promises, buffers,
/// mobile state).

#include <tern/base/language/compiler.hpp>

#include <cstddef>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

namespace tern {

template <class Signature> class unique_function;

/// Owns one callable. Callables of up to 64 bytes that move without throwing are stored inline,
/// others on the heap. Calling an empty one is undefined (checked by the caller through `operator
/// bool`). Not thread-safe.
template <class R, class... Args> class unique_function<R(Args...)> {
  static constexpr std::size_t capacity = 64;

  struct operations {
    R (*call)(void*, Args&&...);
    void (*relocate)(void* from, void* to) noexcept; // moves, then destroys the source
    void (*destroy)(void*) noexcept;
  };

  template <class F>
  static constexpr bool fits = sizeof(F) <= capacity &&
                               alignof(F) <= alignof(std::max_align_t) && std::is_nothrow_move_constructible_v<F>;

  template <class F> static const operations* inline_operations() {
    static constexpr operations ops{
        [](void* p, Args&&... args) -> R { return (*static_cast<F*>(p))(std::forward<Args>(args)...); },
        [](void* from, void* to) noexcept {
          ::new (to) F(std::move(*static_cast<F*>(from)));
          static_cast<F*>(from)->~F();
        },
        [](void* p) noexcept { static_cast<F*>(p)->~F(); }};
    return &ops;
  }
  template <class F> static const operations* heap_operations() {
    static constexpr operations ops{
        [](void* p, Args&&... args) -> R { return (**static_cast<F**>(p))(std::forward<Args>(args)...); },
        [](void* from, void* to) noexcept { ::new (to)(F*)(*static_cast<F**>(from)); },
        [](void* p) noexcept { delete *static_cast<F**>(p); }};
    return &ops;
  }

public:
  unique_function() noexcept = default;
  template <class F>
  requires(!std::is_same_v<std::remove_cvref_t<F>, unique_function> &&
           std::is_invocable_r_v<R, std::decay_t<F>&, Args...>)
      unique_function(F&& f) { // NOLINT(google-explicit-constructor): converts like std::function
    using callable = std::decay_t<F>;
    if constexpr (fits<callable>) {
      ::new (static_cast<void*>(storage_)) callable(std::forward<F>(f));
      ops_ = inline_operations<callable>();
    } else {
      ::new (static_cast<void*>(storage_))(callable*)(new callable(std::forward<F>(f)));
      ops_ = heap_operations<callable>();
    }
  }
  unique_function(unique_function&& other) noexcept { take(other); }
  unique_function& operator=(unique_function&& other) noexcept {
    if (this != &other) {
      reset();
      take(other);
    }
    return *this;
  }
  ~unique_function() { reset(); }

  explicit operator bool() const noexcept { return ops_ != nullptr; }
  R operator()(Args... args) { return ops_->call(storage_, std::forward<Args>(args)...); }
  /// Destroys the callable; afterwards empty.
  void reset() noexcept {
    if (ops_) std::exchange(ops_, nullptr)->destroy(storage_);
  }

private:
  void take(unique_function& other) noexcept {
    if (other.ops_) {
      other.ops_->relocate(other.storage_, storage_);
      ops_ = std::exchange(other.ops_, nullptr);
    }
  }

  alignas(std::max_align_t) std::byte storage_[capacity];
  const operations* ops_ = nullptr;
};

} // namespace tern
