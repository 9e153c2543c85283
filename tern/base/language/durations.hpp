// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Durations, time points and clocks of `std::chrono`, without calendars and streams. With
/// libstdc++, `<chrono>` brings `<sstream>` and all locales in C++20, a fifth of a second or more
/// for each file; what public headers name of it stands in `<bits/chrono.h>`, which
/// `<condition_variable>`, `<mutex>` and `<future>` include instead of `<chrono>`, too. Decision
/// 0102. A file that wants more of `<chrono>` includes it.

#include <tern/base/language/compiler.hpp>

#include <ratio>

#if defined(__GLIBCXX__) && __has_include(<bits/chrono.h>)
#include <bits/chrono.h>
#else
#include <chrono>
#endif
