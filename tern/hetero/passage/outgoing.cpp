// SPDX-License-Identifier: Apache-2.0
#include <tern/hetero/passage/outgoing.hpp>

#include <memory>
#include <mutex>
#include <new>
#include <source_location>
#include <utility>

#include <tern/hetero/graph/runtime.hpp>
#include <tern/hetero/passage/at_once.hpp>

namespace tern::hetero::detail {
namespace {

/// Lends an object's memory while its task holds it.
class part_lender final : public byte_lender {
public:
  explicit part_lender(task_record* held) noexcept : held_(held) {}
  void take_back(std::byte*) noexcept override {
    release_access(held_);
    delete this;
  }
  bool read_only() const noexcept override { return true; }
  bool waits() const noexcept override { return true; }

private:
  task_record* const held_;
};

struct holding {
  access_request* tells; // null: it has been told
};

const work_type holding_work{kinds_of(device_kind::host),
                             [](task_record& t) {
                               std::exchange(t.work_as<holding>().tells, nullptr)->granted(&t, {nullptr, 0, 0});
                             },
                             [](task_record& t) noexcept { // it was not run
                               if (access_request* const tells = t.work_as<holding>().tells) tells->refused(t.failure);
                             },
                             nullptr, [](const task_record&) noexcept -> const char* { return "outgoing data"; }};

} // namespace

outgoing::outgoing(object_state* handle, const box& part, bool gives, bool to_host) noexcept
    : object_(handle), part_(part), bytes_(static_cast<std::size_t>(part.size()) * handle->element),
      gives_(gives && may_be_given(*handle, part)), stays_(!to_host && !handle->paged && !handle->other) {}

outgoing::~outgoing() {
  if (held_) release();
  if (object_) drop_handle(object_);
}

bool outgoing::begin(listener& tells) {
  listener_ = &tells;
  // One that is given away has no other user: it is written, so that all that reads it has ended.
  if (stays_)
    hold(false);
  else
    request_access(object_, part_, gives_ ? access_mode::read_write : access_mode::read, this,
                   std::source_location::current(), true);
  return is_answered();
}

bool outgoing::begin_anywhere(listener& tells) {
  listener_ = &tells;
  if (stays_)
    hold(true);
  else
    request_access_anywhere(object_, part_, gives_ ? access_mode::read_write : access_mode::read, this,
                            std::source_location::current());
  return is_answered();
}

bool outgoing::is_answered() noexcept {
  int expected = beginning;
  // acq_rel: what the answer wrote is visible here; and `listener_` there.
  return !state_.compare_exchange_strong(expected, telling, std::memory_order_acq_rel);
}

// Ordered as an access, but nothing is brought to the host.
void outgoing::hold(bool anywhere) {
  static_assert(task_record::fits<holding>);
  runtime& r = object_->home;
  task_record* const t = r.records().allocate();
  ::new (static_cast<void*>(t->closure)) holding{this};
  t->home = &r;
  t->work = &holding_work;
  t->kinds = holding_work.kinds;
  t->flags = task_record::hidden | task_record::waits_release | task_record::order_only;
  r.records().add_use(t) = {object_,
                            part_,
                            gives_ ? access_mode::read_write : access_mode::read,
                            0,
                            part_ == object_->all,
                            true,
                            false,
                            false,
                            static_cast<std::int32_t>(object_->host_layout.pitch / object_->element),
                            nullptr};
  if (!anywhere) return r.request(t, true);
  bool wide = false;
  if (!r.give_place(t, wide)) return;
  task_record* const ready = r.execution().make_ready(t, true);
  if (!ready) return;
  if (ready->sound())
    holding_work.run(*ready); // it ends when it is released: no fiber runs it meanwhile
  else
    r.execution().push_to_host(ready);
}

// Where the data are, now that nothing writes them.
void outgoing::look() noexcept {
  bool here = true, there = true, lost = false;
  {
    const std::lock_guard lock(object_->lock);
    object_->each(part_, [&](const fragment& f) {
      here = here && (f.valid & bit(0));
      there = there && f.valid != 0;
      lost = lost || f.lost;
    });
  }
  if (!there)
    failure_ = not_written_error(*held_, *object_, part_, lost);
  else if (here)
    where_ = place_on_host(*object_, part_);
  else
    in_pieces_ = true;
}

void outgoing::granted(task_record* t, const host_place& where) noexcept {
  held_ = t;
  where_ = where;
  if (stays_) look();
  if (failure_) release();
  answer();
}

void outgoing::refused(std::exception_ptr why) noexcept {
  failure_ = std::move(why);
  answer();
}

void outgoing::answer() noexcept {
  int expected = beginning;
  if (!state_.compare_exchange_strong(expected, answered, std::memory_order_acq_rel)) listener_->answered(*this);
}

void outgoing::release() noexcept { release_access(std::exchange(held_, nullptr)); }

bool outgoing::in_one_piece() const noexcept {
  const auto row = part_.extent(2), rows = part_.extent(1), slices = part_.extent(0);
  return (rows == 1 && slices == 1) || (where_.pitch == row && (slices == 1 || where_.slice == row * rows));
}

void outgoing::copy_piece_to(const box& piece, std::byte* to) const noexcept {
  const layout& all = object_->host_layout;
  copy_part(piece, where_.address + all.offset(part_, piece), all, to, layout::packed(piece, object_->element));
}

void outgoing::copy_to(std::byte* to) const noexcept { copy_piece_to(part_, to); }

byte_buffer outgoing::take() {
  if (gives_) return give();
  if (in_one_piece()) {
    auto lender = std::make_unique<part_lender>(held_);
    held_ = nullptr;
    return byte_buffer::borrow(where_.address, bytes_, *lender.release());
  }
  byte_buffer packed(bytes_);
  copy_to(packed.data());
  release();
  return packed;
}

byte_buffer outgoing::give() {
  byte_buffer all = take_memory_of(*object_);
  release();
  return all;
}

} // namespace tern::hetero::detail
