// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What a layer above may use of waiting: locks, waiters, time limits, functions called at a
/// moment, and the clocks. Includes all of this room that is meant for it. Internal to Tern's
/// layers.

#include <tern/task/wait/deadline.hpp>
#include <tern/task/wait/owner_lock.hpp>
#include <tern/task/wait/parking_spot.hpp>
#include <tern/task/wait/timed_function.hpp>
#include <tern/task/wait/try_within.hpp>
#include <tern/task/wait/wait_list.hpp>
