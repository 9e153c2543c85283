// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Claims the objects of one function, and sees it through. Internal; docs/design/claims.md
/// describes the protocol.

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include <tern/mobile/directory.hpp>
#include <tern/mobile/together/together_call.hpp>
#include <tern/task/future.hpp>
#include <tern/task/wait/waiting.hpp>

namespace tern::mobile::detail {

/// One call. Requires: its objects in ascending order. Guarantees: what it has claimed it lets go,
/// also if it fails. Threads: one fiber at a time; `describe` any.
class claimer {
public:
  claimer(net::node& here, std::unique_ptr<together_call> call);
  ~claimer();
  claimer(const claimer&) = delete;
  claimer& operator=(const claimer&) = delete;

  /// Claims what is free here, up to the first that is not, which it asks for.
  void begin();
  /// All the rest, in a fiber.
  void run() noexcept;
  /// For reports: what it has, and what it waits for.
  std::string describe() const;

private:
  friend class claim_table;
  enum class stage : std::uint8_t { claiming, moving, running };

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
  [[noreturn]] void did_not_run(std::exception_ptr why, const std::string& what) const;

  net::node& node_;
  directory& all_;
  const std::unique_ptr<together_call> call_;
  std::vector<claimed_object>& objects_;
  future<claim_grant> asked_; ///< for the one at `next_`
  // Reports look at what follows, under the table's lock once it is entered there.
  std::size_t next_ = 0; ///< all before it are claimed
  stage at_ = stage::claiming;
  bool entered_ = false;
  claimer *after_ = nullptr, *before_ = nullptr; ///< in the table
};

} // namespace tern::mobile::detail
