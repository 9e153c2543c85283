// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What a test asks of the kind of devices in own_device.cpp.

#include <atomic>

/// Searches for devices, of all runtimes, so far.
extern std::atomic<int> searches;
/// The next search fails.
extern std::atomic<bool> next_search_fails;
