// SPDX-License-Identifier: Apache-2.0
#include <tern/global/transfer/departure.hpp>

#include <mutex>
#include <span>
#include <string>
#include <utility>

#include <tern/base/archive.hpp>
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
}

bool departure::is_here() noexcept {
  const std::lock_guard hold(guard_);
  return ready_ && !data_.failure();
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
  bool leaves = false;
  {
    const std::lock_guard hold(guard_);
    self = std::move(self_);
    ready_ = true;
    leaves = to_.has_value();
  }
  if (leaves) leave();
}

void departure::requested(int to, std::uint64_t landing, const net::wire_header& h) noexcept {
  {
    const std::lock_guard hold(guard_);
    to_.emplace(destination{to, landing, h});
    if (!ready_) return;
  }
  leave();
}

void departure::leave() noexcept {
  const bool failed = static_cast<bool>(data_.failure());
  try {
    if (failed) {
      tell_failure();
    } else {
      net::wire_header h{data_message().id(), net::flag_range, to_->landing};
      byte_buffer body = take();
      here_.post(to_->rank, std::as_writable_bytes(std::span(&h, 1)), body, {.urgent = true});
    }
  } catch (const std::exception& e) {
    here_.fatal("data of a hetero_object for rank " + std::to_string(to_->rank) + " cannot be sent: " + e.what());
  }
  owner_.sent(failed);
  here_.message_done(to_->request); // after the data have been counted
}

void departure::tell_failure() {
  net::detail::failure f = net::detail::describe(data_.failure());
  f.message += " (in what rank " + std::to_string(here_.rank()) + " was to send of " + data_.text() + ")";
  here_.post(to_->rank, pack(net::wire_header{failure_message().id(), 0, to_->landing}, f), {.urgent = true});
}

} // namespace tern::global::detail
