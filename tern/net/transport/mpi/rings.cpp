// SPDX-License-Identifier: Apache-2.0
/// \file
/// Heads between the ranks of one host: through a ring (spsc_ring.hpp) from each to each.
///
/// A record with an extra carries a trailer there: it announces a body (bodies.cpp). A head of many
/// cells that finds no neighbouring free ones goes in pieces of one cell, all but the last marked
/// as special; the receiver puts them together. A ring's messages that wait behind a body are taken
/// out of it up to a number only: then it fills, and its sender is refused.
#include "endpoint.hpp"

#include <algorithm>
#include <cstring>
#include <functional>
#include <utility>

namespace tern_mpi {

namespace {

using found = ring_receiver::found;

constexpr std::size_t most_behind = 64; // messages of one source that wait for a body
constexpr int most_queued = 8;          // of them taken in one call
constexpr std::uint8_t another_piece = ring_record::special;
constexpr std::size_t piece = ring_sender::small_head - ring_sender::extra_bytes; // so the last one has space for it
constexpr std::size_t cell_bytes = ring_sender::cell_bytes;
static_assert(sizeof(ring_trailer) == ring_sender::extra_bytes);

} // namespace

/// Collective: the ranks agree on the limit of heads.
void endpoint::open_rings() {
  const std::uint32_t cells = host_.cells();
  rings_ = cells != 0;
  heads_by_mpi_ = !rings_ || host_.size() < size_;
  ring_bodies_ = rings_ && settings_.rings > 1;
  reads_ = ring_bodies_ && host_.reads();
  reads_all_ = reads_ && settings_.rings == 4;
  shares_ = reads_ && settings_.rings > 4;
  since_mpi_ = 0;
  received_ = 0;
  auto limit = static_cast<int>(head_limit), agreed = 0;
  if (rings_) {
    const std::size_t largest = ring_sender::most_cells_of(cells) * cell_bytes;
    limit = static_cast<int>(std::min(head_limit, largest - ring_sender::header_bytes - ring_sender::extra_bytes));
  }
  check(MPI_Allreduce(&limit, &agreed, 1, MPI_INT, MPI_MIN, heads), "MPI_Allreduce");
  head_limit_ = static_cast<std::size_t>(agreed);
  if (!rings_) return;

  const auto n = static_cast<std::size_t>(host_.size());
  const std::byte* const begin = host_.rings_to(host_.rank());
  const std::size_t bytes = n * host_.ring_bytes(cells);
  auto* const area = new ring_area{begin, begin + bytes, nullptr, areas_.load(std::memory_order_relaxed)};
  area->lent = std::make_unique<std::atomic<std::uint8_t>[]>(bytes / cell_bytes);
  areas_.store(area, std::memory_order_release); // pairs with `give_back`
  inbound_rings_ = std::make_unique<inbound_ring[]>(n);
  for (int i = 0; i < size_; ++i) {
    const int place = host_.place_of(i);
    if (place < 0 || i == rank_) continue;
    peer& other = peers_[static_cast<std::size_t>(i)];
    other.ring = std::make_unique<ring_sender>();
    other.ring->open(host_.ring(host_.rank(), place), cells, 3 * cells / 16); // the largest head in pieces
    inbound_ring& from = inbound_rings_[static_cast<std::size_t>(place)];
    from.source = i;
    ring_shared* const memory = host_.ring(place, host_.rank());
    from.ring.open(
        memory, cells,
        &area->lent[static_cast<std::size_t>(reinterpret_cast<std::byte*>(memory + 1) - begin) / cell_bytes]);
  }
  poller_.open(n, host_.marks(host_.rank()));
}

void endpoint::close_rings() {
  if (!rings_) return;
  for (int i = 0; i < host_.size(); ++i)
    if (slot* s = inbound_rings_[static_cast<std::size_t>(i)].pieces) slots_.put(s);
  inbound_rings_.reset();
  starving_.clear();
  unsettled_.clear();
  lenders_.clear();
  reading_.clear();
  rings_ = false;
}

void endpoint::give_back(void* head) {
  const auto* const at = static_cast<const std::byte*>(head);
  constexpr std::less<> before;
  // acquire: the area's members were written before.
  for (const ring_area* area = areas_.load(std::memory_order_acquire); area; area = area->earlier)
    if (!before(at, area->begin) && before(at, area->end)) {
      // release: the head was read before it is given back; see `ring_receiver::credit_now`.
      area->lent[static_cast<std::size_t>(at - area->begin) / cell_bytes].store(0, std::memory_order_release);
      return;
    }
  slots_.give_back(slot::of(head));
}

// ---- sending

/// \return 0, as `send` does.
int endpoint::refused(peer& to, int destination) {
  if (to.ring->broken()) throw broken(destination, "credit for messages that it was not sent");
  if (!to.starving) {
    to.starving = true;
    starving_.push_back(destination);
  }
  return 0;
}

int endpoint::send_by_ring(peer& to, int destination, const void* head, std::size_t head_size, const void* body,
                           std::size_t body_size, void* token, std::uint64_t where, bool urgent) {
  ring_sender& ring = *to.ring;
  const carrier by = body ? carrier_for(to, destination, head_size, body_size, where, urgent) : carrier::none;
  if (body && by == carrier::none) return 0;
  urgent = urgent && by != carrier::ring;
  const auto* from = static_cast<const std::byte*>(head);
  std::uint32_t cells = ring_sender::cells_of(head_size, body != nullptr);
  const std::uint32_t space = ring.space(cells, urgent);
  if (space == 0) return refused(to, destination);
  if (space < cells) {
    if (!put_in_pieces(ring, from, head_size, urgent)) return refused(to, destination);
    cells = 1;
  }
  if (head_size) std::memcpy(ring.place(), from, head_size);
  if (body) {
    ring_trailer end = ring_trailer::of(ring_trailer::by_mpi, body_size, fragment_);
    if (by == carrier::ring) end = ring_trailer::of(ring_trailer::in_ring, body_size, 0);
    if (by == carrier::reading)
      // address: the receiver reads there
      end = ring_trailer::of(ring_trailer::to_be_read, body_size, reinterpret_cast<std::uintptr_t>(body));
    if (by == carrier::shared) end = ring_trailer::of(ring_trailer::shared, body_size, where);
    std::memcpy(ring.extra_place(cells), &end, sizeof end);
  }
  if (by == carrier::reading) lend(to, destination, token, body_size);
  ring.publish({static_cast<std::uint32_t>(head_size), body ? ring_record::with_extra : std::uint8_t{0}, cells},
               received_);
  if (by == carrier::ring) {
    put_body(to, destination, static_cast<const std::byte*>(body), body_size);
  } else if (by == carrier::mpi) {
    ++to.bodies_sent;
    unsettle(to, destination);
    send_body(destination, body, body_size, token);
  }
  announce(destination);
  if (by == carrier::shared) {
    ++to.shared_sent;
    return 3;
  }
  return by == carrier::ring ? 2 : 1;
}

/// All but the last piece; there is space for that one then.
[[gnu::noinline]] bool endpoint::put_in_pieces(ring_sender& ring, const std::byte*& head, std::size_t& size,
                                               bool urgent) {
  if (!ring.space_for_singles(static_cast<std::uint32_t>((size - 1) / piece + 1), urgent)) return false;
  for (; size > piece; size -= piece, head += piece) {
    ring.space(1, urgent);
    std::memcpy(ring.place(), head, piece);
    ring.publish({piece, another_piece, 1}, received_);
  }
  ring.space(1, urgent);
  return true;
}

/// Whether a ring that had no space for us has some now; each is told of once.
bool endpoint::has_new_room() {
  return std::erase_if(starving_, [this](int destination) {
           peer& to = peers_[static_cast<std::size_t>(destination)];
           to.starving = to.ring->starved();
           return !to.starving;
         }) != 0;
}

// Part of the last look before a sleep: the receiver clears `starved` and then rings, as
// doorbell.hpp explains.
bool endpoint::starves_no_more() const {
  return std::any_of(starving_.begin(), starving_.end(), [this](int destination) {
    return !peers_[static_cast<std::size_t>(destination)].ring->starved();
  });
}

// ---- bodies

void endpoint::unsettle(peer& other, int rank) {
  if (other.unsettled) return;
  other.unsettled = true;
  unsettled_.push_back(rank);
  busy_ = true;
}

/// Whether all bodies of the two of us have been received, and the other rank knows it.
bool endpoint::settled(int rank) const {
  const peer& other = peers_[static_cast<std::size_t>(rank)];
  const int place = host_.place_of(rank);
  return host_.ring(host_.rank(), place)->receivers_count.load(std::memory_order_relaxed) == other.bodies_sent &&
         host_.ring(place, host_.rank())->senders_count.load(std::memory_order_relaxed) == other.bodies_received;
}

/// Calls MPI if it may hold something back.
void endpoint::settle() {
  std::erase_if(unsettled_, [this](int rank) {
    peer& other = peers_[static_cast<std::size_t>(rank)];
    other.unsettled = !settled(rank);
    return !other.unsettled;
  });
  int found = 0; // not used
  if (!unsettled_.empty() && !in_flight())
    check(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, bodies_, &found, MPI_STATUS_IGNORE), "MPI_Iprobe");
}

// ---- receiving

/// Whether no more of this source's messages are taken out of its ring for now.
bool endpoint::blocked(int source) const {
  const peer& from = peers_[static_cast<std::size_t>(source)];
  if (from.in && from.in->queue.size() >= most_behind) return true;
  return from.ring &&
         inbound_rings_[static_cast<std::size_t>(host_.place_of(source))].filling == carrier::reading; // until whole
}

bool endpoint::ready(std::size_t place) const {
  const inbound_ring& from = inbound_rings_[place];
  return from.source >= 0 && from.ring.ready() && !blocked(from.source);
}

bool endpoint::next_of_rings(tern_transport_arrival& into) {
  return poller_.next([&](std::size_t place) { return take(inbound_rings_[place], into); },
                      [this](std::size_t place) { return ready(place); });
}

failure endpoint::broken_record(int source, const ring_record& r) {
  return broken(source, "a record of " + std::to_string(r.size()) + " bytes in " + std::to_string(r.cells()) +
                            " places of its ring");
}

/// The next message of one rank. Gives credit before, while the heads of earlier ones are hardly
/// lent any more, and whether or not there is another.
inline bool endpoint::take(inbound_ring& from, tern_transport_arrival& into) {
  if (from.source < 0) return false;
  if (from.ring.give_credit()) [[unlikely]]
    bell.ring(from.source);
  ring_record r;
  const found what = from.ring.look(r);
  if (what == found::nothing) return false;
  if (what != found::record || !r.plain() || !from.ring.may_lend() || from.unusual() ||
      peers_[static_cast<std::size_t>(from.source)].waiting()) [[unlikely]]
    return take_other(from, into);
  into.source = from.source;
  into.head = into.slot = from.ring.head();
  into.head_size = r.size();
  into.body = nullptr;
  into.body_size = 0;
  into.token = nullptr;
  from.ring.lend(r);
  from.ring.pass(r);
  nap_ = first_nap;
  ++received_;
  return true;
}

/// What is not just a head in its cell.
[[gnu::noinline]] bool endpoint::take_other(inbound_ring& from, tern_transport_arrival& into) {
  const int source = from.source;
  for (int queued = 0; queued < most_queued && !blocked(source);) {
    if (from.ring.give_credit()) bell.ring(source); // what is queued is kept
    ring_record r;
    const found what = from.ring.look(r);
    if (what == found::nothing) return false;
    if (what == found::broken) throw broken_record(source, r);
    incoming message{};
    if (from.filling == carrier::ring) {
      if (!take_piece(from, r)) continue;
      message = from.message;
    } else {
      ring_trailer end{};
      if (!take_head(from, r, message, end)) continue;
      if (end.word != 0) {
        if (shares_ && from.may_map) [[unlikely]]
          try_to_map(from);
        if (end.how() == ring_trailer::by_mpi) {
          if (!receive_large(source, {end.body_size(), end.where}, message)) {
            ++queued;
            continue;
          }
          received(into, source, message);
          return true;
        }
        if (end.how() == ring_trailer::shared)
          take_shared(from, end, message);
        else if (!expects_body(from, end, message))
          continue;
      }
    }
    if (!peers_[static_cast<std::size_t>(source)].waiting()) {
      received(into, source, message);
      return true;
    }
    queue_behind(source, message);
    ++queued;
  }
  return false;
}

/// Takes the next record of a head. \return whether it was the last: then `end` is what it says of
/// a body.
bool endpoint::take_head(inbound_ring& from, const ring_record& r, incoming& message, ring_trailer& end) {
  const std::size_t size = from.size + r.size();
  if (r.flags() > (another_piece | ring_record::with_extra) || size > head_limit_) throw broken_record(from.source, r);
  const bool more = (r.flags() & another_piece) != 0, announces = (r.flags() & ring_record::with_extra) != 0;
  if (more || from.pieces) {
    if (!from.pieces) from.pieces = slot_pool::take_single(head_limit_);
    if (r.size()) std::memcpy(static_cast<std::byte*>(from.pieces->data()) + from.size, from.ring.head(), r.size());
    from.size = size;
    if (more) {
      from.ring.pass(r);
      return false;
    }
    message.head = std::exchange(from.pieces, nullptr)->data();
    from.size = 0;
  } else if (from.ring.may_lend() && !announces) {
    message.head = from.ring.head();
    from.ring.lend(r);
  } else {
    // Also the head of a message with a body, which may fill the ring: what is lent when credit is
    // given costs both ends time.
    slot* const s = slots_.take();
    message.head = s->data();
    if (size) std::memcpy(message.head, from.ring.head(), size);
  }
  message.head_size = size;
  if (announces) {
    std::memcpy(&end, from.ring.extra(r), sizeof end);
    if (end.body_size() == 0) throw broken_record(from.source, r);
  }
  from.ring.pass(r);
  ++received_;
  return true;
}

} // namespace tern_mpi
