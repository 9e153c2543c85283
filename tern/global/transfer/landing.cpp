// SPDX-License-Identifier: Apache-2.0
#include <tern/global/transfer/landing.hpp>

#include <cstdio>
#include <cstring>
#include <mutex>
#include <utility>

#include <tern/base/error.hpp>
#include <tern/global/coding/coder.hpp>
#include <tern/hetero/passage/landing.hpp>
#include <tern/net/memory/bounded_lock.hpp>
#include <tern/net/packing/packing.hpp>
#include <tern/task/fiber/ticks.hpp>
#include <tern/task/scheduler/scheduler_core.hpp>

namespace tern::global::detail {

/// A piece's memory, until it is in the object.
struct landing::piece final : hetero::detail::piece_request {
  void over(std::exception_ptr failed) noexcept override {
    const std::unique_ptr<piece> self(this);
    const std::shared_ptr<landing> to = std::move(of);
    body = {};
    to->landed(bytes, std::move(failed)); // what waits for the data goes first
    if (stage != 0)
      to->here_.post(to->origin_, pack(net::wire_header{landed_message().id(), 0, stage}), {.urgent = true});
    to->here_.message_done(h); // after the object has been counted
  }
  std::shared_ptr<landing> of;
  byte_buffer body;
  std::size_t bytes = 0; ///< of its elements
  net::wire_header h{};
  std::uint64_t stage = 0;
};

landing::landing(net::node& here, owner& tells, std::unique_ptr<hetero::detail::incoming> into, std::string what,
                 int origin, std::size_t bytes, std::uint8_t device)
    : here_(here), tells_(tells), into_(std::move(into)), what_(std::move(what)), origin_(origin), bytes_(bytes),
      since_(tern::detail::rough_ticks()), placed_(device != 0) {
  if (device != 0) into_->lands_on(device);
}

landing::landing(net::node& here, owner& tells, std::unique_ptr<data_sink> into, int origin, std::size_t bytes)
    : here_(here), tells_(tells), elsewhere_(std::move(into)), what_("what a global pointer names"), origin_(origin),
      bytes_(bytes), since_(tern::detail::rough_ticks()), placed_(false) {}

void landing::take_all(byte_buffer body, const net::wire_header& h) {
  if (body.size() != bytes_ || coded_ == coding::always)
    throw error(errc::invalid_data, "rank " + std::to_string(origin_) + " sent " + std::to_string(body.size()) +
                                        " bytes of data in place of " + std::to_string(bytes_) +
                                        (coded_ == coding::always ? " that are encoded" : ""));
  {
    const std::lock_guard hold(guard_);
    if (ended_) return here_.message_done(h); // it has been given up
    come_ = bytes_;
    if (placed_) {
      ++under_way_;
    } else {
      landed_ = bytes_;
      ended_ = true;
    }
  }
  if (placed_) return put(into_->cut(bytes_).at(0), std::move(body), h, 0); // on a device
  if (elsewhere_)
    elsewhere_->land(std::move(body));
  else
    into_->land(hetero::detail::own_memory(std::move(body)));
  tells_.ended(*this, false, false);
  here_.message_done(h);
}

// Takes long: in a fiber of its own. The message counts until the elements have landed.
void landing::decode(const hetero::detail::box& where, byte_buffer frame, const net::wire_header& h,
                     std::uint64_t stage) {
  here_.fibers().spawn(
      [self = shared_from_this(), where, h, stage, frame = hetero::detail::own_memory(std::move(frame))]() mutable {
        array_shape s = self->shape_;
        for (std::size_t d = 0; d < 3; ++d) s.extent[d] = static_cast<std::int32_t>(where.extent(d));
        byte_buffer elements;
        std::exception_ptr failed;
        try {
          elements = byte_buffer(s.bytes());
          coder::of(self->here_).decode(frame.bytes(), s, elements.bytes());
        } catch (const error& e) {
          failed = std::make_exception_ptr(
              error(e.code(), "from rank " + std::to_string(self->origin_) + ": " + e.message(), e.hint()));
        } catch (...) {
          failed = std::current_exception();
        }
        frame = {};
        if (!failed) return self->put(where, std::move(elements), h, stage);
        auto x = self->make_piece({}, s.bytes(), h, stage);
        x.release()->over(std::move(failed));
      },
      {.name = "data are decoded"});
}

void landing::take_piece(const piece_head& p, byte_buffer body, const net::wire_header& h) {
  if (p.each == 0) throw error(errc::invalid_data, "rank " + std::to_string(origin_) + " sent a piece of no size");
  if (elsewhere_) return take_piece_aside(p, std::move(body), h);
  const hetero::detail::slices cut = into_->cut(static_cast<std::size_t>(p.each));
  bool is_coded = false;
  {
    const std::lock_guard hold(guard_);
    const bool known = p.index == next_ && next_ < cut.count() && (each_ == 0 || each_ == p.each);
    const std::size_t bytes = known ? cut.bytes(static_cast<std::size_t>(p.index)) : 0;
    is_coded = coded_ == coding::always || (coded_ == coding::maybe && body.size() < bytes);
    if (!known || (!is_coded && body.size() != bytes)) throw bad_piece(p, body.size(), cut.count());
    ++next_;
    each_ = p.each;
    come_ += bytes;
    ++under_way_;
  }
  if (!std::exchange(placed_, true)) into_->lands_on(0);
  const hetero::detail::box where = cut.at(static_cast<std::size_t>(p.index));
  is_coded ? decode(where, std::move(body), h, p.stage) : put(where, std::move(body), h, p.stage);
}

// Whoever sends them says into how many they are cut: their sum is what counts.
void landing::take_piece_aside(const piece_head& p, byte_buffer body, const net::wire_header& h) {
  byte_buffer all, memory;
  const std::uint64_t stage = p.stage;
  if (p.index == 0) memory = byte_buffer(bytes_);
  {
    const std::lock_guard hold(guard_);
    const std::size_t size = body.size();
    if (ended_ || p.index != next_ || size == 0 || size > bytes_ - come_) throw bad_piece(p, size, 0);
    if (next_++ == 0) whole_ = std::move(memory);
    std::memcpy(whole_.data() + come_, body.data(), size);
    landed_ = come_ += size;
    ended_ = come_ == bytes_;
    if (ended_) all = std::move(whole_);
  }
  body = {};
  if (stage != 0) here_.post(origin_, pack(net::wire_header{landed_message().id(), 0, stage}), {.urgent = true});
  if (!all.empty()) {
    elsewhere_->land(std::move(all));
    tells_.ended(*this, false, false);
  }
  here_.message_done(h);
}

error landing::bad_piece(const piece_head& p, std::size_t bytes, std::size_t count) const {
  return error(errc::invalid_data, "rank " + std::to_string(origin_) + " sent piece " + std::to_string(p.index) +
                                       " of " + std::to_string(bytes) + " bytes, where piece " + std::to_string(next_) +
                                       (count == 0 ? "" : " of " + std::to_string(count)) + " was to come of " + what_);
}

std::unique_ptr<landing::piece> landing::make_piece(byte_buffer body, std::size_t bytes, const net::wire_header& h,
                                                    std::uint64_t stage) {
  auto x = std::make_unique<piece>();
  x->of = shared_from_this();
  x->body = std::move(body);
  x->bytes = bytes;
  x->h = h;
  x->stage = stage;
  return x;
}

void landing::put(const hetero::detail::box& where, byte_buffer body, const net::wire_header& h, std::uint64_t stage) {
  const std::size_t bytes = body.size();
  auto x = make_piece(std::move(body), bytes, h, stage);
  const std::byte* const from = x->body.data();
  into_->put(where, from, *x.release());
}

void landing::landed(std::size_t bytes, std::exception_ptr failed) noexcept {
  {
    const std::lock_guard hold(guard_);
    landed_ += bytes;
    --under_way_;
    if (failed && !failed_) failed_ = std::move(failed);
  }
  end();
}

void landing::fail(std::exception_ptr why) noexcept {
  {
    const std::lock_guard hold(guard_);
    if (!failed_) failed_ = std::move(why);
    stops_ = true;
  }
  end();
}

void landing::end() noexcept {
  bool bad = false;
  {
    const std::lock_guard hold(guard_);
    bad = static_cast<bool>(failed_);
    if (ended_ || under_way_ > 0 || (!stops_ && landed_ != bytes_)) return;
    ended_ = true;
  }
  bool on_device = false;
  if (elsewhere_)
    elsewhere_->fail(failed_); // what lands ends by itself
  else if (bad)
    into_->fail(failed_);
  else
    on_device = into_->landed();
  tells_.ended(*this, on_device, bad);
}

bool landing::begun() noexcept {
  const std::lock_guard hold(guard_);
  return come_ > 0;
}

std::string landing::describe() {
  std::size_t come = 0;
  {
    const auto hold = net::try_for_a_while(guard_);
    if (hold) come = landed_;
  }
  char age[32];
  std::snprintf(age, sizeof age, "%.1f s", here_.fibers().inside().seconds_since(since_));
  return what_ + " from rank " + std::to_string(origin_) + ": " + std::to_string(come) + " of " +
         std::to_string(bytes_) + " bytes in " + age +
         (room == part::waits ? ", which waits for room (--tern-global-landing)" : "");
}

} // namespace tern::global::detail
