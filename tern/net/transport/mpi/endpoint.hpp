// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// One process' end of the network over MPI. See tern/net/transport_abi.h for the contract.
///
/// Heads to ranks of the same host travel through rings in memory that these share (host.hpp,
/// rings.cpp), if there are any; then all of them do, so that they stay in order. A ring's cells
/// are the receiver's space for the sender. Bodies of middle size go the same way; larger ones the
/// receiver reads out of the sender's memory (bodies.cpp), if the system lets it.
///
/// Other heads travel on a communicator of their own, one MPI message each: by MPI_Send where that
/// only copies, else by MPI_Isend from a copy of ours, so that sending never waits for the
/// receiver. A receiver has `all_credits` of space for each sender; the tag of every message
/// returns the credits of those received since the last. If nothing goes back, an empty message
/// does it.
///
/// Other bodies travel on a second communicator, by MPI's own protocol for large messages: sent
/// together with the head that announces them, received when that head has arrived. Pieces of one
/// pair of ranks are matched in their order. While a body is under way, later messages of its
/// source wait for it.
///
/// Receiving by MPI: persistent receives from any rank are posted ahead and matched in that order.
/// So only the oldest is ever tested, and data go straight into the slot that the core gets.
/// Without preallocation: a matched probe and malloc. If all ranks are on this host and have rings,
/// MPI is asked for nothing while no body is under way. But a send that is complete here may not
/// have left: MPI keeps what its queues have no space for, until it is called again. So both ends
/// of a ring count its bodies, and call MPI until they agree.
#include <mpi.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include <tern/net/transport/carrier_choice.hpp>
#include <tern/net/transport_abi.h>

#include "common.hpp"
#include "doorbell.hpp"
#include "host.hpp"
#include "slot.hpp"

namespace tern_mpi {

using tern::net::detail::carrier_choice;
using tern::net::detail::ring_receiver;
using tern::net::detail::ring_record;
using tern::net::detail::ring_sender;
using tern::net::detail::told_costs;

class endpoint {
public:
  void init(int* argc, char*** argv, const tern_transport_settings& settings, tern_transport_info& info);
  int send(int destination, const void* head, std::size_t head_size, const void* body, std::size_t body_size,
           void* token, std::uint64_t where, bool urgent);
  int receive(tern_transport_arrival& into);
  bool may_have_input() const;
  void give_back(void* head);
  void wait(std::int64_t at_most);
  void finish();

  doorbell bell;
  MPI_Comm heads = MPI_COMM_NULL;
  bool active = false;

private:
  struct arrived { // whole, or a head of which we know only what MPI told us
    slot* head;
    std::size_t size;
    int source, tag;
  };
  /// A message that has not arrived whole, or one behind it.
  struct incoming {
    void* head; // in a slot or in a ring
    std::size_t head_size;
    char* body;
    std::size_t body_size, fragment;
    std::size_t posted;      // bytes for which a receive was started
    int under_way;           // receives that are not complete
    std::uint64_t where = 0; // in the source's segment
    bool complete() const { return posted == body_size && under_way == 0; }
  };
  enum class carrier : std::uint8_t { none, mpi, ring, reading, shared }; // of a body
  struct inbound { // from one source, in the order sent; a deque, so that addresses stay
    std::deque<incoming> queue;
    std::size_t next = 0; // the first that lacks receives
    int under_way = 0;
  };
  struct lent_body {
    void* token;
    std::size_t bytes;
  };
  struct peer {
    int credits = all_credits; // space for us over there
    int owed = 0;              // messages of theirs received since we told them
    bool on_host = false;
    std::uint32_t heads_sent = 0, heads_received = 0; // of ours; numbers only ever compared, so they may wrap
    std::uint32_t sent = 0, received = 0;             // the places that they took in MPI's memory for this pair
    std::unique_ptr<inbound> in;
    std::unique_ptr<ring_sender> ring; // to a rank of this host; null: by MPI
    bool starving = false;             // in `starving_`
    bool unsettled = false;            // in `unsettled_`
    // Of bodies that rings announce: sent to it, of these let go by MPI, and received from it
    // whole. Or, if ranks read each other's memory: announced, of these read, and those of its that
    // we have read.
    std::uint64_t bodies_sent = 0, bodies_left = 0, bodies_received = 0;
    std::deque<lent_body> lent; // that it reads, in the order sent
    carrier_choice choice;      // for bodies that may go either way
    std::size_t bytes_lent = 0;
    bool announced = false, maps = false;               // our segment; and it has mapped it
    std::uint64_t shared_sent = 0, shared_left = 0;     // bodies there, and those taken as far as we know
    std::array<std::uint32_t, all_credits> sent_with{}; // `sent` after each head
    bool waiting() const { return in && !in->queue.empty(); }
  };
  struct ready_message {
    incoming message;
    int source;
  };
  struct large_send {
    std::size_t remaining; // pieces that MPI still reads
    void* token;
  };
  struct send_record { // one of token and large
    void* token;
    large_send* large;
    int destination;
  };
  struct head_copy { // MPI reads it
    MPI_Request request;
    void* memory;
  };
  struct receive_record {
    int source, size;
    incoming* message;
  };
  struct inbound_ring {
    ring_receiver ring;
    int source = -1;                 // -1: there is none from there
    slot* pieces = nullptr;          // a head that comes in pieces
    std::size_t size = 0;            // of them until now
    carrier filling = carrier::none; // `message` lacks some of its body, `posted` bytes are here
    incoming message{};
    std::uint64_t address = 0;  // over there, of a body that is read
    std::uint64_t taken_in = 0; // ticks, of a body that comes through the ring
    told_costs takes, reads;
    bool mapped = false, may_map = true; // the source's segment; it has not been tried
    std::uint64_t shared_taken = 0;
    bool unusual() const { return pieces != nullptr || filling != carrier::none; }
  };
  struct ring_area { // the rings to this rank; lives for ever, as heads may come back then
    const std::byte *begin, *end;
    std::unique_ptr<std::atomic<std::uint8_t>[]> lent; // for each cell, see ring_receiver::open
    ring_area* earlier;                                // of an earlier job of this process
  };

  int start_mpi(int* argc, char*** argv, bool multithreaded);

  // endpoint.cpp: sending
  bool sends_at_once(const peer& to, std::size_t size) const;
  void send_head(peer& to, int destination, const void* data, std::size_t size, int tag);
  void send_copy(int destination, const void* data, std::size_t size, int tag);
  void send_body(int destination, const void* body, std::size_t size, void* token);
  void return_credits(peer& to, int destination);
  void track(MPI_Request request, const send_record& record);
  void sent(const send_record& record);
  void test_sends();
  void test_copies();

  // rings.cpp
  void open_rings();
  void close_rings();
  void announce(int destination);
  int refused(peer& to, int destination);
  int send_by_ring(peer& to, int destination, const void* head, std::size_t head_size, const void* body,
                   std::size_t body_size, void* token, std::uint64_t where, bool urgent);
  bool put_in_pieces(ring_sender& ring, const std::byte*& head, std::size_t& size, bool urgent);
  bool next_of_rings(tern_transport_arrival& into);
  bool take(inbound_ring& from, tern_transport_arrival& into);
  bool take_other(inbound_ring& from, tern_transport_arrival& into);
  bool take_head(inbound_ring& from, const ring_record& r, incoming& message, ring_trailer& end);
  static failure broken_record(int source, const ring_record& r);
  bool blocked(int source) const;
  bool ready(std::size_t place) const;
  bool has_new_room();
  bool starves_no_more() const;
  void unsettle(peer& other, int rank);
  bool settled(int rank) const;
  void settle();

  // bodies.cpp
  carrier carrier_for(peer& to, int destination, std::size_t head_size, std::size_t body_size, std::uint64_t where,
                      bool urgent);
  bool shares_with(peer& to, int destination);
  void try_to_map(inbound_ring& from);
  void take_shared(inbound_ring& from, const ring_trailer& end, incoming& message);
  bool reads_cheaper(peer& to, int destination, std::size_t body_size);
  void put_body(peer& to, int destination, const std::byte* body, std::size_t size);
  void lend(peer& to, int destination, void* token, std::size_t bytes);
  bool any_read() const;
  void take_read();
  void land(int source, incoming& message);
  bool expects_body(inbound_ring& from, const ring_trailer& end, incoming& message);
  bool take_piece(inbound_ring& from, const ring_record& r);
  enum class reading { some, whole, of_the_dead };
  reading read_some(inbound_ring& from);
  void read_on();

  // receive.cpp
  int next_message(tern_transport_arrival& into);
  int next_by_mpi(tern_transport_arrival& into);
  bool next_head(arrived& one);
  bool test_oldest(arrived& one);
  bool probe(arrived& one);
  void refill();
  void post(slot* s);
  int head_is_there() const;
  int received(tern_transport_arrival& into, int source, const incoming& message);
  bool other_work(tern_transport_arrival& into, int& what);
  bool receive_large(int source, const trailer& end, incoming& message);
  void queue_behind(int source, const incoming& message);
  void start_receives(int source);
  void test_receives();
  void piece_arrived(const receive_record& record, const MPI_Status& status);
  void move_complete(int source);
  bool in_flight() const { return !send_requests_.empty() || !receive_requests_.empty(); }
  bool has_other_work() const {
    return in_flight() || !ready_.empty() || !sent_.empty() || !stalled_.empty() || !deferred_.empty() ||
           !unsettled_.empty() || !lenders_.empty() || !reading_.empty();
  }

  // More posted receives make each match and each test slower, fewer make bursts slower.
#ifdef OPEN_MPI
  static constexpr unsigned most_posted = 16;
#else
  static constexpr unsigned most_posted = 8;
#endif

  static constexpr std::int64_t first_nap = 100; // microseconds

  // What every send and receive touches.
  int rank_ = 0, size_ = 1;
  bool posting_ = true;                 // receives ahead
  unsigned oldest_ = 0, posted_ = 0;    // in `posts_`
  std::uint32_t unreceived_ = 0;        // what our messages take up in MPI's memory at all receivers
  std::uint32_t most_unreceived_ = 0;   // of that, for MPI_Send (MPICH only)
  bool busy_ = false;                   // has_other_work(), for one test instead of four
  bool rings_ = false;                  // there are some
  bool heads_by_mpi_ = true;            // some come so
  bool ring_bodies_ = false;            // bodies too may travel without MPI
  bool reads_ = false;                  // the ranks of this host may read each other's memory
  bool reads_all_ = false;              // and do so whatever it costs
  bool shares_ = false;                 // and may map each other's segments
  int since_mpi_ = 0;                   // messages of rings since MPI was asked
  std::size_t head_limit_ = head_limit; // the job's
  std::uint64_t received_ = 0;          // messages of rings, see ring_sender::send_small
  std::vector<peer> peers_;
  std::array<slot*, most_posted> posts_{};
  slot_pool slots_;
  ring_poller poller_;
  std::unique_ptr<inbound_ring[]> inbound_rings_; // by the sender's place on this host
  std::atomic<ring_area*> areas_{nullptr};        // the newest

  host host_;
  std::vector<int> starving_;  // destinations whose ring had no space
  std::vector<int> unsettled_; // ranks with which MPI may not have done all that it was told
  unsigned settlings_ = 0;
  bool mine_ = false; // we initialised MPI, so we finalise it
  std::size_t fragment_ = 0;
  std::int64_t nap_ = 0;
  bool progressed_ = false; // transfers did, since the last `wait`
  bool refused_ = false;    // a message, since the last credits came
  tern_transport_settings settings_{};
  MPI_Comm bodies_ = MPI_COMM_NULL;

  // MPI wants its requests contiguous: records run beside them, index by index.
  std::vector<MPI_Request> send_requests_, receive_requests_;
  std::vector<send_record> send_records_;
  std::vector<receive_record> receive_records_;
  std::size_t next_test_ = 0;
  std::deque<head_copy> copies_;
  std::vector<void*> spare_copies_;
  std::vector<void*> sent_; // tokens to give back
  std::deque<ready_message> ready_;
  std::string deferred_;             // why `wait` failed
  std::vector<int> stalled_;         // sources whose next body found no memory
  std::vector<int> lenders_;         // destinations that read bodies of ours
  std::vector<std::size_t> reading_; // places of ranks that we read bodies of
  std::size_t next_read_ = 0;        // of them
  int put_off_ = 0;                  // calls of `receive` since something was read
};

/// There is something in the destination's ring.
inline void endpoint::announce(int destination) {
  if (poller_.has_marks())
    ring_poller::mark(host_.marks(host_.place_of(destination)), static_cast<std::size_t>(host_.rank()));
  bell.ring(destination);
}

} // namespace tern_mpi
