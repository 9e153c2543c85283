// SPDX-License-Identifier: Apache-2.0
#include <tern/net/message.hpp>

static void prepare() {
  tern::send<[](int) {}>(0, 2);
}

void other_file() { prepare(); }
