// SPDX-License-Identifier: Apache-2.0
/// \file
/// With same_lambda_other.cpp: the first lambdas of two static functions of one name, each in its
/// own file.
#include <tern/net/message.hpp>
#include <tern/net/runtime.hpp>

void other_file();

static void prepare() {
  tern::send<[](int) {}>(0, 1);
}

int main(int argc, char** argv) {
  return tern::run(argc, argv, [] {
    prepare();
    other_file();
  });
}
