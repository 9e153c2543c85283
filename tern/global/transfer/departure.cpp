// SPDX-License-Identifier: Apache-2.0
#include <tern/global/transfer/departure.hpp>

#include <mutex>
#include <string>
#include <utility>

#include <tern/base/archive.hpp>
#include <tern/global/coding/coder.hpp>
#include <tern/net/call/remote_exception.hpp>
#include <tern/net/packing/packing.hpp>

namespace tern::global::detail {

void departure::begin(const std::shared_ptr<departure>& self) { begin_by(&hetero::detail::outgoing::begin, self); }

void departure::begin_anywhere(const std::shared_ptr<departure>& self) {
  begin_by(&hetero::detail::outgoing::begin_anywhere, self);
}

void departure::begin_by(begin_function how, const std::shared_ptr<departure>& self) {
  self->self_ = self;
  try {
    if (!(self->data_.*how)(*self)) return;
  } catch (...) {
    self->self_.reset();
    throw;
  }
  self->ready_ = true; // no other thread knows it
  self->self_.reset();
  if (self->is_staged()) self->stage(self, {.by = self->codec_, .shape = self->shape_});
}

bool departure::is_staged() const noexcept {
  return data_.in_pieces() || (codec_ && !codec_->decides() && !data_.failure());
}

bool departure::is_here() noexcept {
  const std::lock_guard hold(guard_);
  return ready_ && !data_.failure() && !data_.in_pieces();
}

void departure::copy_to(std::byte* to) noexcept { data_.copy_to(to); }

byte_buffer departure::take() {
  if (data_.gives()) owner_.count_given();
  byte_buffer all = data_.take();
  // What is lent to a rank that dies may come back at the job's end, and tasks would wait for that.
  return here_.generation().guarded() && all.is_waited_for() ? all.copy() : std::move(all);
}

void departure::answered(hetero::detail::outgoing&) noexcept {
  std::shared_ptr<departure> self; // goes last: nothing else may have it
  {
    const std::lock_guard hold(guard_);
    self = std::move(self_);
  }
  if (is_staged() && !dropped_.load(std::memory_order_acquire)) stage(self, {.by = codec_, .shape = shape_});
  {
    const std::lock_guard hold(guard_);
    ready_ = true;
  }
  leave_or_tell();
  if (dropped_.load(std::memory_order_acquire)) dropped(); // perhaps before that was known
}

// Not when they are asked for: the request's way hides behind the first copies.
void departure::stage(std::shared_ptr<departure> self, piece_coding coding) noexcept {
  try {
    auto number = std::make_shared<std::uint64_t>(0);
    auto s = std::make_shared<staging>(
        here_, owner_.slots(), data_, sums_ || owner_.verifies(), std::move(coding),
        [self = std::move(self), number](const std::exception_ptr& why) { self->left(*number, why); });
    *number = owner_.enter(s);
    pieces_ = s;
    s->begin(*number);
    if (dropped_.load(std::memory_order_acquire)) s->give_up();
  } catch (const std::exception& e) {
    here_.fatal("data of a hetero_object cannot be staged: " + std::string(e.what()));
  }
}

void departure::dropped() noexcept {
  std::shared_ptr<staging> s;
  dropped_.store(true, std::memory_order_release);
  {
    const std::lock_guard hold(guard_);
    if (!ready_) return;
    s = pieces_;
  }
  if (s) s->give_up();
}

bool departure::requested(int to, std::uint64_t landing, bool room, const net::wire_header& h) noexcept {
  {
    const std::lock_guard hold(guard_);
    if (to_) return false;
    to_.emplace(destination{to, landing, h});
    room_ = room;
  }
  leave_or_tell();
  return true;
}

void departure::may_leave() noexcept {
  {
    const std::lock_guard hold(guard_);
    room_ = true;
  }
  leave_or_tell();
}

bool departure::was_requested() noexcept {
  const std::lock_guard hold(guard_);
  return to_.has_value();
}

hetero::detail::object_state* departure::keep() noexcept {
  const bool as_it_is = !codec_ || codec_->lossless() || codec_->decides();
  return as_it_is && data_.gives() ? data_.keep() : nullptr;
}

void departure::recalled() noexcept {
  {
    const std::lock_guard hold(guard_);
    if (ready_ || !room_ || !to_) return; // they are on their way
    room_ = false;
  }
  here_.post(to_->rank, pack(net::wire_header{returned_message().id(), 0, to_->landing}), {.urgent = true});
}

/// If they are ready, and wanted: they leave once, or it is told once that they wait for room.
void departure::leave_or_tell() noexcept {
  bool leaves = false;
  {
    const std::lock_guard hold(guard_);
    if (!ready_ || !to_ || left_ || dropped_.load(std::memory_order_relaxed)) return;
    leaves = left_ = room_ || data_.failure();
    if (!leaves && std::exchange(told_, true)) return;
  }
  if (leaves) return leave();
  here_.post(to_->rank, pack(net::wire_header{ready_message().id(), 0, to_->landing}), {.urgent = true});
}

void departure::leave() noexcept {
  if (!pieces_ && codec_ && !data_.failure()) { // it decides, and the host has them
    const auto known = coder::of(here_).ask(*codec_, shape_, {to_->rank, way::memory});
    if (known != codec_advice::answer::raw)
      stage(shared_from_this(), {.by = codec_, .shape = shape_, .known = known, .asked = true});
  }
  if (pieces_) return pieces_->send_to(to_->rank, to_->landing);
  depart();
}

void departure::depart() noexcept {
  const std::exception_ptr why = data_.failure();
  const std::size_t bytes = data_.bytes();
  try {
    if (why) {
      tell_failure(why);
    } else {
      byte_buffer body = take();
      const std::uint64_t sum = sums_ || owner_.verifies() ? checksum(body.bytes()) : 0;
      byte_buffer head = pack(net::wire_header{data_message().id(), net::flag_range, to_->landing}, sum);
      here_.post(to_->rank, std::move(head), body, {.urgent = true});
    }
  } catch (const std::exception& e) {
    here_.fatal("data of a hetero_object for rank " + std::to_string(to_->rank) + " cannot be sent: " + e.what());
  }
  const net::wire_header request = to_->request;
  owner_.sent(number_, static_cast<bool>(why), bytes);
  here_.message_done(request); // after the data have been counted
}

// All pieces have landed, or none will come any more.
void departure::left(std::uint64_t stage, const std::exception_ptr& why) noexcept {
  owner_.forget(stage);
  pieces_.reset();
  if (!to_ || dropped_.load(std::memory_order_acquire)) return; // nothing waits for them
  try {
    if (why) tell_failure(why);
  } catch (const std::exception& e) {
    here_.fatal("data of a hetero_object for rank " + std::to_string(to_->rank) + " cannot be sent: " + e.what());
  }
  owner_.sent(number_, static_cast<bool>(why), data_.bytes());
  here_.message_done(to_->request);
}

void departure::tell_failure(const std::exception_ptr& why) {
  net::detail::failure f = net::detail::describe(why);
  f.message += " (in what rank " + std::to_string(here_.rank()) + " was to send of " + data_.text() + ")";
  here_.post(to_->rank, pack(net::wire_header{failure_message().id(), 0, to_->landing}, f), {.urgent = true});
}

} // namespace tern::global::detail
