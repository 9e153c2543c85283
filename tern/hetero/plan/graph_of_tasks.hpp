// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What tasks that are submitted together mean to a schedule. Internal.

#include <cstdint>
#include <string>
#include <vector>

#include <tern/hetero/plan/heft.hpp>
#include <tern/hetero/record/task_record.hpp>

namespace tern::hetero::detail {

class runtime;

/// Equal for rounds of equal tasks: the same kernels, grids, objects, parts and ways of use.
std::uint64_t shape_of_round(const std::vector<task_record*>& tasks) noexcept;

/// Their order and data, without times. Parts of one object that meet count as one piece of data
/// each, and what uses one uses all that it meets.
heft_problem graph_of_tasks(const std::vector<task_record*>& tasks);

/// Adds what is expected of them on each device, and where their data are now. \return the number
/// of a task of which no time is known; -1: there is none.
std::int64_t add_expected(runtime& r, const std::vector<task_record*>& tasks, heft_problem& p);

} // namespace tern::hetero::detail
