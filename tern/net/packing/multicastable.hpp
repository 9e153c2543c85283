// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What must not be packed once for several ranks.

namespace tern::net::detail {

/// While it is there, what its fiber packs goes to several ranks: values of which each packing is
/// another one (shares of a remote_promise) refuse that.
class multicast_packing {
public:
  multicast_packing();
  ~multicast_packing();
  multicast_packing(const multicast_packing&) = delete;
  multicast_packing& operator=(const multicast_packing&) = delete;
  static bool here();
};

} // namespace tern::net::detail
