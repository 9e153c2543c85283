// SPDX-License-Identifier: Apache-2.0
/// \file
/// Objects that are on disk because memory is short.
#include <tern/mobile/paging/pager.hpp>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <string_view>
#include <utility>

#include <tern/base/error.hpp>
#include <tern/base/log.hpp>
#include <tern/mobile/access/admission.hpp>
#include <tern/mobile/load/object_loads.hpp>
#include <tern/mobile/object/credit_keeper.hpp>
#include <tern/mobile/object/split_recorder.hpp>
#include <tern/net/job/settings.hpp>
#include <tern/net/message.hpp>
#include <tern/net/transport.hpp>

namespace tern::mobile {
namespace detail {
namespace {

// "512M"; empty: it is no such number.
std::optional<std::uint64_t> bytes_in(const std::string& text) {
  std::uint64_t n = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, bad] = std::from_chars(text.data(), end, n);
  if (bad != std::errc() || end - rest > 1) return {};
  constexpr std::string_view units = "KMGT";
  if (rest == end) return n;
  const std::size_t unit = units.find(static_cast<char>(std::toupper(static_cast<unsigned char>(*rest))));
  if (unit == units.npos) return {};
  const unsigned shift = 10 * (static_cast<unsigned>(unit) + 1);
  if (n > ~std::uint64_t{0} >> shift) return {};
  return n << shift;
}

option_check<std::string> amount() {
  return {[](const std::string& text) { return bytes_in(text).has_value(); },
          "a number of bytes, such as 4096, 512M or 16G"};
}

} // namespace
} // namespace detail

const option<std::string> memory_option{
    "mobile-memory", "0",
    "how many bytes of mobile objects each rank keeps in memory (512M, 16G): those beyond that, and not used lately, "
    "go to disk; 0: all",
    detail::amount()};
const option<std::string> directory_option{"mobile-directory", "",
                                           "where objects go that memory has no room for; empty: to $TMPDIR, or "
                                           "/var/tmp"};
const option<std::string> disk_option{"mobile-disk", "0",
                                      "how many bytes of objects each rank may put there (16G); 0: what the disk has",
                                      detail::amount()};

namespace detail {
namespace {

std::string directory_for(const options& opts) {
  if (const std::string& given = opts[directory_option]; !given.empty()) return given;
  const char* const usual = std::getenv("TMPDIR");
  return usual && *usual ? usual : "/var/tmp";
}

tern::detail::object_store::settings store_of(net::node& here) {
  tern::detail::object_store::settings s{.directory = directory_for(here.opts()),
                                         .most_bytes = *bytes_in(here.opts()[disk_option]),
                                         .inline_io = here.simulated(),
                                         .in_memory = here.simulated(),
                                         .usable = "give --tern-mobile-directory a directory that exists and may be "
                                                   "written to",
                                         .other_disk = "give --tern-mobile-directory another disk",
                                         .more_room = "give --tern-mobile-directory a directory with more room, or "
                                                      "raise --tern-mobile-memory"};
  if (here.simulated()) return s;
  // Where any of the rank's workers may run, and not only the first that writes.
  for (const auto& worker : net::resolve(here.opts(), here.wire()).cpus)
    s.cpus.insert(s.cpus.end(), worker.begin(), worker.end());
  std::sort(s.cpus.begin(), s.cpus.end());
  s.cpus.erase(std::unique(s.cpus.begin(), s.cpus.end()), s.cpus.end());
  return s;
}

constexpr auto patience = std::chrono::seconds(1); // until a full disk is tried again

} // namespace

pager::pager(rank_objects& objects, object_loads& loads, admission& access, router& routes)
    : objects_(objects), node_(objects.node()), loads_(loads), admission_(access), router_(routes),
      limit_(*bytes_in(node_.opts()[memory_option])), store_(store_of(node_), "rank " + std::to_string(objects.rank())),
      in_memory_(objects.bytes_in_memory()) {
  if (limits()) objects_.attend(rank_objects::to_memory);
}

byte_buffer pager::copy_of(const entry& e) { return store_.read(*e.known().disk); }

void pager::want(entry& e) {
  {
    const std::lock_guard hold(guard_);
    wanted_.push_back(&e);
    waiting_ = wanted_.size();
  }
  go_on();
}

void pager::look_again(bool room) {
  if (room) {
    ++news_;
    if (stuck_) stuck_ = false;
  }
  if (waiting_ > 0 || in_memory_ > static_cast<std::int64_t>(limit_)) go_on();
}

// Under the guard. Some of what is wanted next is made room for at once, so that reading and
// writing overlap.
bool pager::needs_room() const noexcept {
  if (!limits()) return false;
  std::uint64_t ahead = 0;
  for (std::size_t i = 0; i < wanted_.size() && (i == 0 || ahead < limit_ / 4); ++i) ahead += wanted_[i]->known().bytes;
  return in_memory_ - static_cast<std::int64_t>(leaving_) + static_cast<std::int64_t>(ahead) >
         static_cast<std::int64_t>(limit_);
}

void pager::go_on() {
  const tern::detail::causal_scope no_context(nullptr); // what waits for an object counts by itself
  for (;;) {
    entry* back = nullptr;
    {
      const std::lock_guard hold(guard_);
      if (stopped_) return;
      const bool fits =
          !wanted_.empty() && (!limits() || in_memory_ + static_cast<std::int64_t>(wanted_[0]->known().bytes) <=
                                                static_cast<std::int64_t>(limit_));
      const bool alone = reading_ == 0 && writing_ == 0 && (stuck_ || is_full());
      if (!wanted_.empty() && reading_ < most_reading && (fits || alone)) {
        back = wanted_.front();
        wanted_.pop_front();
        waiting_ = wanted_.size();
        ++reading_;
        in_memory_ += static_cast<std::int64_t>(back->known().bytes);
      } else if (writing_ < most_writing && !stuck_ && needs_room() && !is_full()) {
        ++writing_;
      } else {
        return;
      }
      ++fibers_;
    }
    node_.parked({}); // quiesce and the job's end wait for it
    if (back)
      node_.fibers().spawn([this, back] { bring_back(*back); }, {.name = "object from disk"});
    else
      node_.fibers().spawn([this] { make_room(); }, {.name = "objects to disk"});
  }
}

void pager::make_room() {
  std::uint64_t bytes = 0; // that have been written
  for (;;) {
    {
      const std::lock_guard hold(guard_);
      leaving_ -= std::exchange(bytes, 0);
      if (!needs_room() || stuck_) break;
    }
    const std::uint64_t before = news_;
    entry* const e = find_idle();
    if (!e) {
      stuck_ = true;
      if (news_ != before) stuck_ = false; // the thread that made the news may have seen it unset
      break;
    }
    bytes = e->known().bytes; // it is ours until it is out
    {
      const std::lock_guard hold(guard_);
      leaving_ += bytes;
    }
    try {
      swap_out(*e);
    } catch (const error& x) {
      if (x.code() == errc::io)
        cannot_write(x);
      else
        log_warning(std::string("an object stays in memory: ") + x.what());
    } catch (const std::exception& x) { // of the program, which packs
      log_warning(std::string("an object stays in memory: ") + x.what());
    } catch (...) {
      log_warning("an object stays in memory, whose packing throws something that is no exception");
    }
    go_on();
  }
  {
    const std::lock_guard hold(guard_);
    leaving_ -= bytes;
    --writing_;
  }
  go_on();
  node_.message_done({});
  end_fiber();
}

bool pager::is_full() const noexcept {
  return fiber_clock::now().time_since_epoch().count() < full_until_.load(std::memory_order_relaxed);
}

// Nothing is lost: what does not get there stays in memory, beyond the limit.
void pager::cannot_write(const std::exception& e) {
  full_until_ = (fiber_clock::now() + patience).time_since_epoch().count();
  const std::lock_guard hold(guard_);
  if (!std::exchange(reported_full_, true))
    log_error("objects stay in memory beyond --tern-mobile-memory, and the job goes on: " + std::string(e.what()));
}

// Twice round at most: the first time, those that were used lately are spared. \return null: none
// can go now.
entry* pager::find_idle() {
  const std::lock_guard one_at_a_time(looking_);
  if (is_full()) return nullptr;
  for (std::size_t n = 0; n <= 2 * shard_count; ++n) {
    shard& s = objects_.shards()[shard_];
    {
      const std::lock_guard hold(s.lock);
      if (entry* const e = find_idle(s)) return e;
    }
    shard_ = (shard_ + 1) % shard_count;
    slot_ = 0;
  }
  return nullptr;
}

// From where the last look ended to the shard's end.
entry* pager::find_idle(shard& s) {
  while (slot_ < s.entries.capacity()) {
    entry* const e = s.entries.at(slot_++);
    if (!e || !e->is_idle() || e->known().bytes == 0) continue;
    if (std::exchange(e->used, false)) continue;
    e->at = entry::place::leaving;
    return e;
  }
  return nullptr;
}

// In a simulation a disk is as slow as elsewhere; or nothing would ever come meanwhile.
void pager::take_time() const {
  if (node_.simulated()) this_fiber::sleep_for(std::chrono::microseconds(50));
}

void pager::serve(entry& e, const invocation& request) {
  const type_record& type = *e.type; // the object may end as soon as it is out
  const object_id id = e.id;
  const int origin = request.to.origin();
  const std::uint64_t reply = request.header.reply;
  try {
    swap_out(e);
    if (reply) net::detail::post_answer(node_, origin, reply);
  } catch (...) {
    node_.reply_error(origin, reply, std::current_exception(),
                      describe_invocation(request.what->name(), id, type.name));
  }
}

void pager::swap_out(entry& e) {
  shard& s = objects_.shard_of(e.id);
  const type_record& type = *e.type;
  s.lock.lock();
  extra_state& x = e.extra();
  s.lock.unlock();
  byte_buffer state;
  bool holds_credit = false; // of counted references
  // It stays here: what it was packed to is worth nothing, but for the credit.
  const auto stay = [&] {
    if (holds_credit) {
      forget(std::exchange(x.disk, {}));
      try {
        type.destroy(type.unpack(state));
      } catch (const std::exception& why) {
        log_warning("objects that " + type.name + " " + to_string(e.id) +
                    " refers to live until the job ends: " + why.what());
      }
    }
    router_.cancel_move(e, 0);
  };
  try {
    if (!type.pack)
      throw error(errc::unsupported, "objects of class " + type.name + " cannot be put on disk", how_to_serialize);
    const std::uint64_t before = objects_.splits();
    split_recorder given(split_recorder::gives::parts);
    try {
      state = type.pack(e.object);
    } catch (...) {
      const std::lock_guard hold(s.lock);
      objects_.count_bytes(e, 0); // the clock passes it by until it has changed
      throw;
    }
    holds_credit = objects_.splits() != before;
    auto credits = given.take();
    x.credit_on_disk = credits.empty() ? nullptr : std::make_unique<split_recorder::credits>(std::move(credits));
    if (!x.disk || holds_credit || !store_.is_same(*x.disk, state)) { // else it is as it was when it was there
      forget(std::exchange(x.disk, {}));
      take_time();
      x.disk = write(state);
    }
  } catch (...) {
    stay();
    throw;
  }
  void* old = nullptr;
  {
    const std::lock_guard hold(s.lock);
    if (e.waiting.empty() && !e.has_moves() && (!e.travel || e.travel->held.empty()))
      old = std::exchange(e.object, nullptr);
  }
  if (!old) return stay(); // it is wanted
  type.destroy(old);
  deferred_actions then(&e);
  {
    const std::lock_guard hold(s.lock);
    e.at = entry::place::stored;
    in_memory_ -= static_cast<std::int64_t>(x.bytes);
    router_.release_held(e, then);
    admission_.admit_waiting(e, then);
  }
  objects_.perform(then);
}

tern::detail::stored pager::write(std::span<const std::byte> bytes) {
  try {
    return store_.write(bytes);
  } catch (const error& e) {
    if (e.code() != errc::io || !drop_copies()) throw;
  }
  return store_.write(bytes);
}

// Of objects that are in memory: they save writing them again, if there is room. \return whether
// there were any.
bool pager::drop_copies() {
  bool any = false;
  for (std::size_t n = 0; n < shard_count; ++n) {
    shard& s = objects_.shards()[n];
    std::vector<tern::detail::stored> copies;
    {
      const std::lock_guard hold(s.lock);
      for (std::size_t i = 0; i < s.entries.capacity(); ++i)
        if (entry* const e = s.entries.at(i); e && e->at == entry::place::here && e->known().disk)
          copies.push_back(*std::exchange(e->extras->disk, {}));
    }
    for (const auto& one : copies) store_.drop(one);
    any = any || !copies.empty();
  }
  return any;
}

void pager::bring_back(entry& e) {
  net::node& here = node_;
  void* object = nullptr;
  std::exception_ptr why;
  try {
    take_time();
    const byte_buffer state = store_.read(*e.known().disk);
    credit_keeper credits; // if that fails, the same bytes are unpacked again
    object = e.type->unpack(state);
    for (const auto& [id, credit] : credits.take()) router_.return_credit(id, credit);
  } catch (...) {
    why = std::current_exception();
  }
  deferred_actions then(&e);
  invocation_list failed;
  const object_id id = e.id;
  const std::string& type = e.type->name;
  {
    const std::lock_guard hold(objects_.shard_of(id).lock);
    if (why) { // it is still there for what comes next
      e.at = entry::place::stored;
      in_memory_ -= static_cast<std::int64_t>(e.known().bytes);
      loads_.set(e, 0);
      failed = std::move(e.waiting);
      if (e.travel) failed.append(std::move(e.travel->moves));
    } else {
      e.object = object;
      e.at = entry::place::here;
      e.used = true;
      admission_.admit_waiting(e, then);
    }
  }
  objects_.perform(then);
  while (!failed.empty()) {
    const auto one = failed.pop();
    const tern::detail::held_context on = std::move(one->on);
    const tern::detail::causal_scope in(on.get());
    here.reply_error(one->to.origin(), one->header.reply, why, describe_invocation(one->what->name(), id, type));
    if (one->what->discard) one->what->discard(one->message);
    here.refused(one->source, one->header, one->what->name());
  }
  {
    const std::lock_guard hold(guard_);
    --reading_;
  }
  look_again();
  go_on();
  here.message_done({});
  end_fiber();
}

void pager::end_fiber() noexcept {
  tern::detail::waiter_list over;
  {
    const std::lock_guard hold(guard_);
    if (--fibers_ == 0)
      while (tern::detail::waiter* const w = settling_.pop()) over.push(*w);
  }
  while (tern::detail::waiter* const w = over.pop()) w->wake();
}

void pager::settle() {
  guard_.lock();
  stopped_ = true;
  if (fibers_ == 0) return guard_.unlock();
  tern::detail::waiter self({tern::detail::wait_kind::other, this});
  settling_.push(self);
  self.wait(guard_);
}

void pager::resume() noexcept {
  const std::lock_guard hold(guard_);
  wanted_.clear();
  waiting_ = 0;
  stopped_ = false;
}

} // namespace detail

} // namespace tern::mobile
