// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What rooms and layers do when their rank gives up all that it does with others, since one of
/// them was lost (failure/generation.hpp). Internal.

namespace tern {
class error;
}

namespace tern::net {

class node;

namespace detail {

/// What a layer above does when its rank abandons a generation. Static objects only, entered before
/// `main`. Called once for each abandoned generation, where messages arrive, so it must not wait;
/// it may wake fibers, and what it posts is dropped. Old fibers still run afterwards, and see
/// `abandoned`.
class abandon_hook {
public:
  using function = void (*)(node& here, const error& why);
  explicit abandon_hook(function f);
  abandon_hook(const abandon_hook&) = delete;
  abandon_hook& operator=(const abandon_hook&) = delete;
  static void call_all(node& here, const error& why);

private:
  const function function_;
  const abandon_hook* const next_;
};

} // namespace detail
} // namespace tern::net
