// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Exceptions between ranks.

#include <exception>
#include <string>

#include <tern/base/error.hpp>

namespace tern::net::detail {

/// What travels of an exception.
struct failure {
  errc code = errc::internal;
  std::string message, hint, place;
  template <class A> void serialize(A& ar) { ar(code, message, hint, place); }
  error as_error() const { return error(code, message, hint, place); }
};

/// A tern::error as it is, anything else as error(remote) with its type and text.
failure describe(std::exception_ptr e);

} // namespace tern::net::detail
