// SPDX-License-Identifier: Apache-2.0
/// \file
/// The calls of one rank that wait for their objects.
#include <tern/mobile/together/claim_table.hpp>

#include <mutex>
#include <utility>

#include <tern/mobile/together/together_call.hpp>
#include <tern/net/report/reporter.hpp>
#include <tern/net/runtime.hpp>

namespace tern::mobile::detail {
namespace {

const rank_local<claim_table> the_claims;
constexpr std::size_t listed_claims = 8; // of what may be thousands

} // namespace

claim_table::claim_table() : node_(net::node::here()) { node_.report_on(*this); }
claim_table::~claim_table() { node_.forget_part(*this); }
claim_table& claim_table::of(net::node& here) { return the_claims.of(here); }
claim_table* claim_table::if_made(net::node& here) noexcept { return the_claims.if_made(here); }

void claim_table::add(together_call& one) noexcept {
  const std::lock_guard hold(lock_);
  one.after_ = std::exchange(first_, &one);
  if (one.after_) one.after_->before_ = &one;
}

void claim_table::remove(together_call& one) noexcept {
  const std::lock_guard hold(lock_);
  (one.before_ ? one.before_->after_ : first_) = one.after_;
  if (one.after_) one.after_->before_ = one.before_;
}

std::string claim_table::describe() {
  const auto hold = net::try_for_a_while(lock_);
  if (!hold) return "  (functions over several objects: another thread holds the lock on their list)\n";
  std::string text;
  std::size_t n = 0;
  for (const together_call* c = first_; c; c = c->after_)
    if (++n <= listed_claims) text += c->report();
  if (n == 0) return {};
  if (n > listed_claims) text += "    and " + std::to_string(n - listed_claims) + " more\n";
  return "  " + std::to_string(n) + (n == 1 ? " function waits" : " functions wait") + " for several objects:\n" + text;
}

} // namespace tern::mobile::detail
