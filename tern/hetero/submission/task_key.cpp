// SPDX-License-Identifier: Apache-2.0
#include <tern/hetero/submission/task_key.hpp>

#include <tern/hetero/affinity.hpp>

namespace tern {

constinit const detail::frame_kind affinity_scope::frames{
    +[](const detail::work_frame& f) noexcept { return static_cast<const affinity_scope&>(f).key_; }};

namespace hetero::detail {

void set_key_of_scope(task_record& t) noexcept {
  if (const auto key = tern::detail::work_frame::key_here()) t.set_key(*key);
}

} // namespace hetero::detail
} // namespace tern
