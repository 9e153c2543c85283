// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What stands for a function of the program's where times are kept by kernel. Internal.

#include <functional>
#include <string>
#include <type_traits>
#include <typeinfo>

#include <tern/hetero/kernel.hpp>

namespace tern::hetero::detail {

/// Is there one function to the type? A lambda or another function object has a type of its own;
/// pointers to functions of one signature share theirs, as do `std::function`s.
template <class F> inline constexpr bool is_function_of_its_own = std::is_class_v<F>;
template <class R, class... A> inline constexpr bool is_function_of_its_own<std::function<R(A...)>> = false;

/// A kernel_code that is never compiled or run: a name for people, and a text that tells functions
/// apart, from run to run of one program.
class function_code {
public:
  explicit function_code(const std::type_info& type) noexcept;
  function_code(const function_code&) = delete;
  function_code& operator=(const function_code&) = delete;
  const kernel_code& code() const noexcept { return code_; }

private:
  std::string name_;
  kernel_code code_;
};

/// A type's name as C++ has it, without parameters of functions:
/// "app::solve(int)::{lambda(double*)#1}" becomes "app::solve::{lambda#1}".
std::string brief_name(const std::type_info& type);

/// \return null: the type does not tell which function it is. Thread-safe.
template <class F> const kernel_code* code_of_function() noexcept {
  if constexpr (is_function_of_its_own<F>) {
    static const function_code one(typeid(F));
    return &one.code();
  } else {
    return nullptr;
  }
}

} // namespace tern::hetero::detail
