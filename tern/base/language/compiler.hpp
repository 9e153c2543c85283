// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Stops a compiler that cannot read Tern's headers, before it reports an error for each line that
/// it cannot read. Every public header includes this one first, or a header that does. The missing
/// file ends the compilation, which `#error` alone does not.

#if defined(__clang__)
#if __clang_major__ == 15
#error "Tern needs clang 16 or newer, or g++ 12 or newer; this is clang 15"
#elif __clang_major__ == 14
#error "Tern needs clang 16 or newer, or g++ 12 or newer; this is clang 14"
#elif __clang_major__ == 13
#error "Tern needs clang 16 or newer, or g++ 12 or newer; this is clang 13"
#elif __clang_major__ < 13
#error "Tern needs clang 16 or newer, or g++ 12 or newer; this is clang 12 or older"
#endif
#if __clang_major__ < 16
#include <tern/needs_a_newer_compiler>
#endif
#elif defined(__GNUC__)
#if __GNUC__ == 11
#error "Tern needs g++ 12 or newer, or clang 16 or newer; this is g++ 11"
#elif __GNUC__ == 10
#error "Tern needs g++ 12 or newer, or clang 16 or newer; this is g++ 10"
#elif __GNUC__ < 10
#error "Tern needs g++ 12 or newer, or clang 16 or newer; this is g++ 9 or older"
#endif
#if __GNUC__ < 12
#include <tern/needs_a_newer_compiler>
#endif
#endif

#if __cplusplus < 202002L
#error "Tern needs C++20: compile with -std=c++20"
#include <tern/needs_cxx20>
#endif
