// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The runtime's own messages to objects and between directories. This room packs and sends them;
/// the handlers that take them are defined in directory/handlers.cpp. Internal.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>

#include <tern/base/bytes.hpp>
#include <tern/mobile/message/invocation.hpp>

namespace tern::mobile {

/// What the directory of one rank tells that of another about an object.
struct directory_note {
  enum class kind : std::uint32_t {
    located,   ///< to a rank that sends by a detour: the object is on `where`
    moved,     ///< to the home: it has come to `where`
    confirmed, ///< from the home: it knows
    gone,      ///< the object is destroyed
    closed     ///< the receiver's stream is
  };
  object_id object;
  kind what;
  std::int32_t where = 0;
  std::uint32_t version = 0;
  std::uint32_t unused = 0;
};

namespace detail {

/// What the claimer of an object is told.
struct claim_grant {
  /// Why the object cannot move.
  enum class bond : std::uint8_t { none, pinned, of_class };
  std::int32_t rank = -1; ///< where it is
  bond bound = bond::none;
  std::uint8_t shared = 0;     ///< others may have it too
  std::uint8_t unfinished = 0; ///< an invocation has released its access
  std::uint8_t unused = 0;
};

/// What each of these messages does to its object.
extern const invocable destroy_message, migrate_message, swap_out_message, pin_message, unpin_message,
    add_credit_message, return_credit_message, open_message, close_message, skip_message, claim_message,
    claim_shared_message, settle_message, carry_message;
/// The handlers that take them, and the one that takes notes.
extern const net::handler_record destroy_handler, migrate_handler, swap_out_handler, pin_handler, unpin_handler,
    add_credit_handler, return_credit_handler, open_handler, close_handler, skip_handler, note_handler, claim_handler,
    claim_shared_handler, settle_handler, carry_handler, let_go_handler;

void post_note(net::node& here, int to, const directory_note& n);
/// Opens the calling rank's stream to the object, by way of the object's home, which is on rank
/// `home`.
void post_open(net::node& here, int home, object_id id);
void post_close(net::node& here, int where, const address& to);
/// Sends a number that was assigned to a message which could not be sent.
void post_skip(net::node& here, int where, const address& to);
/// Sends an invocation that has arrived to another rank, and counts it as done here.
void forward(net::node& here, int where, std::unique_ptr<invocation> one);

/// A request to migrate as if one had arrived. \param reply number of the call that waits for it;
/// 0: none does.
std::unique_ptr<invocation> migrate_request(net::node& here, object_id id, int to, std::uint64_t reply = 0);
/// The same from the claimer of an object.
std::unique_ptr<invocation> carry_request(net::node& here, object_id id, int to, std::uint64_t reply);
/// Turns the return of an object's last credit into the request to destroy it.
void make_destroy(invocation& one) noexcept;
/// The credit that it carries. \throws error(invalid_data) if there is none in the message.
std::uint64_t credit_in(invocation& one);

[[noreturn]] void no_address(std::size_t bytes);
[[noreturn]] void bad_address(const address& to, int ranks, int homes);
[[noreturn]] void bad_rank(object_id object, int rank, int ranks);
/// \throws error(invalid_data) if the message is too short.
inline address read_address(const byte_buffer& message) {
  address to;
  if (message.size() < sizeof(net::wire_header) + sizeof to) [[unlikely]]
    no_address(message.size());
  std::memcpy(&to, message.data() + sizeof(net::wire_header), sizeof to);
  return to;
}
/// \throws error(invalid_data) for what no rank of this program would send.
inline void check_address(const address& to, int ranks, int homes) {
  if (!to.object || to.object.home() >= homes || to.origin() >= ranks || to.stream < address::moved ||
      to.stream >= ranks) [[unlikely]]
    bad_address(to, ranks, homes);
}
/// "'counter::add' of object 1:1 (counter)"
std::string describe_invocation(const std::string& function, object_id id, const std::string& type);

} // namespace detail
} // namespace tern::mobile

template <> inline constexpr bool tern::is_bitwise<tern::mobile::directory_note> = true;
template <> inline constexpr bool tern::is_bitwise<tern::mobile::detail::claim_grant> = true;
