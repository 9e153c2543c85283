// SPDX-License-Identifier: Apache-2.0
#include <tern/mobile/mail/own_line.hpp>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <exception>
#include <new>
#include <string>
#include <utility>

#include <tern/mobile/mail/mailbox.hpp>
#include <tern/net/memory/lent_buffer.hpp>
#include <tern/task/fiber.hpp>
#include <tern/task/polling/polling_fiber.hpp>
#include <tern/task/scheduler/scheduler_core.hpp>
#include <tern/task/worker/activation_queue.hpp>

namespace tern::mobile::detail {
namespace {

constexpr double line_slice_seconds = 20e-6;
constexpr int most_between_clocks = 8; // messages
constexpr std::size_t most_spare_chunks = 4;
constexpr int most_line_yields = 16, most_line_sleeps = 20; // of a sender, each time
constexpr std::chrono::microseconds line_sleep{50};

// The bytes lie in the mail, which stays until the handler has returned.
struct memory_of_line final : byte_lender {
  void take_back(std::byte*) noexcept override {}
} memory_of_lined_mail;

} // namespace

inline near_record* own_line::front() noexcept {
  return read_ == write_ ? nullptr : std::launder(reinterpret_cast<near_record*>(read_));
}

inline void own_line::pop(const near_record& first) noexcept {
  read_ += first.bytes;
  --waiting_;
  if (read_ == write_)
    read_ = write_ = chunks_.back()->data; // the only one
  else if (read_ == chunks_.front()->end) [[unlikely]]
    pass_chunk();
}

/// Queued, or its fiber delivers: nothing else need be done for what is put.
struct own_line::line_ticket final : tern::detail::activation {
  explicit line_ticket(own_line& l) noexcept
      : activation([](activation& a) noexcept { static_cast<line_ticket&>(a).of.deliver(); },
                   [](activation& a) noexcept { static_cast<line_ticket&>(a).of.end_delivery(); }),
        of(l) {
    level = static_cast<std::uint8_t>(priority::normal);
  }
  own_line& of;
};

own_line::own_line(net::node& here)
    : node_(here), in_use_(here.may_line_up()), slice_(tern::detail::ticks_in(line_slice_seconds)),
      ticket_(std::make_unique<line_ticket>(*this)) {}

own_line::~own_line() = default; // `clear` comes before

// Where the next record is to stand. What was never used takes no memory.
bool own_line::grow() noexcept {
  try {
    chunks_.reserve(chunks_.size() + 1);
    std::unique_ptr<chunk> next;
    if (spare_.empty()) {
      next.reset(new chunk);
    } else {
      next = std::move(spare_.back());
      spare_.pop_back();
    }
    next->end = nullptr;
    if (chunks_.empty())
      read_ = next->data;
    else
      chunks_.back()->end = write_;
    write_ = next->data;
    end_ = write_ + chunk::room;
    chunks_.push_back(std::move(next));
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

// All of the first one has been read. Its last record may be looked at until something is put.
void own_line::pass_chunk() noexcept {
  if (spare_.size() == most_spare_chunks) spare_.erase(spare_.begin());
  try {
    spare_.push_back(std::move(chunks_.front()));
  } catch (const std::bad_alloc&) {
    return node_.fatal("no memory for messages of the rank to itself");
  }
  chunks_.erase(chunks_.begin());
  read_ = chunks_.front()->data;
}

void own_line::start() noexcept {
  queued_ = true;
  node_.fibers().inside().activations.ready(*ticket_, 0, true);
}

void own_line::put(object_id object, std::span<const std::byte> message, byte_buffer&& body) {
  auto m = std::make_unique<mail>();
  if (message.size() <= mail::near_bytes) {
    m->size = static_cast<std::uint32_t>(message.size());
    std::memcpy(m->near.data(), message.data(), message.size());
  } else {
    m->large = byte_buffer::copy_of(message);
  }
  net::wire_header h;
  std::memcpy(&h, message.data(), sizeof h);
  m->level = static_cast<std::uint8_t>(net::priority_of(h.flags));
  const std::size_t bytes = message.size() + body.size();
  node_.line_up(); // before it can be done
  m->on = node_.hold_account();
  mail* const one = m.get();
  std::byte* const at = place(object, nullptr, sizeof one, bytes);
  if (!at) {
    node_.leave_line();
    throw std::bad_alloc();
  }
  std::memcpy(at, &one, sizeof one);
  m.release()->body = std::move(body);
}

void own_line::clear() noexcept {
  while (near_record* const r = front()) {
    if (!r->run) {
      mail* m = nullptr;
      std::memcpy(&m, r->arguments(), sizeof m);
      delete m;
    }
    pop(*r);
  }
}

// Delivering ----------------------------------------------------------------------------------------------------------

line_delivery::line_delivery(own_line& from, tern::detail::worker& w, tern::detail::activation_fiber& pieces) noexcept
    : line_(from), worker_(w), pieces_(pieces), begun_(w.last_tick), looked_(begun_) {}

near_record* line_delivery::next(near_function same, const tern::detail::fiber_name& name) noexcept {
  if (running_ && !end_piece()) return nullptr;
  near_record* const r = line_.front();
  if (!r || r->run != same) return nullptr;
  line_.pop(*r);
  if (began_ == same) [[likely]]
    pieces_.repeat(worker_);
  else
    pieces_.begin(worker_, name);
  began_ = same;
  running_ = true;
  return r;
}

// \return whether this fiber still delivers, and another one may run here.
bool line_delivery::end_piece() noexcept {
  running_ = false;
  if (!pieces_.end_piece()) [[unlikely]] { // another fiber delivers, or did
    line_.node_.handled(1);
    return mine_ = false;
  }
  ++line_.done_;
  return goes_on();
}

inline bool line_delivery::goes_on() noexcept {
  if (over_ || --until_look_ > 0) return !over_;
  // The clock costs as much as a small handler: looked at after as many as take little time, as is
  // whether other fibers want to run.
  const std::int64_t now = tern::detail::ticks();
  between_looks_ = now - looked_ < line_.slice_ / 16 ? std::min(2 * between_looks_, most_between_clocks) : 1;
  until_look_ = between_looks_;
  looked_ = now;
  over_ = now - begun_ > line_.slice_ || worker_.has_ready_fiber() || worker_.after_poll;
  return !over_;
}

// A message of any kind, as it would arrive.
bool line_delivery::deliver_mail() noexcept {
  mail* first = nullptr;
  {
    near_record* const r = line_.front();
    std::memcpy(&first, r->arguments(), sizeof first);
    line_.pop(*r);
  }
  net::node& here = line_.node_;
  {
    const std::unique_ptr<mail> m(first);
    net::wire_header h;
    std::memcpy(&h, m->message().data(), sizeof h);
    const net::handler_record& handler = net::handler_table::at(h.handler);
    // One that is not urgent gets a fiber of its priority.
    const net::handler_entry direct =
        m->level > static_cast<std::uint8_t>(priority::normal) ? nullptr : handler.direct();
    try {
      net::payload message;
      if (m->size > 0)
        message.bytes = byte_buffer::borrow(m->near.data(), m->size, memory_of_lined_mail);
      else
        message.bytes = std::move(m->large);
      message.in_place = m->size > 0;
      message.body = std::move(m->body);
      if (direct) {
        pieces_.begin(worker_, handler.label());
        began_ = nullptr;
        running_ = true;
      }
      const tern::detail::causal_scope in(m->on.get());
      (direct ? direct : handler.entry())(here, here.rank(), h, message);
    } catch (const std::exception& x) {
      here.fatal(std::string("a message could not be handled: ") + x.what());
    }
    m->on.reset(); // before it counts as done: nothing is sent after the last has been
  }
  if (running_) return end_piece();
  mine_ = tern::detail::activation_fiber::may_continue();
  return mine_ && goes_on();
}

void own_line::deliver() noexcept {
  tern::detail::activation_fiber pieces;
  line_delivery here(*this, *tern::detail::this_worker(), pieces);
  while (near_record* const first = front()) {
    if (first->run)
      first->run(here);
    else
      here.deliver_mail();
    if (!here.mine_) return; // another fiber does, or did
    if (here.over_) break;
  }
  end_delivery();
}

// By the fiber that delivers; or by its worker, if it waits.
void own_line::end_delivery() noexcept {
  settle();
  queued_ = false;
  if (read_ != write_) start();
}

void own_line::settle() noexcept {
  if (fresh_ > 0) node_.lined_up(std::exchange(fresh_, 0), std::exchange(fresh_bytes_, 0));
  if (done_ > 0) node_.handled(std::exchange(done_, 0));
}

// Not until there is room: handlers that all send what others wait for would wait for each other.
void own_line::wait_a_little() {
  if (!scheduler::in_fiber() || net::detail::releasing()) return;
  for (int i = 0; i < most_line_yields && waiting_ > most_waiting; ++i) this_fiber::yield();
  for (int i = 0; i < most_line_sleeps && waiting_ > most_waiting; ++i) this_fiber::sleep_for(line_sleep);
}

} // namespace tern::mobile::detail
