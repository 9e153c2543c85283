// SPDX-License-Identifier: Apache-2.0
/// \file
/// Bodies between the ranks of one host: what MPI need not carry.
///
/// A body of middle size, if there is space for all of it, follows its head through the ring, in
/// records marked as special: two copies, but no system call, and the sender's memory is free at
/// once. The receiver copies each record into the memory that the core gives for the body; a source
/// has at most one body that is not whole, since its records follow each other.
///
/// A larger one stays where it is; and one of middle size, if copying through the ring has cost
/// more (carrier_choice.hpp). Its head says where, the receiver copies it from there with
/// process_vm_readv(2), up to `most_read` bytes in one call of `receive`, and counts
/// (`receivers_count`) the bodies that it has read. These are read in the order sent, so the count
/// tells the sender which of them are needed no more; the sender does nothing else. What follows
/// from the same source stays in the ring meanwhile.
///
/// A body that lies in the sender's segment (memory/shared_memory.hpp) may stay there: the head
/// says where, and the message is whole. The core looks after who has it. Only `most_bodies` may be
/// sent so that the receiver has not come to.
///
/// Memory of devices that is mapped into the process, but that the system cannot pin, cannot be
/// read so; that is an error of the receiver.
#include "endpoint.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <sys/uio.h>

#include <tern/trace/record/clock.hpp>

namespace tern_mpi {

using tern::trace::detail::counter;

namespace {

// What the ring has space for; above, to read it costs less wherever the two ranks are.
constexpr std::size_t most_in_ring = tern::net::detail::most_choice;
constexpr std::size_t most_read = std::size_t{1} << 20; // while other messages wait
constexpr std::uint32_t body_cells = 64;                // of a record: the receiver copies one while we fill the next
// Bodies under way to one rank: an MPI looks at all that it could not start each time; and what is
// lent is memory.
constexpr unsigned most_bodies = all_credits, urgent_bodies = urgent_credits;
constexpr std::size_t most_lent = std::size_t{64} << 20; // bytes, or one body
constexpr std::uint8_t body_piece = ring_record::special;

constexpr std::size_t held_by(std::uint32_t cells) {
  return cells * ring_sender::cell_bytes - ring_sender::header_bytes;
}

} // namespace

// ---- the sender

/// Whether a body that the ring has space for had better be read.
bool endpoint::reads_cheaper(peer& to, int destination, std::size_t body_size) {
  if (!reads_ || !tern::net::detail::has_choice(body_size)) return false;
  if (reads_all_) return true;
  const ring_shared& told = *host_.ring(host_.rank(), host_.place_of(destination));
  return to.choice.choose(body_size, told.takes_cost.load(std::memory_order_relaxed),
                          told.reads_cost.load(std::memory_order_relaxed)) == carrier_choice::way::reading;
}

/// Whether a body in our segment may stay there for this receiver. Its segment is told with the
/// first; the receiver maps it when that arrives, and answers.
bool endpoint::shares_with(peer& to, int destination) {
  if (!shares_) return false;
  ring_shared& told = *host_.ring(host_.rank(), host_.place_of(destination));
  if (!to.maps) [[unlikely]] {
    // release: the segment's first page was written before it is mapped.
    if (!to.announced)
      told.segment.store(static_cast<std::uint32_t>(settings_.segment(settings_.context)) + 1,
                         std::memory_order_release);
    to.announced = true;
    to.maps = told.segment_mapped.load(std::memory_order_relaxed) != 0; // a flag and nothing behind it
    if (!to.maps) return false;
  }
  // Not far ahead of the receiver: memory that was used last is in the caches. Beyond, the body
  // goes one of the ways that make us wait.
  if (to.shared_sent - to.shared_left >= most_bodies)
    to.shared_left = told.shared_taken.load(std::memory_order_relaxed);
  return to.shared_sent - to.shared_left < most_bodies;
}

/// \return none: there is no space for now. What goes by the ring is not urgent: it must leave
/// space for what is.
endpoint::carrier endpoint::carrier_for(peer& to, int destination, std::size_t head_size, std::size_t body_size,
                                        std::uint64_t where, bool urgent) {
  if (where != 0 && shares_with(to, destination)) return carrier::shared;
  if (ring_bodies_ && body_size <= most_in_ring && !reads_cheaper(to, destination, body_size)) {
    // As if all went in records of one cell: that is what it comes to if what others keep lies
    // everywhere.
    const std::uint32_t head = ring_sender::cells_of(head_size, true);
    const auto body = static_cast<std::uint32_t>((body_size - 1) / held_by(1) + 1);
    const std::uint32_t largest = std::min({body_cells, to.ring->largest(), ring_sender::cells_of(body_size, false)});
    if (to.ring->space_now(head + head / 3 + 1 + body, std::max(head, largest), false)) return carrier::ring;
  }
  const std::uint64_t under_way = to.bodies_sent - to.bodies_left;
  if (under_way >= most_bodies - (urgent ? 0 : urgent_bodies)) return carrier::none; // to let one go makes space
  if (!reads_) return carrier::mpi;
  return under_way == 0 || body_size <= most_lent - std::min(most_lent, to.bytes_lent) ? carrier::reading
                                                                                       : carrier::none;
}

/// \pre there is space for it.
void endpoint::put_body(peer& to, int destination, const std::byte* body, std::size_t size) {
  ring_sender& ring = *to.ring;
  const std::uint32_t most = std::min(body_cells, ring.largest());
  const std::size_t whole = size;
  const std::uint64_t began = counter();
  while (size > 0) {
    const std::uint32_t cells = ring.space(std::min(most, ring_sender::cells_of(size, false)), false);
    if (cells == 0) throw broken(destination, "credit for messages that it was not sent");
    const std::size_t part = std::min(size, held_by(cells));
    std::memcpy(ring.place(), body, part);
    ring.publish({static_cast<std::uint32_t>(part), body_piece, cells}, received_);
    body += part;
    size -= part;
  }
  to.choice.sent(counter() - began, whole);
}

/// The destination is about to be told of a body that it is to read.
void endpoint::lend(peer& to, int destination, void* token, std::size_t bytes) {
  if (to.lent.empty()) lenders_.push_back(destination);
  to.lent.push_back({token, bytes});
  to.bytes_lent += bytes;
  ++to.bodies_sent;
  busy_ = true;
}

/// Whether a body of ours was read that we have not given back.
bool endpoint::any_read() const {
  return std::any_of(lenders_.begin(), lenders_.end(), [this](int destination) {
    return host_.ring(host_.rank(), host_.place_of(destination))->receivers_count.load(std::memory_order_relaxed) !=
           peers_[static_cast<std::size_t>(destination)].bodies_left;
  });
}

void endpoint::take_read() {
  std::erase_if(lenders_, [this](int destination) {
    peer& to = peers_[static_cast<std::size_t>(destination)];
    const ring_shared& ring = *host_.ring(host_.rank(), host_.place_of(destination));
    // acquire: pairs with `read_some`; whatever is written there next comes after it was read.
    const std::uint64_t read = ring.receivers_count.load(std::memory_order_acquire);
    if (read - to.bodies_left > to.lent.size()) throw broken(destination, "word that it has read what it was not sent");
    for (; to.bodies_left != read; ++to.bodies_left) {
      sent_.push_back(to.lent.front().token);
      to.bytes_lent -= to.lent.front().bytes;
      to.lent.pop_front();
      progressed_ = true;
    }
    return to.lent.empty();
  });
}

// ---- the receiver

/// Maps the source's segment, if it has told of one: once, whether it can be mapped or not.
void endpoint::try_to_map(inbound_ring& from) {
  const int place = host_.place_of(from.source);
  ring_shared& told = *host_.ring(place, host_.rank());
  const std::uint32_t file = told.segment.load(std::memory_order_acquire); // see `shares_with`
  if (file == 0) return;
  from.may_map = false;
  from.mapped = settings_.map(settings_.context, from.source, host_.process(place), static_cast<int>(file - 1)) != 0;
  if (from.mapped) told.segment_mapped.store(1, std::memory_order_relaxed);
}

/// A head has come whose body lies in the source's segment.
void endpoint::take_shared(inbound_ring& from, const ring_trailer& end, incoming& message) {
  if (!from.mapped || end.body_size() > PTRDIFF_MAX)
    throw broken(from.source,
                 "word of a body of " + std::to_string(end.body_size()) + " bytes in memory that is not shared");
  message.body_size = message.posted = end.body_size();
  message.where = end.where;
  host_.ring(host_.place_of(from.source), host_.rank())
      ->shared_taken.store(++from.shared_taken, std::memory_order_relaxed); // a number and nothing behind it
}

/// A head has come that announces a body. \return whether the body is here; else `from` lacks it.
bool endpoint::expects_body(inbound_ring& from, const ring_trailer& end, incoming& message) {
  if (end.body_size() > PTRDIFF_MAX || end.how() > ring_trailer::to_be_read ||
      (end.how() == ring_trailer::to_be_read && !reads_))
    throw broken(from.source, "word of a body of " + std::to_string(end.body_size()) + " bytes");
  message.body_size = end.body_size();
  from.message = message;
  from.address = end.where;
  if (end.how() == ring_trailer::in_ring) {
    from.filling = carrier::ring;
    from.taken_in = 0;
    return false;
  }
  reading_.push_back(static_cast<std::size_t>(host_.place_of(from.source)));
  from.filling = carrier::reading;
  busy_ = true;
  const reading got = read_some(from);
  if (got == reading::some) return false;
  reading_.pop_back();
  message = from.message;
  return got == reading::whole;
}

/// The next record of a body. \return whether it was the last: then `from.message` is whole.
bool endpoint::take_piece(inbound_ring& from, const ring_record& r) {
  incoming& message = from.message;
  if (r.flags() != body_piece || r.size() == 0 || r.size() > message.body_size - message.posted)
    throw broken_record(from.source, r);
  if (!message.body) land(from.source, message); // if there is no memory, the next call of `receive` tries again
  const std::uint64_t began = counter();
  std::memcpy(message.body + message.posted, from.ring.head(), r.size());
  from.taken_in += counter() - began;
  message.posted += r.size();
  from.ring.pass(r);
  if (message.posted != message.body_size) return false;
  from.takes.add(from.taken_in, message.body_size, host_.ring(host_.place_of(from.source), host_.rank())->takes_cost);
  from.filling = carrier::none;
  return true;
}

/// The memory of a dead process cannot be read. What follows the body then stays in the ring too,
/// and the rank watch ends the job.
endpoint::reading endpoint::read_some(inbound_ring& from) {
  incoming& message = from.message;
  if (!message.body) land(from.source, message); // as above
  const std::size_t wanted = std::min({message.body_size - message.posted, most_read, fragment_});
  const iovec here{message.body + message.posted, wanted};
  const iovec there{reinterpret_cast<void*>(from.address + message.posted), wanted};
  const pid_t process = host_.process(host_.place_of(from.source));
  const std::uint64_t began = counter();
  const ssize_t got = process_vm_readv(process, &here, 1, &there, 1, 0);
  const std::uint64_t taken = counter() - began;
  if (got < 0) {
    const int why = errno;
    if (why == ESRCH) return reading::of_the_dead;
    throw failure("cannot read a message of " + std::to_string(message.body_size) + " bytes in the memory of rank " +
                  std::to_string(from.source) + ", process " + std::to_string(process) + ": " + std::strerror(why) +
                  "; TERN_MPI_RINGS=copies sends it by MPI");
  }
  message.posted += static_cast<std::size_t>(got);
  progressed_ = true;
  if (message.posted != message.body_size) return reading::some;
  from.filling = carrier::none;
  peer& source = peers_[static_cast<std::size_t>(from.source)];
  ring_shared& ring = *host_.ring(host_.place_of(from.source), host_.rank());
  // release: see `take_read`.
  ring.receivers_count.store(++source.bodies_received, std::memory_order_release);
  if (wanted == message.body_size) from.reads.add(taken, wanted, ring.reads_cost);
  bell.ring(from.source);
  return reading::whole;
}

/// A part of one body, of another source each time.
void endpoint::read_on() {
  put_off_ = 0;
  next_read_ = next_read_ < reading_.size() ? next_read_ : 0;
  const std::size_t place = reading_[next_read_++];
  inbound_ring& from = inbound_rings_[place];
  const reading got = read_some(from);
  if (got == reading::some) return;
  reading_.erase(reading_.begin() + static_cast<std::ptrdiff_t>(--next_read_));
  if (got == reading::of_the_dead) return;
  if (peers_[static_cast<std::size_t>(from.source)].waiting())
    queue_behind(from.source, from.message);
  else
    ready_.push_back({from.message, from.source});
  if (poller_.has_marks()) ring_poller::mark(host_.marks(host_.rank()), place); // it may have been cleared meanwhile
}

} // namespace tern_mpi
