// SPDX-License-Identifier: Apache-2.0
#include <tern/net/collective/collective.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <mutex>
#include <typeinfo>
#include <utility>

#include <tern/base/error.hpp>
#include <tern/base/language/hash.hpp>
#include <tern/base/log.hpp>
#include <tern/net/collective/collective_table.hpp>
#include <tern/net/node.hpp>
#include <tern/net/rank/ranges.hpp>

namespace tern::net::detail {
namespace {

constexpr std::chrono::milliseconds long_wait{500};
constexpr const char* advice =
    "all ranks must call the same collectives, with the same types and roots, in the same order";

// Never empty once there is one kind; written before `main` and while libraries are loaded.
std::atomic<const collective_kind*>& newest_kind() {
  static std::atomic<const collective_kind*> newest{nullptr};
  return newest;
}

std::string in_words(const std::source_location& where) {
  return std::string(where.file_name()) + ":" + std::to_string(where.line());
}

posting posting_of(bool detects) { return {.counted = false, .urgent = true, .part = !detects}; }

// The runtime's own handlers. They run in the polling context and must not wait.
struct collective_tag {};
struct enquiry_tag {};
const handler_record part_record{typeid(collective_tag), "tern collective", __FILE__,
                                 [](node& here, int source, const wire_header& h, payload& message) {
                                   const bool part = (h.flags & flag_detects) == 0;
                                   here.collectives().take(source, std::move(message));
                                   if (part) here.counters().add(here.worker_here(), message_counters::parts_taken);
                                 },
                                 true};
const handler_record enquiry_record{typeid(enquiry_tag), "tern enquiry", __FILE__,
                                    [](node& here, int source, const wire_header&, payload& message) {
                                      here.collectives().answer(source, message.bytes);
                                    },
                                    true};

std::string of_communicator(const std::string& name) {
  return name.empty() ? std::string() : " of communicator '" + name + "'";
}

} // namespace

// Kinds ---------------------------------------------------------------------------------------------------------------

collective_kind::collective_kind(std::string text, bool detects)
    : text_(std::move(text)), number_(tern::detail::hash_of(text_)), detects_(detects) {
  auto& newest = newest_kind();
  next_ = newest.load(std::memory_order_relaxed);
  // release: pairs with the acquire in `text_of`.
  while (!newest.compare_exchange_weak(next_, this, std::memory_order_release, std::memory_order_relaxed)) {
  }
}

std::string collective_kind::text_of(std::uint64_t number) {
  for (const auto* k = newest_kind().load(std::memory_order_acquire); k; k = k->next_)
    if (k->number_ == number) return k->text_;
  return "an operation on types that are not known here";
}

std::string collective_name::text() const {
  return collective_kind::text_of(kind) + (root >= 0 ? "(root " + std::to_string(root) + ")" : "");
}

// A context -----------------------------------------------------------------------------------------------------------

collective_context::collective_context(node& here, std::uint64_t number, std::string name, std::vector<int> ranks,
                                       int place)
    : here_(here), number_(number), name_(std::move(name)), ranks_(std::move(ranks)), place_(place),
      size_(ranks_.empty() ? here.size() : static_cast<int>(ranks_.size())) {}

collective_context::~collective_context() {
  if (node::current() != &here_) return; // the rank has ended, and has told what was left
  here_.collectives().remove(number_);
  if (given_up_) return;
  if (const std::string left = left_over(); !left.empty())
    log_error(left + ", which has ended on rank " + std::to_string(here_.rank()) + "; " + advice);
}

std::string collective_context::take(collective_part&& part, int source) {
  const auto from = static_cast<int>(part.header.from);
  if (part.header.from >= static_cast<std::uint32_t>(size_) || rank_of(from) != source) return "from a wrong place";
  guard_.lock();
  if (!part.body.writable() && waits_for_ != from) {
    // The lender waits for it, and should not wait until this rank begins the operation.
    guard_.unlock();
    part.body = part.body.copy();
    guard_.lock();
  }
  mail_.push(std::move(part));
  arrivals_.store(arrivals_.load(std::memory_order_relaxed) + 1, std::memory_order_release);
  tern::detail::waiter* const who = waits_for_ == from ? waiting_.pop() : nullptr;
  guard_.unlock();
  if (who) who->wake_next();
  return {};
}

const collective_context::begun* collective_context::recent(std::uint64_t operation) const noexcept {
  const std::uint64_t back = begun_ - operation; // 1: the latest
  return back >= 1 && back <= names_kept ? &names_[operation % names_kept] : nullptr;
}

std::string collective_context::operation_text(std::uint64_t operation) const {
  const begun* const b = recent(operation);
  return b ? b->name.text() + " at " + in_words(b->where) : "something else";
}

void collective_context::answer(const part_header& theirs, int source) {
  const auto from = static_cast<int>(theirs.from);
  if (from < 0 || from >= size_ || rank_of(from) != source) return;
  {
    const std::lock_guard hold(guard_);
    if (theirs.operation >= begun_) return asked_.push_back(theirs); // it comes to that
    const begun* const ours = recent(theirs.operation);
    if (!ours || ours->name == theirs.name()) return;
  }
  contradict(theirs);
}

void collective_context::contradict(const part_header& theirs) {
  part_header mine = theirs;
  {
    const std::lock_guard hold(guard_);
    const begun* const ours = recent(theirs.operation);
    if (!ours) return; // it is long past
    mine.kind = ours->name.kind;
    mine.root = ours->name.root;
  }
  mine.message = {part_record.id(), flag_uncounted, 0};
  mine.from = static_cast<std::uint32_t>(place_);
  byte_buffer none;
  here_.post(rank_of(static_cast<int>(theirs.from)), std::as_writable_bytes(std::span(&mine, 1)), none,
             {.counted = false, .urgent = true});
}

error collective_context::disagreement(std::uint64_t operation, const std::string& mine, int other,
                                       const std::string& theirs) const {
  return error(errc::invalid_state,
               "the ranks do different things together: operation " + std::to_string(operation) +
                   of_communicator(name_) + " is " + theirs + " on rank " + std::to_string(rank_of(other)) +
                   ", but rank " + std::to_string(here_.rank()) + " did " + mine,
               advice);
}

void collective_context::check_left(std::uint64_t before) {
  mail_.for_each([&](const collective_part& p) {
    if (p.header.operation < before)
      throw disagreement(p.header.operation, operation_text(p.header.operation), static_cast<int>(p.header.from),
                         p.header.name().text());
  });
}

void collective_context::abandon(const error& why) {
  guard_.lock();
  given_up_.emplace(why);
  auto* const all = waiting_.take();
  guard_.unlock();
  tern::detail::waiter_list::wake_all(all);
}

void collective_context::end() {
  const std::lock_guard hold(guard_);
  check_left(begun_);
}

void part_mail::push(collective_part&& part) {
  if (!empty()) {
    if (!rest_) rest_ = std::make_unique<std::deque<collective_part>>();
    return rest_->push_back(std::move(part));
  }
  first_ = std::move(part);
  has_first_ = true;
}

bool part_mail::take(std::uint32_t from, collective_part& into) {
  if (has_first_ && first_.header.from == from) {
    into = std::move(first_);
    has_first_ = false;
    return true;
  }
  if (!rest_) return false;
  const auto at =
      std::find_if(rest_->begin(), rest_->end(), [from](const collective_part& p) { return p.header.from == from; });
  if (at == rest_->end()) return false;
  into = std::move(*at);
  rest_->erase(at);
  return true;
}

std::string collective_context::describe() const {
  std::string text;
  const auto what = [&](std::uint64_t operation) {
    return "operation " + std::to_string(operation) + " '" + operation_text(operation) + "'";
  };
  if (!name_.empty() && waiting_.empty() && mail_.empty()) return text; // there may be many
  if (begun_ > 0)
    text = "  collective operations" + of_communicator(name_) + ": " + std::to_string(begun_) +
           " begun, the last one is " + what(begun_ - 1) + "\n";
  if (!waiting_.empty())
    text += "    waits for rank " + std::to_string(rank_of(waits_for_)) + " in " + what(begun_ - 1) + "\n";
  std::map<std::uint64_t, std::pair<std::string, std::vector<int>>> early;
  mail_.for_each([&](const collective_part& p) {
    early[p.header.operation].first = p.header.name().text();
    early[p.header.operation].second.push_back(rank_of(static_cast<int>(p.header.from)));
  });
  for (auto& [operation, e] : early) {
    std::sort(e.second.begin(), e.second.end());
    e.second.erase(std::unique(e.second.begin(), e.second.end()), e.second.end());
    text += "    has something of rank " + ranges(e.second) + " for operation " + std::to_string(operation) + " '" +
            e.first + "'" + of_communicator(name_) + ", which this rank has not asked for\n";
  }
  return text;
}

std::string collective_context::waits_for(int rank) const {
  if (waiting_.empty() || rank_of(waits_for_) != rank || begun_ == 0) return {};
  return "operation " + std::to_string(begun_ - 1) + " '" + operation_text(begun_ - 1) + "'" + of_communicator(name_);
}

std::string collective_context::left_over() {
  const std::lock_guard hold(guard_);
  if (mail_.empty()) return {};
  const collective_part& p = mail_.front();
  return "rank " + std::to_string(rank_of(static_cast<int>(p.header.from))) + " did " + p.header.name().text() +
         " as operation " + std::to_string(p.header.operation) + of_communicator(name_);
}

// One operation -------------------------------------------------------------------------------------------------------

collective_call::collective_call(collective_context& c, const collective_kind& kind, int root,
                                 const std::source_location& where)
    : context_(c), name_{kind.number(), root == no_root ? -1 : root}, detects_(kind.detects()) {
  if (root != no_root && (root < 0 || root >= c.size()))
    throw error(errc::invalid_argument, "there is no rank " + std::to_string(root) + of_communicator(c.name()),
                "the root of " + kind.text() + " is one of 0 to " + std::to_string(c.size() - 1));
  tern::detail::schedule_point();
  std::unique_lock hold(c.guard_);
  c.check_kept();
  if (c.busy_.load(std::memory_order_acquire))
    throw error(errc::invalid_state,
                "two fibers of rank " + std::to_string(c.here().rank()) + " do collectives" +
                    (c.name().empty() ? std::string() : of_communicator(c.name())) + " at once: " + name_.text() +
                    " at " + in_words(where) + " and " + c.operation_text(c.begun_ - 1),
                "give each a communicator of its own: duplicate(), or named(…) with another name for each");
  c.check_left(c.begun_);
  operation_ = c.begun_++;
  c.names_[operation_ % collective_context::names_kept] = {name_, where};
  c.busy_.store(true, std::memory_order_relaxed);
  if (c.asked_.empty()) [[likely]]
    return;
  try {
    std::vector<part_header> differ;
    std::erase_if(c.asked_, [&](const part_header& theirs) {
      if (theirs.operation == operation_ && theirs.name() != name_) differ.push_back(theirs);
      return theirs.operation <= operation_;
    });
    hold.unlock();
    for (const part_header& theirs : differ) c.contradict(theirs);
  } catch (...) {
    c.busy_.store(false, std::memory_order_release);
    throw;
  }
}

collective_call::~collective_call() {
  settle();
  context_.busy_.store(false, std::memory_order_release); // what this fiber did comes before the next one's operation
}

part_header collective_call::header() const noexcept {
  return {{part_record.id(), flag_uncounted | (detects_ ? flag_detects : 0), 0},
          context_.number_,
          operation_,
          name_.kind,
          name_.root,
          static_cast<std::uint32_t>(context_.place_)};
}

byte_buffer collective_call::memory(std::size_t bytes) { return context_.here_.memory().take(bytes); }

void collective_call::send(int to, std::span<const std::byte> bytes) {
  if (bytes.size() > small_part) {
    byte_buffer whole = memory(part_prefix + bytes.size());
    std::memcpy(whole.data() + part_prefix, bytes.data(), bytes.size());
    return send(to, std::move(whole));
  }
  alignas(16) std::array<std::byte, part_prefix + small_part> space;
  const part_header h = header();
  std::memcpy(space.data(), &h, sizeof h);
  if (!bytes.empty()) std::memcpy(space.data() + part_prefix, bytes.data(), bytes.size());
  byte_buffer none;
  context_.here_.post(context_.rank_of(to), std::span(space).first(part_prefix + bytes.size()), none,
                      posting_of(detects_));
}

void collective_call::send(int to, byte_buffer message) {
  const part_header h = header();
  std::memcpy(message.data(), &h, sizeof h);
  context_.here_.post(context_.rank_of(to), std::move(message), posting_of(detects_));
}

void collective_call::lend(int to, std::span<const std::byte> elements) {
  // A simulated network hands the memory itself on, to a rank that may come to it late, or crash.
  if (context_.here_.simulated()) return give(to, byte_buffer::copy_of(elements));
  if (!lent_) lent_.emplace();
  // It is never written to: its lender declares it read-only.
  auto* const first = const_cast<std::byte*>(elements.data());
  auto part = byte_buffer::borrow(first, elements.size(), *lent_);
  ++loans_; // it comes back, whatever happens
  give(to, std::move(part));
}

void collective_call::give(int to, byte_buffer elements) {
  part_header h = header();
  h.message.flags |= flag_range;
  context_.here_.post(context_.rank_of(to), std::as_writable_bytes(std::span(&h, 1)), elements, posting_of(detects_));
}

void collective_call::settle() noexcept {
  for (; loans_ > 0; --loans_) context_.here_.wait_for(*lent_);
}

void collective_call::enquire(int from) {
  context_.here_.collectives().count_enquiry(2); // this fiber was entered for it
  part_header h = header();
  h.message.handler = enquiry_record.id();
  byte_buffer none;
  context_.here_.post(context_.rank_of(from), std::as_writable_bytes(std::span(&h, 1)), none,
                      {.counted = false, .urgent = true});
}

collective_part collective_call::receive(int from) {
  collective_context& c = context_;
  collective_part part;
  struct arrival_since {
    const collective_context* context;
    std::uint64_t seen;
  } since{&c, 0};
  bool asked = false;
  std::unique_lock hold(c.guard_);
  c.waits_for_ = from;
  for (bool looked = false; !c.mail_.take(static_cast<std::uint32_t>(from), part); looked = true) {
    if (c.given_up_) [[unlikely]] {
      c.waits_for_ = -1;
      throw error(*c.given_up_);
    }
    if (!looked) { // it may be about to arrive
      since.seen = c.arrivals_.load(std::memory_order_relaxed);
      hold.unlock();
      tern::detail::poll_briefly(
          [](const void* what) noexcept {
            const auto& s = *static_cast<const arrival_since*>(what);
            return s.context->arrivals_.load(std::memory_order_acquire) != s.seen;
          },
          &since);
      hold.lock();
      continue;
    }
    tern::detail::waiter self({tern::detail::wait_kind::collective, &c});
    c.waiting_.push(self);
    tern::detail::wait_limit limit;
    if (!asked) limit.deadline = tern::detail::deadline_after(long_wait);
    const auto how = self.wait(c.guard_, c.waiting_, limit);
    hold.release(); // the wait has
    if (how == tern::detail::wait_result::timed_out) {
      asked = true;
      try {
        enquire(from);
      } catch (...) {
        const std::lock_guard again(c.guard_);
        c.waits_for_ = -1;
        throw;
      }
    }
    hold = std::unique_lock(c.guard_);
  }
  c.waits_for_ = -1;
  if (part.header.operation != operation_ || part.header.name() != name_)
    throw part.header.operation <= operation_
        ? c.disagreement(part.header.operation, c.operation_text(part.header.operation), from,
                         part.header.name().text())
        : error(errc::invalid_state,
                "the ranks do different things together: rank " + std::to_string(c.rank_of(from)) + " does " +
                    part.header.name().text() + " as operation " + std::to_string(part.header.operation) +
                    of_communicator(c.name_) + ", and has not taken part in operation " + std::to_string(operation_) +
                    ", which is " + c.operation_text(operation_) + " on rank " + std::to_string(c.here_.rank()),
                advice);
  return part;
}

// All contexts --------------------------------------------------------------------------------------------------------

std::shared_ptr<collective_context> collective_table::make(node& here, std::uint64_t number, std::string name,
                                                           std::vector<int> ranks, int place) {
  auto c = std::make_shared<collective_context>(here, number, std::move(name), std::move(ranks), place);
  std::vector<std::pair<int, collective_part>> early;
  std::vector<std::pair<int, part_header>> asked;
  {
    const std::lock_guard hold(guard_);
    auto& known = contexts_[number];
    if (!known.expired())
      throw error(errc::internal, "two communicators of rank " + std::to_string(here.rank()) + " have one number",
                  "give one of them another name");
    known = c;
    if (const auto at = unknown_.find(number); at != unknown_.end()) {
      early = std::move(at->second);
      unknown_.erase(at);
    }
    // Before any that arrives now: parts of one rank stay in order.
    for (auto& [source, part] : early)
      if (const std::string wrong = c->take(std::move(part), source); !wrong.empty())
        throw error(errc::invalid_data, "rank " + std::to_string(source) + " sent a part of an operation " + wrong);
    if (const auto at = unknown_asked_.find(number); at != unknown_asked_.end()) {
      asked = std::move(at->second);
      unknown_asked_.erase(at);
    }
  }
  for (const auto& [source, theirs] : asked) c->answer(theirs, source);
  return c;
}

void collective_table::remove(std::uint64_t number) noexcept {
  const std::lock_guard hold(guard_);
  if (const auto at = contexts_.find(number); at != contexts_.end() && at->second.expired()) contexts_.erase(at);
}

std::vector<std::shared_ptr<collective_context>> collective_table::list() const {
  std::vector<std::shared_ptr<collective_context>> all;
  for (const auto& [number, weak] : contexts_)
    if (auto c = weak.lock()) all.push_back(std::move(c));
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) {
    return a->name() != b->name() ? a->name() < b->name() : a->number() < b->number();
  });
  return all;
}

void collective_table::make_everyone(node& here, std::vector<int> ranks) {
  const auto me = std::find(ranks.begin(), ranks.end(), here.rank());
  const int place = ranks.empty() ? here.rank() : static_cast<int>(me - ranks.begin());
  worlds_.push_front(make(here, 0, {}, std::move(ranks), place));
  everyone_.store(&worlds_.front(), std::memory_order_release);
}

void collective_table::abandon(const error& why) {
  std::vector<std::shared_ptr<collective_context>> all;
  decltype(unknown_) dropped; // after the lock: giving back memory may run any code
  {
    const std::lock_guard hold(guard_);
    all = list();
    contexts_.clear();
    dropped.swap(unknown_);
    unknown_asked_.clear();
  }
  for (const auto& c : all) c->abandon(why);
}

void collective_table::take(int source, payload message) {
  collective_part part;
  const std::size_t size = message.bytes.size();
  if (size < part_prefix)
    throw error(errc::invalid_data,
                "rank " + std::to_string(source) + " sent too few bytes for a part of an operation");
  std::memcpy(&part.header, message.bytes.data(), sizeof part.header);
  if (size <= part_prefix + near_part) {
    part.near_size = static_cast<std::uint8_t>(size - part_prefix);
    std::memcpy(part.near.data(), message.bytes.data() + part_prefix, part.near_size);
  } else {
    message.settle();
    part.bytes = std::move(message.bytes);
  }
  part.body = std::move(message.body);
  const auto give = [&](collective_context& to) {
    if (const std::string wrong = to.take(std::move(part), source); !wrong.empty())
      throw error(errc::invalid_data, "rank " + std::to_string(source) + " sent a part of an operation " + wrong);
  };
  if (part.header.context == everyone()->number()) return give(*everyone());
  std::shared_ptr<collective_context> to;
  {
    const std::lock_guard hold(guard_);
    if (const auto at = contexts_.find(part.header.context); at != contexts_.end()) to = at->second.lock();
    if (!to) {
      if (!part.body.writable()) part.body = part.body.copy(); // no rank shall wait for this one to make it
      unknown_[part.header.context].emplace_back(source, std::move(part));
      return;
    }
  }
  give(*to);
}

void collective_table::answer(int source, const byte_buffer& message) {
  count_enquiry(1);
  part_header theirs;
  if (message.size() != sizeof theirs)
    throw error(errc::invalid_data, "rank " + std::to_string(source) + " sent an enquiry of another size");
  std::memcpy(&theirs, message.data(), sizeof theirs);
  std::shared_ptr<collective_context> about;
  {
    const std::lock_guard hold(guard_);
    if (const auto at = contexts_.find(theirs.context); at != contexts_.end()) about = at->second.lock();
    if (!about) unknown_asked_[theirs.context].emplace_back(source, theirs);
  }
  if (about) about->answer(theirs, source);
}

std::string collective_table::strangers() {
  const std::lock_guard hold(guard_);
  for (const auto& [number, parts] : unknown_)
    for (const auto& [source, part] : parts)
      return "rank " + std::to_string(source) + " did " + part.header.name().text() +
             " on a communicator that has ended on this rank or was never made";
  return {};
}

} // namespace tern::net::detail
