// SPDX-License-Identifier: Apache-2.0
#include <tern/global/target/handover.hpp>

#include <utility>

#include <tern/hetero/access.hpp>

namespace tern::global::detail {

handover::handover(local_part into, over_function over, pointer_service::weak of)
    : over_(std::move(over)), of_(std::move(of)), target_(into.release(), into.part, *this) {}

void handover::begin(const std::shared_ptr<handover>& self) {
  self->target_.begin(); // it cannot be told before data come
  self->self_ = self;
}

void handover::begin_anywhere(const std::shared_ptr<handover>& self) {
  self->target_.begin_anywhere(); // likewise
  self->self_ = self;
}

void handover::take(hetero::detail::object_state* data) noexcept {
  const auto self = shared_from_this(); // it may end in here
  source_.emplace(data, hetero::detail::all_of(*data), true, true);
  try {
    if (!source_->begin_anywhere(*this)) return;
  } catch (...) { // it has been answered, and holds nothing
    return target_.fail(std::current_exception());
  }
  answered(*source_);
}

void handover::answered(hetero::detail::outgoing&) noexcept {
  const auto self = shared_from_this(); // likewise
  if (source_->failure()) return target_.fail(source_->failure());
  byte_buffer elements;
  try {
    elements = source_->take();
  } catch (...) { // no memory
    source_->release();
    return target_.fail(std::current_exception());
  }
  target_.land(std::move(elements));
}

void handover::landed(std::exception_ptr why) noexcept {
  const std::shared_ptr<handover> self = std::move(self_); // goes last
  if (pointer_service* const of = pointer_service::of(of_)) {
    if (target_.how().aside) of->count_aside();
    if (target_.how().adopted) of->count_adopted();
  }
  over_(std::move(why));
}

} // namespace tern::global::detail
