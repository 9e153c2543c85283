// SPDX-License-Identifier: Apache-2.0
#include <tern/global/transfer/staging.hpp>

#include <algorithm>
#include <mutex>
#include <span>
#include <string>
#include <utility>

#include <tern/base/error.hpp>
#include <tern/net/packing/packing.hpp>

namespace tern::global::detail {

bool slot_supply::take(const staging& s) noexcept {
  const std::lock_guard hold(guard_);
  // What has not been asked for may hold slots for long: so it is the oldest that has been.
  const auto first = std::find_if(all_.begin(), all_.end(), [](const auto& x) {
    return x->asked_for_.load(std::memory_order_relaxed); // one that is missed here looks itself, later
  });
  const bool oldest = first != all_.end() && first->get() == &s && s.held_ == 0;
  if (used_ >= slots_of_rank && !oldest) return false;
  ++used_;
  return true;
}

void slot_supply::give_back() noexcept {
  std::vector<std::shared_ptr<staging>> waiting;
  {
    const std::lock_guard hold(guard_);
    const bool was_full = used_-- >= slots_of_rank;
    if (!was_full) return; // none waits for a slot but its own
    waiting = all_;
  }
  for (const auto& s : waiting) s->go_on();
}

void slot_supply::enter(const std::shared_ptr<staging>& s) {
  const std::lock_guard hold(guard_);
  all_.push_back(s);
}

void slot_supply::leave(const staging& s) noexcept {
  std::shared_ptr<staging> gone; // freed without the lock
  const std::lock_guard hold(guard_);
  const auto at = std::find_if(all_.begin(), all_.end(), [&](const auto& x) { return x.get() == &s; });
  if (at == all_.end()) return;
  gone = std::move(*at);
  all_.erase(at);
}

std::size_t slot_supply::used() noexcept {
  const std::lock_guard hold(guard_);
  return used_;
}

staging::staging(net::node& here, slot_supply& slots, hetero::detail::outgoing& data, bool verify,
                 std::function<void(std::exception_ptr)> over)
    : here_(here), supply_(slots), data_(data), verify_(verify), each_(piece_bytes(data.bytes())),
      cut_(data.cut(each_)), count_(cut_.count()), over_(std::move(over)) {
  for (slot& s : slots_) s.of = this;
}

void staging::begin(std::uint64_t number) {
  number_ = number;
  supply_.enter(shared_from_this());
  go_on();
}

void staging::send_to(int rank, std::uint64_t landing) noexcept {
  {
    const std::lock_guard hold(guard_);
    to_ = destination{rank, landing};
  }
  asked_for_.store(true, std::memory_order_relaxed);
  go_on();
  send_on();
}

void staging::give_up() noexcept {
  {
    const std::lock_guard hold(guard_);
    given_up_ = true;
    if (!failed_) failed_ = std::make_exception_ptr(error(errc::cancelled, "data that are not wanted"));
  }
  send_on();
}

void staging::go_on() noexcept {
  for (;;) {
    slot* s = nullptr;
    std::size_t i = 0;
    {
      const std::lock_guard hold(guard_);
      if (ended_ || failed_ || begun_ == count_ || begun_ - landed_ >= slots_.size() || !supply_.take(*this)) return;
      ++held_;
      i = begun_++;
      s = &slots_[i % slots_.size()];
      s->alive = shared_from_this();
      s->copied = false;
    }
    try {
      s->memory = here_.memory().take(cut_.bytes(i));
    } catch (...) {
      copied(*s, std::current_exception());
      return;
    }
    data_.copy_piece(cut_.at(i), s->memory.data(), *s);
  }
}

void staging::copied(slot& s, std::exception_ptr failed) noexcept {
  const std::shared_ptr<staging> self = std::move(s.alive); // perhaps the last
  bool all = false;
  {
    const std::lock_guard hold(guard_);
    if (failed && !failed_) failed_ = std::move(failed);
    all = ++copied_ == count_ && !failed_;
  }
  if (all) data_.release(); // writers need not wait for the wire. Before it can be sent, and all end
  {
    const std::lock_guard hold(guard_);
    s.copied = true;
  }
  send_on();
}

void staging::send_on() noexcept {
  const std::shared_ptr<staging> self = shared_from_this();
  for (;;) {
    byte_buffer body;
    destination to{};
    std::size_t i = 0;
    {
      const std::lock_guard hold(guard_);
      if (sending_ || ended_ || (!to_ && !given_up_)) return; // the other thread looks again
      if (failed_) {
        if (copied_ != begun_) return; // a copy is under way into a slot
        ended_ = true;
      } else {
        if (sent_ == begun_ || !slots_[sent_ % slots_.size()].copied) return;
        i = sent_;
        slot& s = slots_[i % slots_.size()];
        s.copied = false;
        body = std::move(s.memory);
        to = *to_;
        sending_ = true;
      }
    }
    if (body.empty()) return end(failed_);
    try {
      const piece_head p{number_, each_, i, verify_ ? checksum(body.bytes()) : 0};
      byte_buffer head = pack(net::wire_header{piece_message().id(), net::flag_range, to.landing}, p);
      here_.post(to.rank, std::move(head), body, {.urgent = true});
    } catch (const std::exception& e) {
      here_.fatal("a piece of a hetero_object for rank " + std::to_string(to.rank) + " cannot be sent: " + e.what());
    }
    const std::lock_guard hold(guard_);
    sending_ = false;
    ++sent_;
  }
}

void staging::landed() noexcept {
  const std::shared_ptr<staging> self = shared_from_this();
  bool all = false;
  {
    const std::lock_guard hold(guard_);
    ++landed_;
    --held_;
    all = landed_ == count_ && !ended_;
    ended_ = ended_ || all;
  }
  if (all) supply_.leave(*this); // first: another one is the oldest then, and is let go on
  supply_.give_back();
  if (all)
    end(nullptr);
  else
    go_on();
}

void staging::end(std::exception_ptr why) noexcept {
  supply_.leave(*this);
  std::size_t left = 0;
  {
    const std::lock_guard hold(guard_);
    left = std::exchange(held_, 0);
    for (slot& s : slots_) s.memory = {};
  }
  for (; left > 0; --left) supply_.give_back();
  std::exchange(over_, nullptr)(std::move(why)); // what it holds goes
}

} // namespace tern::global::detail
