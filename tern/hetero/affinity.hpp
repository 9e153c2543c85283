// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Tasks that belong together: what they use stays on one device.
///
///     for (body& b : bodies) {
///       tern::affinity_scope in(b.number);
///       tern::submit(forces, shape, tern::read(b.x), tern::write(b.f));
///       tern::submit(advance, shape, tern::read(b.f), tern::read_write(b.x));
///     }
///
/// Tasks with one key run on one device: the one with the least to do for all keys, when the first
/// of them is placed. A policy sends a task elsewhere if it is expected to end much earlier there;
/// after three such tasks in a row the key moves. When memory is short, what a key uses goes as a
/// whole. Keys say where tasks run, not in which order, and no result depends on them.
///
/// Guarantees: each number is a key, and equal ones are one key in all of a scheduler. Tasks
/// without a key pay nothing for those with one.
///
/// Limits: the last 4,096 keys are remembered. The policies `locality`, `dmda`, `steal` and
/// `energy` go by keys; for others there is `ready_task::affinity()`. A task that can only run on
/// the host, and needs no policy, has no use for one. More: docs/concepts/devices.md.

#include <tern/base/language/compiler.hpp>

#include <cstdint>

#include <tern/task/fiber/causal_context.hpp>

namespace tern {

/// While it lives, tasks on heterogeneous objects that the calling fiber submits have its key,
/// unless they have one of their own (hetero_task::affinity). That goes for those of a batch and of
/// `planned` as well, and for `recorded` as a whole, where it is submitted. Of scopes within each
/// other the innermost counts.
///
/// Not for what fibers, tasks and messages submit that are started in it: each of them has scopes
/// of its own.
///
/// Threads: on the stack of one fiber, which may move between workers meanwhile.
class affinity_scope final : private detail::work_frame {
public:
  explicit affinity_scope(std::uint64_t key) noexcept : work_frame(frames), key_(key) {}

private:
  static const detail::frame_kind frames;
  const std::uint64_t key_;
};

} // namespace tern
