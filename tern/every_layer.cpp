// SPDX-License-Identifier: Apache-2.0
/// \file
/// Keeps every layer in programs that link `tern::tern`, so that they have the options of all.
///
/// A linker drops a shared library (`--as-needed`) or an archive's member to which a program does
/// not refer, and with it the static objects that declare options. This file refers to an option of
/// each layer that a program may not use. It is an archive of its own, and `tern::tern` asks the
/// linker for its symbol (`-u tern_every_layer`): so it becomes part of the program itself,
/// whatever compiler, optimization and kind of libraries there are.
#include <tern/balance/balance.hpp>
#include <tern/global/travel.hpp>
#include <tern/hetero/devices.hpp>
#include <tern/hetero/policy.hpp>
#include <tern/mobile/directory.hpp>

extern "C" {
// Hidden: a library that links tern::tern has its own.
[[gnu::visibility("hidden")]] extern const void* const tern_every_layer[];
const void* const tern_every_layer[] = {
    &tern::balance::balance_option, &tern::mobile::memory_option,   &tern::hetero::hetero_devices,
    &tern::hetero::hetero_policy,   &tern::hetero::hetero_powercap, &tern::global::inline_option,
};
}
