// SPDX-License-Identifier: Apache-2.0
#include <tern/net/remote_promise.hpp>

#include <cstring>
#include <mutex>
#include <string>
#include <typeinfo>
#include <vector>

#include <tern/net/call/credit.hpp>
#include <tern/net/call/id_table.hpp>
#include <tern/net/call/remote_exception.hpp>
#include <tern/net/node.hpp>
#include <tern/net/packing/multicastable.hpp>
#include <tern/net/rank/abandon_hook.hpp>
#include <tern/net/rank_local.hpp>
#include <tern/task/fiber.hpp>
#include <tern/task/wait/waiting.hpp>

namespace tern::net::detail {
namespace {

// What a message to a promise's rank says.
enum : std::uint32_t { says_value, says_exception, says_gone };

struct kept_promise {
  reply_ref who; // null: it has been set
  returned_credit back;
  std::source_location made;
};

/// The promises of a rank, until all their shares have come back: so that a second value is known
/// for what it is.
class promise_table {
public:
  std::uint64_t enter(reply_ref who, const std::source_location& made) {
    std::unique_lock hold(guard_);
    while (kept_.full()) {
      const std::uint32_t capacity = kept_.capacity();
      hold.unlock();
      auto more = kept_.make(capacity);
      hold.lock();
      kept_.grow(capacity, more);
    }
    auto [number, k] = kept_.take();
    k.who = std::move(who);
    k.made = made;
    return number;
  }

  enum class finding : std::uint8_t { fine, second, unknown };
  struct answer {
    finding what = finding::unknown;
    reply_ref who; // to be set; or, if no share can set it any more, to be broken
    std::source_location made{};
  };
  /// A share with this weight comes back; `sets`: and with it a value or an exception.
  /// \param only_if_fine a second value leaves all as it is.
  answer come_back(std::uint64_t number, std::uint32_t halvings, bool sets, bool only_if_fine) {
    answer a;
    const std::lock_guard hold(guard_);
    kept_promise* k = kept_.find(number);
    if (!k) return a;
    a.made = k->made;
    const bool second = sets && !k->who;
    if (second && only_if_fine) {
      a.what = finding::second;
      return a;
    }
    if (!k->back.add(halvings)) return a;
    a.what = second ? finding::second : finding::fine;
    if (sets || k->back.whole()) a.who = std::move(k->who);
    if (k->back.whole()) {
      *k = {};
      kept_.free(number);
    }
    return a;
  }

  /// What the survivors of a lost rank will not get: all fail with it.
  void abandon(const std::exception_ptr& why) {
    std::vector<reply_ref> left; // failed without the lock
    {
      const std::lock_guard hold(guard_);
      std::vector<std::uint64_t> numbers;
      kept_.for_each([&](std::uint64_t number, kept_promise& k) {
        if (k.who) left.push_back(std::move(k.who));
        numbers.push_back(number);
      });
      for (const std::uint64_t number : numbers) {
        *kept_.find(number) = {};
        kept_.free(number);
      }
    }
    for (const reply_ref& who : left) who->failed(why);
  }

  std::optional<std::source_location> first() {
    std::optional<std::source_location> made;
    const std::lock_guard hold(guard_);
    kept_.for_each([&](std::uint64_t, const kept_promise& k) {
      if (!made) made = k.made;
    });
    return made;
  }

private:
  tern::detail::spin_lock guard_;
  id_table<kept_promise> kept_;
};
const rank_local<promise_table> promises;

const abandon_hook abandons{[](node& here, const error& why) {
  if (promise_table* const all = promises.if_made(here)) all->abandon(std::make_exception_ptr(why));
}};

error second_value(const std::string& who, int owner, const std::source_location& made) {
  return error(errc::already_exists,
               who + " gave a second value or exception to a remote promise of rank " + std::to_string(owner),
               "set each promise exactly once, through one of its shares; this one was made at the place named here",
               made);
}

void break_it(pending_reply& who, int owner, const std::source_location& made) {
  who.failed(std::make_exception_ptr(
      error(errc::broken_promise, "all shares of a remote promise were destroyed before its value was set",
            "it was made on rank " + std::to_string(owner) + ", at the place named here", made)));
}

// Runs where messages arrive.
void take_share(node& here, int source, const wire_header& h, payload& arrived) {
  const byte_buffer& message = arrived.bytes;
  const auto bad = [&](const char* what) {
    return error(errc::invalid_data, "rank " + std::to_string(source) + " sent " + what + " for remote promise " +
                                         std::to_string(h.reply) + " of rank " + std::to_string(here.rank()));
  };
  std::uint32_t says = 0, halvings = 0;
  if (message.size() < promise_share::prefix) throw bad("too few bytes");
  std::memcpy(&says, message.data() + sizeof h, sizeof says);
  std::memcpy(&halvings, message.data() + sizeof h + sizeof says, sizeof halvings);
  if (says > says_gone || halvings > returned_credit::most_halvings) throw bad("nonsense");
  auto a = promises->come_back(h.reply, halvings, says != says_gone, false);
  if (a.what == promise_table::finding::unknown) {
    if (here.generation().number() > 0) return here.message_done(h); // of a promise that was given up
    throw bad("a share that there is not");
  }
  if (a.what == promise_table::finding::second)
    here.fatal(second_value("rank " + std::to_string(source), here.rank(), a.made).what());
  const auto body = std::span<const std::byte>(message.data(), message.size()).subspan(promise_share::prefix);
  if (says == says_gone) {
    if (a.who) break_it(*a.who, here.rank(), a.made);
  } else if (says == says_exception) {
    failure f;
    unpack_into(body, f);
    a.who->failed(std::make_exception_ptr(f.as_error()));
  } else {
    try {
      a.who->value(body);
    } catch (...) {
      a.who->failed(std::current_exception());
    }
  }
  here.message_done(h);
}
struct share_tag {};
const handler_record share_record{typeid(share_tag), "tern remote promise", __FILE__, &take_share, true};

} // namespace

std::optional<std::source_location> first_open_promise() { return promises->first(); }

void promise_share::bear(reply_ref who) {
  node& here = node::here();
  number_ = promises->enter(std::move(who), made_);
  owner_ = here.rank();
  halvings_ = 0;
  stage_ = stage::live;
}

promise_share promise_share::split(const char* what) const {
  check(what);
  if (halvings_ == returned_credit::most_halvings)
    throw error(errc::invalid_state, std::string(what) + " has been copied too often",
                "copy its copies too, not one share for ever");
  promise_share half(made_);
  half.number_ = number_;
  half.owner_ = owner_;
  half.halvings_ = ++halvings_;
  half.stage_ = stage::live;
  return half;
}

promise_share promise_share::depart(const char* what) const {
  if (multicast_packing::here())
    throw error(errc::unsupported, "a remote promise cannot go to many ranks at once, all of which get the same bytes",
                "send each of them a share() of it");
  if (!std::exchange(leaves_, false)) return split(what);
  check(what);
  promise_share all(made_);
  all.number_ = number_;
  all.owner_ = owner_;
  all.halvings_ = halvings_;
  all.stage_ = std::exchange(stage_, stage::gone);
  return all;
}

void promise_share::check(const char* what) const {
  if (stage_ == stage::live) return;
  if (stage_ == stage::set)
    throw error(errc::already_exists,
                std::string(what) + ": this share has already set the remote promise of rank " + std::to_string(owner_),
                "set each promise exactly once", made_);
  throw error(errc::invalid_state, std::string(what) + ": this share was moved away",
              "set or send a share before it is moved, or keep another one: share()");
}

bool promise_share::at_home() const { return node::here().rank() == owner_; }

reply_ref promise_share::claim() {
  auto a = promises->come_back(number_, halvings_, true, true);
  if (a.what == promise_table::finding::second)
    throw second_value(tern::detail::describe_context(tern::detail::this_context()), owner_, a.made);
  if (a.what == promise_table::finding::unknown)
    throw node::here().generation().number() > 0
        ? node::here().lost(-1, "a remote promise of rank " + std::to_string(owner_))
        : error(errc::invalid_state, "a remote promise was set after its rank had ended", {}, made_);
  stage_ = stage::set;
  return std::move(a.who);
}

void promise_share::send(std::uint32_t says, byte_buffer message) const {
  const wire_header h{share_record.id(), 0, number_};
  std::memcpy(message.data(), &h, sizeof h);
  std::memcpy(message.data() + sizeof h, &says, sizeof says);
  std::memcpy(message.data() + sizeof h + sizeof says, &halvings_, sizeof halvings_);
  node::here().post(owner_, std::move(message));
}

void promise_share::send_value(byte_buffer value) {
  send(says_value, std::move(value));
  stage_ = stage::set;
}

void promise_share::send_exception(std::exception_ptr e) {
  failure f = describe(std::move(e));
  f.message += " (set by rank " + std::to_string(node::here().rank()) + ")";
  send(says_exception, pack_after(prefix, f));
  stage_ = stage::set;
}

void promise_share::drop() noexcept {
  if (std::exchange(stage_, stage::gone) != stage::live) return;
  node* const here = node::current();
  if (!here) return;
  try {
    if (here->rank() == owner_) {
      const auto a = promises->come_back(number_, halvings_, false, false);
      if (a.who) break_it(*a.who, owner_, a.made);
    } else {
      send(says_gone, byte_buffer(prefix));
    }
  } catch (const error& e) {
    // After the end of the job no fiber waits any more; else the future's owner would wait for
    // ever.
    if (e.code() != errc::invalid_state && e.code() != errc::rank_lost)
      here->fatal(std::string("a share of a remote promise could not be given back: ") + e.what());
  }
}

void promise_share::give_back(std::int32_t owner, std::uint32_t halvings, std::uint64_t number) noexcept {
  promise_share back{std::source_location()};
  back.owner_ = owner;
  back.halvings_ = halvings;
  back.number_ = number;
  back.stage_ = stage::live;
} // which drops it

void promise_share::load(input_archive& ar) {
  drop();
  std::int32_t owner = -1;
  std::uint32_t halvings = 0;
  std::uint64_t number = 0;
  ar(owner, halvings, number);
  if (owner < 0 || halvings > returned_credit::most_halvings || number == 0)
    throw error(errc::invalid_data, "a remote promise was read that can be none's share");
  owner_ = owner;
  halvings_ = halvings;
  number_ = number;
  leaves_ = false;
  stage_ = stage::live;
}

} // namespace tern::net::detail
