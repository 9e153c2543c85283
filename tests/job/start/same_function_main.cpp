// SPDX-License-Identifier: Apache-2.0
/// \file
/// With same_function_other.cpp: two functions of one name and type, each in its file's own
/// anonymous namespace.
#include <tern/net/message.hpp>
#include <tern/net/runtime.hpp>

void other_file();

namespace {
void report(int) {}
} // namespace

int main(int argc, char** argv) {
  return tern::run(argc, argv, [] {
    tern::send<&report>(0, 1);
    other_file();
  });
}
