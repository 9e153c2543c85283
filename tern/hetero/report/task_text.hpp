// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// How reports name tasks, and what waits for them. Internal.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_set>
#include <vector>

#include <tern/hetero/access/access_note.hpp>
#include <tern/hetero/record/task_record.hpp>

namespace tern::hetero::detail {

constexpr std::size_t report_lines = 8; ///< of things that may be thousands
constexpr std::chrono::milliseconds object_lock_wait{20};

using task_set = std::unordered_set<const task_record*>; // address: only asked whether it holds one

/// "1 task", "2 tasks".
std::string counted(std::size_t n, const char* one, const char* many);
std::string seconds(double s); ///< "0.250 s"
void append(std::string& list, const std::string& what, const char* separator = ", ");
/// Separated by commas; of a long list the beginning, and how many more there are.
std::string joined(const std::vector<std::string>& all);
/// Its object and part, unless another thread holds the object's lock for long.
std::string text_of_use(const use& u);
/// "host access (read) at app.cpp:31 by fiber 5".
std::string called(const access_note& a);
/// "task 'scale'". \pre it cannot end meanwhile.
std::string called(const task_record& t);
/// The same for a task that may end meanwhile while its record stays. The closure may then be
/// destroyed, so its name is used only if the closure needs no destruction.
std::string called_while_it_runs(const task_record& t);
/// What waits for a task: a line, or none. \pre `first` cannot end meanwhile. \param named gets the
/// tasks in the line.
std::string describe_waiting(const task_record& first, task_set& named);

} // namespace tern::hetero::detail
