// SPDX-License-Identifier: Apache-2.0
#include <tern/global/transfer/staging.hpp>

#include <algorithm>
#include <mutex>
#include <span>
#include <string>
#include <utility>

#include <tern/base/error.hpp>
#include <tern/global/codec/chunks.hpp>
#include <tern/global/coding/coder.hpp>
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

staging::staging(net::node& here, slot_supply& slots, hetero::detail::outgoing& data, bool verify, piece_coding coding,
                 std::function<void(std::exception_ptr)> over)
    : here_(here), supply_(slots), data_(data), verify_(verify), coding_(std::move(coding)),
      each_(coding_.by ? array_chunks(coding_.shape, piece_bytes(data.bytes())).each() : piece_bytes(data.bytes())),
      cut_(data.cut(each_)), count_(cut_.count()), over_(std::move(over)),
      plan_(!coding_.by             ? plan::raw
            : coding_.by->decides() ? plan::undecided
                                    : plan::encodes) {
  for (slot& s : slots_) s.of = this;
  if (coding_.asked) decide(coding_.known);
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
    if (plan_ == plan::undecided) decide(coder::of(here_).ask(*coding_.by, coding_.shape, {rank, way::staged}));
  }
  asked_for_.store(true, std::memory_order_relaxed);
  go_on();
  prepare();
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
      s->piece = i;
      s->state = slot::filling;
    }
    if (!data_.in_pieces()) {
      in_a_fiber(&staging::copy_from_host, *s, "data are copied");
      continue;
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

void staging::copy_from_host(slot& s) noexcept {
  std::exception_ptr failed;
  try {
    s.memory = here_.memory().take(cut_.bytes(s.piece));
    data_.copy_piece_to(cut_.at(s.piece), s.memory.data());
  } catch (...) {
    failed = std::current_exception();
  }
  copied(s, std::move(failed));
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
    s.state = slot::filled;
  }
  prepare();
  send_on();
}

void staging::decide(codec_advice::answer a) noexcept {
  plan_ = a == codec_advice::answer::sample ? plan::samples : plan::raw;
}

void staging::prepare() noexcept {
  for (slot& s : slots_) {
    bool samples = false;
    {
      const std::lock_guard hold(guard_);
      if (s.state != slot::filled || ended_ || failed_) continue;
      if (plan_ == plan::raw) s.state = slot::ready;
      samples = plan_ == plan::samples && to_ && s.piece == 0;
      if (samples) plan_ = plan::asks;
      if (!samples && plan_ != plan::encodes) continue;
      if (!samples) s.state = slot::at_work;
      ++working_;
    }
    in_a_fiber(samples ? &staging::sample : &staging::encode, s, "data are encoded");
  }
}

// Takes long, and may be called where messages arrive.
void staging::in_a_fiber(step what, slot& s, const char* name) noexcept {
  try {
    here_.fibers().spawn([self = shared_from_this(), what, &s] { (self.get()->*what)(s); }, {.name = name});
  } catch (...) { // no memory for a fiber: then here
    (this->*what)(s);
  }
}

array_shape staging::shape_of_piece(std::size_t i) const noexcept {
  const hetero::detail::box b = cut_.at(i);
  array_shape s = coding_.shape;
  for (std::size_t d = 0; d < 3; ++d) s.extent[d] = static_cast<std::int32_t>(b.extent(d));
  return s;
}

// The first piece's slot stays filled meanwhile.
void staging::sample(slot& first) noexcept {
  plan found = plan::raw;
  std::exception_ptr failed;
  try {
    coder& codes = coder::of(here_);
    const array_shape s = shape_of_piece(0);
    const codec_advice::route to{to_->rank, data_.in_pieces() ? way::staged : way::memory};
    const double left = codes.sample(*coding_.by, s, first.memory.bytes());
    const auto of = coder::element_of(*coding_.by, s);
    if (codes.advice([&](codec_advice& a) { return a.pays(to, of, left); })) found = plan::encodes;
  } catch (...) { // what the codec cannot do for a part it cannot do for the whole
    failed = std::current_exception();
  }
  {
    const std::lock_guard hold(guard_);
    if (failed && !failed_) failed_ = std::move(failed);
    plan_ = found;
    --working_;
  }
  prepare();
  send_on();
}

void staging::encode(slot& s) noexcept {
  std::exception_ptr failed;
  try {
    byte_buffer frame = coder::of(here_).encode(*coding_.by, shape_of_piece(s.piece), s.memory.bytes());
    const bool may_be_raw = coding_.by->lossless() || coding_.by->decides();
    if (!may_be_raw || frame.size() < s.memory.size()) s.memory = std::move(frame);
  } catch (...) {
    failed = std::current_exception();
  }
  {
    const std::lock_guard hold(guard_);
    if (failed && !failed_) failed_ = std::move(failed);
    s.state = slot::ready;
    --working_;
  }
  send_on();
}

// All have landed.
void staging::measure() noexcept {
  if (!coding_.by || !coding_.by->decides()) return;
  const double took = seconds_since(since_);
  const codec_advice::route to{to_->rank, data_.in_pieces() ? way::staged : way::memory};
  coder::of(here_).advice([&](codec_advice& a) {
    if (plan_ == plan::raw)
      a.sent(to, data_.bytes(), took);
    else
      a.sent_encoded(to, coder::element_of(*coding_.by, coding_.shape), data_.bytes(), took);
  });
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
        if (copied_ != begun_ || working_ > 0) return; // a copy is under way into a slot, or a slot's is encoded
        ended_ = true;
      } else {
        if (sent_ == begun_ || slots_[sent_ % slots_.size()].state != slot::ready) return;
        i = sent_;
        slot& s = slots_[i % slots_.size()];
        s.state = slot::filling;
        if (i == 0) since_ = fiber_clock::now();
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
  if (!all) return go_on();
  measure();
  end(nullptr);
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
