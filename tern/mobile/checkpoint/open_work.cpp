// SPDX-License-Identifier: Apache-2.0
/// \file
/// What must not be open when a job is saved, and how ranks agree on that.
#include <tern/mobile/checkpoint/agreement.hpp>

#include <mutex>
#include <source_location>

#include <tern/base/language/type_name.hpp>
#include <tern/mobile/directory.hpp>
#include <tern/mobile/message/control.hpp>
#include <tern/mobile/names/name_table.hpp>
#include <tern/net/collectives.hpp>
#include <tern/net/epoch/epoch_table.hpp>
#include <tern/net/remote_promise.hpp>

namespace tern::mobile::detail {
namespace {

error still_open(const std::string& what, const std::string& hint,
                 const std::source_location& made = std::source_location::current()) {
  return error(errc::invalid_state, "rank " + std::to_string(net::node::here().rank()) + " cannot be saved: " + what,
               hint, made);
}

void check_objects(detail::rank_objects& objects, const std::string& moment) {
  for (detail::shard& s : objects.shards()) {
    const std::lock_guard hold(s.lock);
    for (std::size_t i = 0; i < s.entries.capacity(); ++i) {
      const entry* const e = s.entries.at(i);
      if (!e || !e->is_present()) continue;
      const std::string name = "object " + to_string(e->id) + " (" + e->type->name + ")";
      if (e->running() || e->unfinished > 0)
        throw still_open(name + (e->exclusive ? " is held" : " is held, shared") +
                             ", by tern::hold or by an invocation that has not ended",
                         "let it go before " + moment);
      if ((e->at != entry::place::here && e->at != entry::place::stored) || e->pending() > 0)
        throw still_open(name + " has work that waits", "wait for it before " + moment);
      if (!e->type->pack) throw error(errc::unsupported, name + " cannot be saved", how_to_serialize);
    }
  }
}

} // namespace

void check_nothing_open(const std::string& moment) {
  net::node& here = net::node::here();
  {
    net::detail::epoch_table& epochs = here.epochs();
    const std::lock_guard hold(epochs.guard());
    if (std::string text = epochs.describe(); !text.empty()) {
      text = text.substr(2, text.find('\n') - 2);
      throw still_open(text, "end the epoch before " + moment);
    }
  }
  if (const auto made = net::detail::first_open_promise())
    throw still_open("a remote_promise has no value yet, or a share of it is kept, made at the place named here",
                     "set it before " + moment + ", and destroy its shares", *made);
  if (const std::string name = name_table::of(here).first_search(); !name.empty())
    throw still_open("tern::find waits for the name " + name, "publish it, or give the search a limit");
  {
    const std::lock_guard hold(here.calls().guard());
    for (const auto& one : here.calls().list())
      if (!one.given_up)
        throw still_open("a call to rank " + std::to_string(one.from) + " has no answer",
                         "wait for its future before " + moment);
  }
  check_objects(directory::of(here).objects(), moment);
}

std::optional<error> first_failure(const std::exception_ptr& mine) {
  verdict v;
  if (mine) {
    v.rank = net::node::here().rank();
    v.code = static_cast<std::uint16_t>(errc::remote);
    try {
      std::rethrow_exception(mine);
    } catch (const error& e) {
      v = {v.rank, static_cast<std::uint16_t>(e.code()), e.message(), e.hint(), e.place()};
    } catch (const std::exception& e) {
      v.message = tern::detail::type_name(typeid(e)) + ": " + e.what();
    } catch (...) {
      v.message = "an exception that is no std::exception";
    }
  }
  v = allreduce(std::move(v), [](verdict a, verdict b) { return a.rank >= 0 ? std::move(a) : std::move(b); });
  if (v.rank < 0) return {};
  return error(static_cast<errc>(v.code), v.message, v.hint, v.place);
}

void agree(const std::exception_ptr& mine) {
  if (auto wrong = first_failure(mine)) throw *wrong;
}

} // namespace tern::mobile::detail
