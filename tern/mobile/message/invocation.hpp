// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Messages to objects: the address that each carries, what it does, and a list of those that wait.
/// Internal.

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include <tern/base/archive.hpp>
#include <tern/mobile/object_id.hpp>
#include <tern/net/handler.hpp>
#include <tern/task/fiber/causal_context.hpp>

namespace tern::net {
class node;
}

namespace tern::mobile {

struct type_record;

/// Of a message to an object: what it invokes causes work, however quickly it returns
/// (send_options). Collectives alone have the flag that it shares, and they are no such messages.
inline constexpr std::uint32_t flag_work = net::flag_detects;
/// \param how send_options.
template <class Options> constexpr std::uint32_t flags_of(const Options& how) noexcept {
  return net::flag_of(how.priority) | (how.work ? flag_work : 0);
}

/// After the header of each message to an object.
struct address {
  static constexpr std::int32_t no_stream = -1;
  static constexpr std::int32_t moved = -2; ///< it waited for the object and follows it

  object_id object;
  std::uint64_t number = 0;        ///< in its stream
  std::int32_t stream = no_stream; ///< the rank that has numbered it
  std::uint32_t from = 0;          ///< the rank that has sent it first, and how often it was forwarded
  static constexpr unsigned origin_bits = 24;

  address() noexcept = default;
  address(object_id o, int origin) noexcept : object(o), from(static_cast<std::uint32_t>(origin)) {}
  int origin() const noexcept { return static_cast<int>(from & ((1u << origin_bits) - 1)); }
  unsigned hops() const noexcept { return from >> origin_bits; }
  void count_hop() noexcept {
    if (hops() < 255) from += 1u << origin_bits;
  }
};
static_assert(sizeof(address) == 24);

/// What a message does to its object.
enum class action : std::uint8_t {
  share,   ///< runs beside others that share
  exclude, ///< runs alone
  destroy, ///< alone, and nothing afterwards
  migrate,
  swap_out, ///< to disk
  pin,      ///< it must not move
  unpin,
  add_credit,    ///< of counted references
  return_credit, ///< likewise
  open,          ///< begins the sender's stream
  close,
  skip,   ///< nothing; a number that was given and not used
  settle, ///< nothing; answered when no invocation has released its access
  arm,    ///< makes an event (entry/event_set.hpp)
  signal, ///< of one
  rearm,  ///< of one
  ended   ///< the function of a round is over
};

/// One for each function that may be invoked, and for each of the runtime's own messages to
/// objects.
struct invocable {
  action what;
  const type_record* (*type)(); ///< of the objects; null: any
  const std::string& (*name)();
  /// Runs it, answers its caller, and never throws. Null for the runtime's own.
  void (*run)(net::node& here, void* object, const address& to, const net::wire_header& header, net::payload& message);
  /// It will not run: what came with its arguments goes back to where it belongs. Null: nothing
  /// can have.
  void (*discard)(net::payload& message) noexcept = nullptr;
};

/// A message to an object that has to wait.
struct invocation {
  invocation *next = nullptr, *before = nullptr; ///< in a list
  const invocable* what = nullptr;
  int source = 0; ///< the rank that it came from last
  net::wire_header header;
  address to;
  net::payload message;
  tern::detail::held_context on; ///< the causal context in which it waits
  bool deferred = false;         ///< it has waited for a worker
  priority level() const noexcept { return net::priority_of(header.flags); }
  bool moves() const noexcept { return what->what == action::migrate || what->what == action::swap_out; }
  bool ends() const noexcept { return what->what == action::destroy; }
  bool of_event() const noexcept { return what->what >= action::arm; }
  /// Does it claim the object for a function over several? It runs nothing, and lasts.
  bool claims() const noexcept { return !what->run && what->what <= action::exclude; }
};

/// First in, first out; owns what is in it.
class invocation_list {
public:
  invocation_list() noexcept = default;
  invocation_list(invocation_list&& o) noexcept
      : first_(std::exchange(o.first_, nullptr)), last_(std::exchange(o.last_, nullptr)),
        size_(std::exchange(o.size_, 0)), ends_(std::exchange(o.ends_, 0)) {}
  invocation_list& operator=(invocation_list&& o) noexcept {
    std::swap(first_, o.first_);
    std::swap(last_, o.last_);
    std::swap(size_, o.size_);
    std::swap(ends_, o.ends_);
    return *this;
  }
  ~invocation_list() {
    while (!empty()) pop();
  }
  bool empty() const noexcept { return !first_; }
  std::uint32_t size() const noexcept { return size_; }
  const invocation& front() const noexcept { return *first_; }
  void push(std::unique_ptr<invocation> one) noexcept { insert(last_, std::move(one)); }
  /// Inserts it before those at the end that are less urgent and of other ranks. What one rank has
  /// sent stays in order, and what ends an object stays last. If all have one priority, this is
  /// `push`.
  void push_by_priority(std::unique_ptr<invocation> one) noexcept {
    invocation* behind = last_;
    if (!one->ends())
      while (behind && !behind->ends() && behind->level() > one->level() && behind->to.origin() != one->to.origin())
        behind = behind->before;
    insert(behind, std::move(one));
  }
  /// What ends the object, if that waits.
  invocation* end() const noexcept {
    for (invocation* i = ends_ > 0 ? last_ : nullptr; i; i = i->before)
      if (i->ends()) return i;
    return nullptr;
  }
  /// The first of those, if there are several.
  invocation* first_end() const noexcept {
    invocation* first = end();
    for (invocation* i = first; i; i = i->before)
      if (i->ends()) first = i;
    return first;
  }
  /// \param behind in this list; null: becomes the first.
  void insert(invocation* behind, std::unique_ptr<invocation> one) noexcept {
    invocation* const i = one.release();
    i->before = behind;
    i->next = std::exchange(behind ? behind->next : first_, i);
    (i->next ? i->next->before : last_) = i;
    ++size_;
    ends_ += i->ends();
  }
  std::unique_ptr<invocation> pop() noexcept {
    std::unique_ptr<invocation> one(first_);
    first_ = first_->next;
    (first_ ? first_->before : last_) = nullptr;
    --size_;
    ends_ -= one->ends();
    return one;
  }
  /// Takes out all that is behind one of this list, in order.
  invocation_list take_behind(invocation* one) noexcept {
    invocation_list behind;
    behind.first_ = one->next;
    behind.last_ = one->next ? last_ : nullptr;
    for (invocation* i = one->next; i; i = i->next) {
      ++behind.size_;
      behind.ends_ += i->ends();
    }
    if (one->next) one->next->before = nullptr;
    one->next = nullptr;
    last_ = one;
    size_ -= behind.size_;
    ends_ -= behind.ends_;
    return behind;
  }
  /// Puts those of `o` behind.
  void append(invocation_list&& o) noexcept {
    while (!o.empty()) push(o.pop());
  }

private:
  invocation *first_ = nullptr, *last_ = nullptr;
  std::uint32_t size_ = 0, ends_ = 0;
};

} // namespace tern::mobile

namespace tern {
template <> inline constexpr bool is_bitwise<mobile::object_id> = true;
template <> inline constexpr bool is_bitwise<mobile::address> = true;
} // namespace tern
