// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// For tests: runs of the nbody program.

#include "apps/common/app_program.hpp"

#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace nbody_test {

using namespace app_test;

inline const strings small{"--model", "collision", "--n", "3000", "--steps", "6", "--quiet"};

/// Runs a job that must succeed, and gives its summary.
inline nlohmann::json summary_of(const std::string& where, int ranks, const strings& arguments, int workers = 0) {
  const temporary folder;
  const auto done = run(job(where, ranks, arguments + strings{"--json", folder / "s.json"}, workers));
  EXPECT_EQ(done.code, 0) << done.err;
  auto j = read_json(folder / "s.json");
  EXPECT_TRUE(j.is_object()) << done.err;
  if (!j.is_object()) return nlohmann::json::object();
  EXPECT_EQ(j.value("ranks", 0), ranks);
  return j;
}

inline std::string hash_of(const nlohmann::json& summary) { return summary.value("hash", std::string("none")); }

} // namespace nbody_test
