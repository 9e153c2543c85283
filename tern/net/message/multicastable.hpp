// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What must not be packed once for several ranks.

namespace tern::net::detail {

/// While it is there, what its fiber packs goes to several ranks: values of which each packing is another one (shares
/// of a remote_promise) refuse that.
class same_bytes_for_many {
public:
  same_bytes_for_many();
  ~same_bytes_for_many();
  same_bytes_for_many(const same_bytes_for_many&) = delete;
  same_bytes_for_many& operator=(const same_bytes_for_many&) = delete;
  static bool here();
};

} // namespace tern::net::detail
