// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// A policy's name and parameters, as users write them: `diffusion:limit=2,neighbours=4`. Policies
/// of load balancing (tern/balance) and of devices (tern/hetero) are chosen so.

#include <tern/base/language/compiler.hpp>

#include <map>
#include <string>
#include <string_view>

namespace tern {

/// What follows the colon. A policy's constructor asks for each parameter that it has, with its
/// default and bounds. What has not been asked for afterwards is refused. One thread.
class policy_parameters {
public:
  policy_parameters() = default;
  /// \param text `limit=2,neighbours=4`; may be empty. \param of the policy, for error texts.
  /// \param what it is, if it is no policy.
  /// \throws error(invalid_option) for what is no list of NAME=VALUE, or gives one twice.
  policy_parameters(std::string of, std::string_view text, const char* what = "policy");

  /// \throws error(invalid_option) that names policy, parameter and bounds if the value is no
  /// number or out of bounds.
  double number(const std::string& name, double otherwise, double least, double most);
  int count(const std::string& name, int otherwise, int least, int most);
  /// Seconds: a number with ns, us, ms or s; without a unit: seconds.
  double seconds(const std::string& name, double otherwise);
  /// One of several words, separated by `|` in `choices`.
  std::string word(const std::string& name, const std::string& otherwise, const std::string& choices);
  /// \throws error(invalid_option) naming what has not been asked for, and what has: those are the
  /// parameters there are.
  void finish() const;

private:
  const std::string* find(const std::string& name, const std::string& shown);
  [[noreturn]] void bad(const std::string& name, const std::string& value, const std::string& wanted) const;
  std::string of_; ///< "policy diffusion"
  std::map<std::string, std::string> given_;
  std::map<std::string, std::string> asked_; ///< with their defaults, for the error's text
};

/// `diffusion:limit=2` → {"diffusion", "limit=2"}.
struct policy_text {
  std::string name, rest;
};
policy_text split_policy(std::string_view text);

} // namespace tern
