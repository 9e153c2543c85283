// SPDX-License-Identifier: Apache-2.0
#include <tern/net/message.hpp>

namespace {
void report(int) {}
} // namespace

void other_file() { tern::send<&report>(0, 2); }
