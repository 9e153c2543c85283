// SPDX-License-Identifier: Apache-2.0
/// \file
/// Credit of counted references that must not be returned yet.
#include <tern/mobile/object/credit_keeper.hpp>

#include <tern/task/fiber.hpp>

namespace tern::mobile::detail {
namespace {

const fiber_local<credit_keeper*> the_keeper;

} // namespace

credit_keeper::credit_keeper() { *the_keeper = this; }
credit_keeper::~credit_keeper() { *the_keeper = nullptr; }
credit_keeper* credit_keeper::here() noexcept { return *the_keeper; }
credit_keeper::credits credit_keeper::take() {
  *the_keeper = nullptr;
  return std::move(kept_);
}

} // namespace tern::mobile::detail
