// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Tasks that copy objects to the user's memory (`copy_to`), before their turn has come. Internal.

#include <cstdint>

#include <tern/hetero/data/transfer.hpp>
#include <tern/hetero/record/task_record.hpp>

namespace tern::hetero::detail {

bool is_copy_out(const task_record& t) noexcept;

/// Such a task's predecessors that have not ended are in streams of device `d`: if all that it
/// reads is there alone, `behind` gets the copies, which are to begin behind these predecessors.
/// Each of them holds one of the task's `pending`. When the task runs, all has been copied. By the
/// worker of `d`, which has the task for itself. Source: as coherence::acquire_home_behind.
void copy_out_behind(task_record& t, std::uint8_t d, transfer_chain& behind) noexcept;

} // namespace tern::hetero::detail
