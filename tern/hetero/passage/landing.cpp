// SPDX-License-Identifier: Apache-2.0
#include <tern/hetero/passage/landing.hpp>

#include <cstddef>
#include <mutex>
#include <source_location>
#include <utility>

#include <tern/hetero/graph/runtime.hpp>
#include <tern/hetero/record/failure.hpp>

namespace tern::hetero::detail {

byte_buffer own_memory(byte_buffer memory) {
  // address: whether elements of any type can be used where they lie
  const bool aligned = reinterpret_cast<std::uintptr_t>(memory.data()) % alignof(std::max_align_t) == 0;
  return memory.writable() && aligned ? std::move(memory) : memory.copy();
}

landing::landing(object_state* handle, const box& part, listener& tells) noexcept
    : object_(handle), part_(part), tells_(tells) {}

landing::~landing() { drop_handle(object_); }

void landing::begin() {
  request_access(object_, part_, access_mode::write, this, std::source_location::current(), true);
}

void landing::begin_anywhere() {
  request_access_anywhere(object_, part_, access_mode::write, this, std::source_location::current());
}

void landing::granted(task_record* t, const host_place& where) noexcept {
  byte_buffer memory;
  {
    const std::lock_guard hold(guard_);
    answered_ = true;
    held_ = t;
    where_ = where;
    if (!come_) return;
    memory = std::move(aside_);
  }
  finish(std::move(memory));
}

void landing::refused(std::exception_ptr why) noexcept {
  {
    const std::lock_guard hold(guard_);
    answered_ = true;
    failure_ = std::move(why);
    if (!come_) return;
  }
  finish({});
}

void landing::come(byte_buffer memory, std::exception_ptr why) noexcept {
  {
    const std::lock_guard hold(guard_);
    come_ = true;
    if (why && !failure_) failure_ = std::move(why);
    if (!answered_) {
      outcome_.aside = true;
      aside_ = std::move(memory);
      return;
    }
  }
  finish(std::move(memory));
}

void landing::land(byte_buffer memory) noexcept {
  bool must_wait = false;
  {
    const std::lock_guard hold(guard_);
    must_wait = !answered_;
  }
  // What is lent goes back before anything is waited for.
  if (must_wait) memory = own_memory(std::move(memory));
  come(std::move(memory), nullptr);
}

void landing::fail(std::exception_ptr why) noexcept { come({}, std::move(why)); }

void landing::finish(byte_buffer memory) noexcept {
  const std::exception_ptr why = failure_;
  if (held_) {
    if (why) {
      hetero::detail::fail(held_, why);
    } else if (!adopt(memory)) {
      copy_from(memory.data());
    }
    release_access(std::exchange(held_, nullptr));
  }
  memory = {}; // before others learn of it: a lender may wait
  tells_.landed(why);
}

bool landing::adopt(byte_buffer& memory) noexcept {
  object_state& o = *object_;
  constexpr std::size_t least = 4096; // below that a copy costs less
  if (!(part_ == o.all) || o.adopted || o.paged || memory.size() < least || !memory.writable() ||
      reinterpret_cast<std::uintptr_t>(memory.data()) % alignof(std::max_align_t) != 0) // address: as own_memory
    return false;
  std::byte* old = nullptr;
  {
    const std::lock_guard hold(o.lock); // no other task uses it, but reports look at it
    old = o.host.exchange(memory.data(), std::memory_order_acq_rel);
    if (o.landed.empty()) {
      o.landed = std::move(memory);
    } else {
      old = nullptr; // it was that buffer's, which goes with `memory`
      o.landed.swap(memory);
    }
  }
  if (old) o.copies.memory().free(old);
  return outcome_.adopted = true;
}

void landing::copy_from(const std::byte* from) const noexcept {
  copy_part(part_, from, layout::packed(part_, object_->element), where_.address, object_->host_layout);
}

} // namespace tern::hetero::detail
