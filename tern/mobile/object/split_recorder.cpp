// SPDX-License-Identifier: Apache-2.0
/// \file
/// How much credit of counted references goes into what a fiber packs.
#include <tern/mobile/object/split_recorder.hpp>

#include <tern/task/fiber.hpp>

namespace tern::mobile::detail {
namespace {

const fiber_local<split_recorder*> the_recorder;

} // namespace

split_recorder::split_recorder(gives what) : what_(what) { *the_recorder = this; }
split_recorder::~split_recorder() { *the_recorder = nullptr; }
split_recorder* split_recorder::here() noexcept { return *the_recorder; }

} // namespace tern::mobile::detail
