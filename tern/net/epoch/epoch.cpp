// SPDX-License-Identifier: Apache-2.0
#include <tern/net/epoch.hpp>

#include <algorithm>
#include <cstring>
#include <mutex>
#include <typeinfo>

#include <tern/base/error.hpp>
#include <tern/net/epoch/epoch_table.hpp>
#include <tern/net/node.hpp>
#include <tern/net/packing/packing.hpp>

namespace tern {

namespace net::detail {
namespace {

constexpr int origin_shift = 40;
constexpr std::uint64_t many_units = std::uint64_t{1} << 63;
constexpr std::uint64_t few_units = 8; // in a simulation, so that there are many banks

int origin_of(std::uint64_t epoch) noexcept { return static_cast<int>(epoch >> origin_shift); }

// What comes back to a bank.
struct returned_units {
  std::uint64_t epoch = 0, low = 0, high = 0;
};

void take_units(node& here, int source, const wire_header& h, payload& message) {
  returned_units r;
  const auto body = body_of(message.bytes);
  if (body.size() != sizeof r)
    throw error(errc::invalid_data, "rank " + std::to_string(source) + " sent an epoch's units as " +
                                        std::to_string(body.size()) + " bytes");
  std::memcpy(&r, body.data(), sizeof r);
  here.epochs().take_back(source, r.epoch, credit_units{r.high} << 64 | r.low);
  here.message_done(h);
}
struct units_tag {};
const handler_record units_record{typeid(units_tag), "tern epoch", __FILE__, &take_units, true};

} // namespace

void epoch_account::release() noexcept {
  // It may be gone as soon as it is not held.
  epoch_table* const table = table_.load(std::memory_order_acquire);
  const std::uint64_t number = number_;
  // acq_rel: the fiber that waits for the epoch sees what was done for it, through all that let go
  // here and the messages.
  if (holds_.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  if (table)
    table->settle(number);
  else
    self_.reset();
}

bool epoch_account::hold_unless_over() noexcept {
  std::int64_t n = holds_.load(std::memory_order_relaxed);
  while (n > 0)
    if (holds_.compare_exchange_weak(n, n + 1, std::memory_order_relaxed)) return true;
  return false;
}

// No worker of the rank runs any more.
epoch_table::~epoch_table() {
  for (auto& [number, a] : accounts_) cut_off(a);
}

void epoch_table::cut_off(const std::shared_ptr<epoch_account>& a) noexcept {
  a->self_ = a;
  a->holds_.fetch_add(1, std::memory_order_relaxed); // for this function
  a->table_.store(nullptr, std::memory_order_release);
  a->release();
}

void epoch_table::abandon(const std::exception_ptr& why) {
  decltype(accounts_) all;
  {
    const std::lock_guard hold(guard_);
    all.swap(accounts_);
    late_numbers_.clear();
  }
  ended_.store(false, std::memory_order_release); // the job goes on
  for (auto& [number, a] : all) {
    if (const auto over = std::move(a->over_)) over->set_exception(why);
    cut_off(a);
  }
}

epoch_table::epoch_table(node& here, bool simulated) noexcept
    : here_(here), new_units_(simulated ? few_units : many_units) {}

struct epoch_table::ending {
  std::uint64_t epoch = 0;
  std::vector<epoch_account::deposit> back;
  std::shared_ptr<epoch_account> gone;
};

std::pair<std::shared_ptr<epoch_account>, shared_future<void>> epoch_table::open(std::string name,
                                                                                 const std::source_location& made) {
  if (ended_.load(std::memory_order_acquire))
    throw error(errc::invalid_state, "an epoch was begun after the job had ended",
                "nothing can be sent any more; wait for fibers by their futures", made);
  auto over = std::make_unique<promise<void>>(made);
  shared_future<void> result = over->get_future().share();
  const std::lock_guard hold(guard_);
  const std::uint64_t number = static_cast<std::uint64_t>(here_.rank()) << origin_shift | ++given_;
  auto a = std::make_shared<epoch_account>(*this, number);
  a->name = std::move(name);
  a->made = made;
  a->outer = tern::detail::held_context(tern::detail::this_causal_context());
  a->over_ = std::move(over);
  a->holds_.store(1, std::memory_order_relaxed);
  accounts_.emplace(number, a);
  return {std::move(a), std::move(result)};
}

epoch_mark epoch_table::depart(epoch_account& on) {
  epoch_mark m{on.number_, 0, 0, 0};
  const std::lock_guard hold(guard_);
  for (auto& d : on.deposits_) {
    if (d.units < 2) continue;
    const credit_units half = d.units / 2;
    m.units = static_cast<std::uint64_t>(std::min<credit_units>(half, new_units_));
    m.bank = static_cast<std::uint32_t>(d.bank);
    d.units -= m.units;
    return m;
  }
  m.units = new_units_;
  m.bank = static_cast<std::uint32_t>(here_.rank());
  on.issued_ += m.units;
  return m;
}

void epoch_table::stay(epoch_account& on, const epoch_mark& mark) {
  const std::lock_guard hold(guard_);
  if (static_cast<int>(mark.bank) == here_.rank()) {
    on.issued_ -= mark.units;
    return;
  }
  for (auto& d : on.deposits_)
    if (d.bank == static_cast<int>(mark.bank)) d.units += mark.units;
}

tern::detail::held_context epoch_table::arrive(int source, const epoch_mark& mark) {
  const auto bad = [&](const char* what) {
    return error(errc::invalid_data, "rank " + std::to_string(source) + " sent a message of an epoch " + what);
  };
  if (origin_of(mark.epoch) >= here_.size()) throw bad("of a rank that there is not");
  if (mark.bank >= static_cast<std::uint32_t>(here_.size())) throw bad("with credit of a rank that there is not");
  if (mark.units == 0 || mark.units > new_units_) throw bad("with credit that cannot be");
  const int bank = static_cast<int>(mark.bank);
  const std::lock_guard hold(guard_);
  auto place = accounts_.find(mark.epoch);
  if (place == accounts_.end()) {
    if (origin_of(mark.epoch) == here_.rank() || bank == here_.rank()) throw bad("that is over");
    place = accounts_.emplace(mark.epoch, std::make_shared<epoch_account>(*this, mark.epoch)).first;
  }
  epoch_account& a = *place->second;
  if (bank == here_.rank()) {
    if (mark.units > a.issued_) throw bad("with more credit than was given");
    a.issued_ -= mark.units; // what is held here now is as good
  } else {
    const auto known =
        std::find_if(a.deposits_.begin(), a.deposits_.end(), [&](const auto& d) { return d.bank == bank; });
    if (known != a.deposits_.end())
      known->units += mark.units;
    else
      a.deposits_.push_back({bank, mark.units});
  }
  a.retain();
  return tern::detail::held_context::adopt(&a);
}

void epoch_table::take_back(int source, std::uint64_t epoch, credit_units units) {
  ending then;
  {
    const std::lock_guard hold(guard_);
    const auto at = accounts_.find(epoch);
    if (at == accounts_.end() || units == 0 || units > at->second->issued_)
      throw error(errc::invalid_data,
                  "rank " + std::to_string(source) + " sent back units of an epoch that it cannot have");
    at->second->issued_ -= units;
    look_at(*at->second, then);
  }
  conclude(then);
}

void epoch_table::settle(std::uint64_t number) noexcept {
  if (ended_.load(std::memory_order_acquire)) return;
  if (node::current() != &here_) { // a foreign thread has destroyed what was to go on
    if (here_.simulated()) return; // there are none: the simulation is being cleared away
    {
      const std::lock_guard hold(guard_);
      late_numbers_.push_back(number);
      late_.store(true, std::memory_order_release);
    }
    return here_.wake();
  }
  ending then;
  {
    const std::lock_guard hold(guard_);
    const auto at = accounts_.find(number);
    if (at == accounts_.end()) return; // another one has been faster
    look_at(*at->second, then);
  }
  conclude(then);
}

void epoch_table::settle_late() noexcept {
  std::vector<std::uint64_t> late;
  {
    const std::lock_guard hold(guard_);
    late.swap(late_numbers_);
    late_.store(false, std::memory_order_relaxed);
  }
  for (const std::uint64_t number : late) settle(number);
}

// Under the guard. If nothing goes on here: which units go back, and is the account done?
void epoch_table::look_at(epoch_account& a, ending& then) {
  // acquire: sees what the former holders did before they let go. New holds come with messages,
  // under the guard, or from present holders.
  if (a.holds_.load(std::memory_order_acquire) != 0) return;
  const bool is_origin = a.over_ != nullptr, done = a.issued_ == 0;
  then.epoch = a.number_;
  const auto keeps = is_origin || done ? a.deposits_.begin() : std::min(a.deposits_.begin() + 1, a.deposits_.end());
  then.back.assign(keeps, a.deposits_.end());
  a.deposits_.erase(keeps, a.deposits_.end());
  if (!done) return;
  const auto at = accounts_.find(a.number_);
  then.gone = std::move(at->second);
  accounts_.erase(at);
}

void epoch_table::conclude(ending& then) noexcept {
  if (ended_.load(std::memory_order_acquire)) return;
  for (const auto& d : then.back) {
    const returned_units r{then.epoch, static_cast<std::uint64_t>(d.units), static_cast<std::uint64_t>(d.units >> 64)};
    try {
      // Not on the account of the fiber that runs here: it would never end.
      post_packed(here_, d.bank, {units_record.id(), 0, 0}, {.urgent = true}, r.epoch, r.low, r.high);
    } catch (const std::exception& e) {
      if (!ended_.load(std::memory_order_acquire))
        here_.fatal(std::string("rank ") + std::to_string(d.bank) +
                    " cannot be told that an epoch's work has ended: " + e.what());
    }
  }
  if (!then.gone || !then.gone->over_) return;
  const auto over = std::move(then.gone->over_);
  over->set_value();
  then.gone->outer.reset(); // last: it may be all that the outer one waited for
}

std::string epoch_table::describe() const {
  std::string text;
  for (const auto& [number, a] : accounts_) {
    const auto holds = a->holds_.load(std::memory_order_relaxed);
    text +=
        "  epoch " +
        (a->name.empty() ? std::to_string(number & ((std::uint64_t{1} << origin_shift) - 1)) : "'" + a->name + "'") +
        " of rank " + std::to_string(origin_of(number)) + ": " + std::to_string(holds) +
        (holds == 1 ? " thing goes" : " things go") + " on here" +
        (a->issued_ != 0 ? ", and more elsewhere that was sent from here" : "") +
        (a->made.line() ? std::string(", made at ") + a->made.file_name() + ":" + std::to_string(a->made.line()) : "") +
        "\n";
  }
  return text;
}

} // namespace net::detail

using net::detail::epoch_account;

epoch::epoch(std::string name, std::source_location made) {
  auto [account, over] = net::node::here().epochs().open(std::move(name), made);
  account_ = std::move(account);
  over_ = std::move(over);
}

namespace {

std::string called(const epoch_account& a) {
  return a.name.empty() ? std::string("an epoch") : "epoch '" + a.name + "'";
}

} // namespace

const std::string& epoch::name() const noexcept {
  static const std::string none;
  return account_ ? account_->name : none;
}

epoch::presence epoch::enter() const {
  if (!account_) throw error(errc::invalid_state, "epoch::run: this epoch was moved away");
  if (!account_->here()) {
    static_cast<void>(over_.get()); // throws why
    throw error(errc::invalid_state, "epoch::run: " + called(*account_) + " is over");
  }
  if (net::node::current() != account_->here())
    throw error(errc::invalid_state, "epoch::run: " + called(*account_) + " belongs to another rank",
                "make it on the rank that uses it", account_->made);
  const bool held = account_->here() && account_->hold_unless_over();
  auto on = tern::detail::held_context::adopt(held ? account_.get() : nullptr);
  if (!held || !account_->open.load(std::memory_order_relaxed))
    throw error(errc::invalid_state, "epoch::run: " + called(*account_) + " has been closed",
                "wait() and done() close it too: run all first, or make another one", account_->made);
  return presence{account_, std::move(on), tern::detail::causal_scope(account_.get())};
}

void epoch::close() noexcept {
  if (account_ && account_->open.exchange(false, std::memory_order_relaxed)) account_->release();
}

shared_future<void> epoch::done() {
  if (!account_) throw error(errc::invalid_state, "epoch::done: this epoch was moved away");
  close();
  return over_;
}

void epoch::wait() {
  if (!account_) throw error(errc::invalid_state, "epoch::wait: this epoch was moved away");
  for (const tern::detail::causal_context* c = tern::detail::this_causal_context(); c;) {
    if (c == account_.get())
      throw error(errc::invalid_state,
                  tern::detail::describe_context(tern::detail::this_context()) + " waits for " + called(*account_) +
                      ", which it belongs to: neither could end",
                  "wait for it where it was made; for a part of its work make an epoch within", account_->made);
    c = static_cast<const epoch_account*>(c)->outer.get();
  }
  close();
  over_.get(); // throws if ranks were lost that it reached, or may have
}

} // namespace tern
