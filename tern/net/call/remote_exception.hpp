// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Exceptions between ranks.

#include <exception>
#include <string>
#include <utility>

#include <tern/base/error.hpp>

namespace tern::net::detail {

/// An error that says itself what it has happened in, for a caller that knows nothing of the
/// handler.
class error_within final : public error {
public:
  error_within(error problem, std::string context) : error(std::move(problem)), context_(std::move(context)) {}
  const std::string& context() const noexcept { return context_; }

private:
  std::string context_;
};

/// What travels of an exception.
struct failure {
  errc code = errc::internal;
  std::string message, hint, place;
  std::string within; ///< what it has happened in; empty: the handler. Does not travel
  template <class A> void serialize(A& ar) { ar(code, message, hint, place); }
  error as_error() const { return error(code, message, hint, place); }
};

/// A tern::error as it is, anything else as error(remote) with its type and text.
failure describe(std::exception_ptr e);

} // namespace tern::net::detail
