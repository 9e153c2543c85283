// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Objects that move between ranks. Internal; docs/design/migration.md describes the protocol.

#include <exception>
#include <functional>
#include <memory>

#include <tern/mobile/entry/rank_objects.hpp>
#include <tern/mobile/paging/pager.hpp>
#include <tern/mobile/routes/router.hpp>
#include <tern/net/call/pending_calls.hpp>

namespace tern::mobile::detail {

/// Packs, sends and unpacks the objects of one rank. Thread-safe.
class migration {
public:
  migration(rank_objects& objects, object_loads& loads, admission& access, event_signals& events, router& routes,
            pager& disk) noexcept
      : objects_(objects), node_(objects.node()), rank_(objects.rank()), loads_(loads), admission_(access),
        events_(events), router_(routes), pager_(disk) {}

  /// In a fiber. The object is at `leaving`: nothing runs on it, and nothing will.
  void depart(entry& e, std::unique_ptr<invocation> request);
  /// An object has come. Where messages arrive: so what follows finds the entry.
  void land(const type_record& type, int source, const net::wire_header& header, net::payload& message);
  /// Sends the object to another rank if it could leave now. \param reply is told when it is there,
  /// or why it stays.
  /// \param marked is called when it is sure that it tries to, before anything else happens.
  /// \return false: it cannot leave, and no reply will come. \throws error(invalid_argument) for no
  /// rank; error(invalid_state) if the job has ended; and then `marked` has not been called.
  bool send_away(object_id id, int to, net::reply_ref reply, const std::function<void()>& marked);
  /// What it costs to move it: what its class says, else the bytes that it would be packed to; 0 if
  /// it is busy.
  double cost_of_moving(object_id id);

private:
  void begin_landing(shard& s, entry& e, landing& one, deferred_actions& then);
  void land_in_fiber(entry& e, std::unique_ptr<landing> one);
  void unpack(entry& e, std::unique_ptr<landing> one);
  void send_back(entry& e, int source, std::uint64_t reply, const std::exception_ptr& why);
  byte_buffer pack(const type_record& type, const void* object, packing_undo& undo);
  static void send_after(net::node& here, int to, invocation_list& following) noexcept;

  rank_objects& objects_;
  net::node& node_;
  const int rank_;
  object_loads& loads_;
  admission& admission_;
  event_signals& events_;
  router& router_;
  pager& pager_;
};

} // namespace tern::mobile::detail
