// SPDX-License-Identifier: Apache-2.0
/// \file
/// Tasks that have arrived get instances of what they use, or wait until there is memory for them.
#include <exception>
#include <mutex>
#include <string>
#include <utility>

#include <tern/base/error.hpp>
#include <tern/hetero/device/worker/device_worker.hpp>
#include <tern/hetero/record/failure.hpp>

namespace tern::hetero::detail {

// A look for memory goes through all that is there: while the device is busy, there is one when
// something has happened here, and seldom one for what others may have freed.
constexpr std::int64_t nanoseconds_between_looks = 1'000'000;

bool device_worker::admit() noexcept {
  bool did = false;
  starved_ = false; // unless it turns out again
  if (!progress_ && home_.core().now() < look_again_at_) return false;
  look_again_at_ = 0;
  std::size_t n = 0;
  for (; n < waiting_.size(); ++n) {
    task_record* const t = waiting_[n];
    if (lost_) { // elsewhere, if it can
      home_.placement().task_left(t);
      home_.placement().place(t);
      did = true;
      continue;
    }
    t->device = number_;
    t->pending.store(1, std::memory_order_relaxed);
    t->flags |= task_record::acquired;
    over_limit_ = nullptr;
    const coherence::acquired how = home_.copies().acquire(t, number_);
    if (how == coherence::acquired::lost) {
      handle_loss(std::exchange(found_loss_, nullptr));
      home_.placement().task_left(t);
      home_.placement().place(t);
      did = true;
      continue;
    }
    if (how == coherence::acquired::no_memory) { // and memory has been freed for it, as far as possible
      t->flags &= static_cast<std::uint16_t>(~task_record::acquired);
      const bool busy =
          !ready_.empty() || !gathered_.empty() || !running_.empty() || !moving_.empty() || preparing_ > 0;
      if (!eviction_.made && !eviction_.in_use && !busy && eviction_.larger && !over_limit_) evict_larger_copies(*t);
      // Others may have what would have to go just now: copies between devices, which another
      // worker carries out.
      if (eviction_.possible && (eviction_.made || busy || has_arrivals() || (starved_ = eviction_.in_use))) {
        did = did || eviction_.made;
        if (busy) look_again_at_ = home_.core().now() + nanoseconds_between_looks;
        if (ready_.empty() && gathered_.empty() && running_.empty() && !std::exchange(stalled_, true))
          reserve_.stalled();
        break; // then again
      }
      fail(t, std::make_exception_ptr(no_memory(*t)));
      claim(t);
      finish(t);
      did = true;
      continue;
    }
    did = true;
    stalled_ = false;
    if (!(t->flags & task_record::acquired)) { // failed before it got anything
      claim(t);
      finish(t);
      continue;
    }
    ++preparing_;
    if (t->pending.fetch_sub(1, std::memory_order_acq_rel) == 1) {
      --preparing_;
      ready_.push_back(t);
    }
  }
  waiting_.erase(waiting_.begin(), waiting_.begin() + static_cast<std::ptrdiff_t>(n));
  if (allocated_ > reserve_.mark(device_->memory_limit()) / 2) { // as often as that can matter
    allocated_ = 0;
    if (!lost_) home_.copies().save_ahead(number_, reserve_);
  }
  return did;
}

void device_worker::claim(task_record* t) noexcept {
  if (!(t->flags & task_record::handled) || (t->flags & task_record::given)) return; // given: it has been claimed
  std::uint8_t expected = task_record::waiting;
  if (!t->state.compare_exchange_strong(expected, task_record::begun, std::memory_order_acq_rel))
    wait_until_failure_set(*t); // it has been cancelled
}

namespace {
/// Of the task's uses from number `first` on, each part once.
std::size_t bytes_of_uses(task_record& t, std::size_t first) noexcept {
  std::size_t bytes = 0;
  for (std::size_t i = first; i < t.use_count; ++i) {
    const use& u = t.use_at(i);
    bool again = false;
    for (std::size_t k = 0; k < i; ++k) again = again || (t.use_at(k).object == u.object && t.use_at(k).part == u.part);
    if (!again) bytes += static_cast<std::size_t>(u.part.size()) * u.object->element;
  }
  return bytes;
}
} // namespace

void device_worker::evict_for(task_record& t, std::size_t got) noexcept {
  eviction_ = {};
  eviction_.possible = bytes_of_uses(t, 0) <= device_->memory_limit();
  if (!eviction_.possible) return;
  coherence& copies = home_.copies();
  const coherence::eviction r = over_limit_
                                    ? copies.evict_one_of(*over_limit_, t, got)
                                    : copies.evict(number_, t, got, copies.bytes_lacking(t, got, number_), reserve_);
  eviction_.made = r.made;
  eviction_.in_use = r.in_use;
  eviction_.why = r.why;
  for (std::size_t i = 0; i < got && !eviction_.larger; ++i) {
    const use& u = t.use_at(i);
    const std::lock_guard hold(u.object->lock);
    eviction_.larger = !(u.object->instances[u.instance].where == u.part);
  }
}

// It fits, but what it has got so far are parts of larger copies: without those it gets copies of
// the parts alone.
void device_worker::evict_larger_copies(task_record& t) noexcept {
  const coherence::eviction r = home_.copies().evict(number_, t, 0, bytes_of_uses(t, 0), reserve_);
  eviction_.made = r.made;
  eviction_.in_use = r.in_use;
  eviction_.why = r.why;
}

error device_worker::no_memory(task_record& t) {
  if (over_limit_)
    return error(errc::unsupported,
                 std::string("task '") + t.text_name() + "' needs one more copy of a part of " + over_limit_->text() +
                     ", of which " + std::to_string(instances_most - 1) + " are in use on devices",
                 "use fewer parts of it at once, or several objects");
  std::size_t pinned = 0;
  resident_.each([&](object_state& o, std::size_t i) { pinned += o.instances[i].pinned ? o.instances[i].bytes : 0; });
  const std::size_t bytes = bytes_of_uses(t, 0);
  const std::string uses = std::string("task '") + t.text_name() + "' uses " + std::to_string(bytes) + " bytes on " +
                           home_.devices().info(number_).id;
  if (eviction_.why) {
    std::string text, hint;
    try {
      std::rethrow_exception(eviction_.why);
    } catch (const error& e) {
      text = e.message();
      hint = e.hint();
    } catch (const std::exception& e) {
      text = e.what();
    }
    return error(errc::out_of_memory,
                 uses + ", which has no room left for them: what is there cannot be saved: " + text,
                 hint.empty() ? "let its device keep it, and run the task elsewhere" : hint);
  }
  if (pinned == 0 && bytes <= device_->memory_limit()) // others than objects have it, or it is in pieces
    return error(errc::out_of_memory, uses + ", which has no room left for them",
                 "look for what else uses its memory, or run the task on the host (hetero-devices)");
  return error(errc::out_of_memory,
               uses + ", which has room for " + std::to_string(device_->memory_limit()) +
                   (pinned > 0 ? ", of which " + std::to_string(pinned) + " are pinned" : ""),
               std::string("cut it into smaller tasks with views, or run it on the host (hetero-devices)") +
                   (pinned > 0 ? ", or unpin what is not needed there" : ""));
}

} // namespace tern::hetero::detail
