// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Claims the objects of one function, and sees it through. Internal; docs/design/claims.md
/// describes the protocol.

#include <cstddef>
#include <span>

#include <tern/mobile/directory.hpp>
#include <tern/mobile/together/together_call.hpp>
#include <tern/task/future.hpp>

namespace tern::mobile::detail {

/// Sees one call through. `begin` claims and asks; `run`, in a fiber, does all the rest.
/// Guarantees: what it has claimed it lets go, also if it fails. Threads: one at a time; what it
/// changes and reports look at, it changes under the table's lock.
class claimer {
public:
  explicit claimer(together_call& call) noexcept;

  /// Claims what is free here, up to the first that is not, which it asks for. \throws
  /// error(invalid_argument) for an object that was added twice.
  void begin();
  void run() noexcept;

private:
  using stage = together_call::stage;
  void prepare();
  bool claim_free();
  void ask_next();
  void claim_all();
  bool must_claim_anew(int where);
  void wait_until_settled();
  int choose() const;
  void bring_to(int where);
  future<void> carry(const claimed_object& one, int where);
  void run_here();
  void run_on(int where);
  void let_go() noexcept;
  void let_go(claimed_object& one);

  together_call& call_;
  net::node& node_;
  directory& all_;
  const std::span<claimed_object> objects_;
};

} // namespace tern::mobile::detail
