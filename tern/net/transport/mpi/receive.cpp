// SPDX-License-Identifier: Apache-2.0
/// \file
/// Receiving: heads, and the bodies that follow them.
#include "endpoint.hpp"

#include <algorithm>
#include <cstring>
#include <exception>
#include <utility>

namespace tern_mpi {

namespace {

constexpr std::size_t slot_bytes = head_limit + sizeof(trailer);
constexpr int pieces_under_way = 16; // receives of one source at a time
constexpr unsigned few_posted = 4;   // below, new slots are made: the core keeps the others
constexpr int credit_messages = 8;   // taken in one call
constexpr int most_put_off = 32;     // calls in which messages of rings came before bodies that are read
constexpr int most_since_mpi = 32;   // messages of rings while others may wait

int count_of(const MPI_Status& status) {
#ifdef OPEN_MPI
  return static_cast<int>(status._ucount); // bytes; MPI_Get_count gives the same, 7 ns later
#else
  int bytes = 0;
  check(MPI_Get_count(&status, MPI_BYTE, &bytes), "MPI_Get_count");
  return bytes;
#endif
}

} // namespace

void endpoint::post(slot* s) {
  if (s->request == MPI_REQUEST_NULL)
    check(MPI_Recv_init(s->data(), static_cast<int>(slot_bytes), MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, heads,
                        &s->request),
          "MPI_Recv_init");
  check(MPI_Start(&s->request), "MPI_Start");
  posts_[(oldest_ + posted_++) % most_posted] = s;
}

void endpoint::refill() {
  while (posted_ < most_posted) {
    slot* s = slots_.find();
    if (!s) {
      if (posted_ >= few_posted) return; // a slot that is only being handled comes back soon
      s = slots_.take();
    }
    post(s);
  }
  slots_.trim();
}

/// Posting: the oldest receive is the first that a message matched.
inline bool endpoint::test_oldest(arrived& one) {
  if (posted_ < most_posted / 2) [[unlikely]]
    refill();
  slot* s = posts_[oldest_ % most_posted];
  int done = 0;
  MPI_Status status;
  const int rc = MPI_Test(&s->request, &done, &status);
  if (rc != MPI_SUCCESS) [[unlikely]] {
    ++oldest_;
    --posted_;
    slots_.put(s);
    if (done) throw broken(status.MPI_SOURCE, "a head that cannot be received (" + error_text(rc) + ")");
    raise(rc, "MPI_Test");
  }
  if (!done) {
    // Here and not before the test: what the sender waits for comes first.
    if (posted_ < most_posted) refill();
    return false;
  }
  ++oldest_;
  --posted_;
  one = {s, static_cast<std::size_t>(count_of(status)), status.MPI_SOURCE, status.MPI_TAG};
  return true;
}

bool endpoint::probe(arrived& one) {
  int found = 0;
  MPI_Message message = MPI_MESSAGE_NULL;
  MPI_Status status;
  check(MPI_Improbe(MPI_ANY_SOURCE, MPI_ANY_TAG, heads, &found, &message, &status), "MPI_Improbe");
  if (!found) return false;
  const int bytes = count_of(status);
  const auto size = static_cast<std::size_t>(bytes);
  if (size > slot_bytes) throw broken(status.MPI_SOURCE, "a head of " + std::to_string(size) + " bytes");
  slot* s = slot_pool::take_single(size);
  // An eager message is here: this only copies it. (From other hosts it may be waited for, while
  // the network brings it.)
  check(MPI_Mrecv(s->data(), bytes, MPI_BYTE, &message, MPI_STATUS_IGNORE), "MPI_Mrecv");
  one = {s, size, status.MPI_SOURCE, status.MPI_TAG};
  return true;
}

inline bool endpoint::next_head(arrived& one) { return posting_ ? test_oldest(one) : probe(one); }

int endpoint::head_is_there() const {
  if (posting_ && posted_ == 0) return 1;
  // Twice: MPICH's probe looks first and makes progress then, so that only the second one finds
  // what the first fetched.
  int found = 0;
  for (int i = 0; i < 2 && !found; ++i) {
    if (posting_)
      check(MPI_Request_get_status(posts_[oldest_ % most_posted]->request, &found, MPI_STATUS_IGNORE),
            "MPI_Request_get_status");
    else
      check(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, heads, &found, MPI_STATUS_IGNORE), "MPI_Iprobe");
  }
  return found;
}

/// The core gets a message; its sender gets space for another.
int endpoint::received(tern_transport_arrival& into, int source, const incoming& message) {
  into.source = source;
  into.head = into.slot = message.head;
  into.head_size = message.head_size;
  into.body = message.body;
  into.body_size = message.body_size;
  into.where = message.where;
  into.token = nullptr;
  nap_ = first_nap;
  peer& from = peers_[static_cast<std::size_t>(source)];
  if (!from.ring && ++from.owed >= most_owed) [[unlikely]]
    return_credits(from, source);
  return TERN_TRANSPORT_MESSAGE;
}

int endpoint::receive(tern_transport_arrival& into) {
  int what = TERN_TRANSPORT_NOTHING;
  if (busy_) [[unlikely]] {
    if (other_work(into, what)) return what;
  }
  what = next_message(into);
  if (what != TERN_TRANSPORT_NOTHING || reading_.empty()) [[likely]]
    return what;
  read_on();
  return other_work(into, what) ? what : TERN_TRANSPORT_NOTHING;
}

inline int endpoint::next_message(tern_transport_arrival& into) {
  if (!rings_) return next_by_mpi(into);
  if (!heads_by_mpi_) [[likely]]
    return next_of_rings(into) ? TERN_TRANSPORT_MESSAGE : TERN_TRANSPORT_NOTHING;
  if (since_mpi_ < most_since_mpi && next_of_rings(into)) {
    ++since_mpi_;
    return TERN_TRANSPORT_MESSAGE;
  }
  since_mpi_ = 0;
  if (next_by_mpi(into) == TERN_TRANSPORT_MESSAGE) return TERN_TRANSPORT_MESSAGE;
  return next_of_rings(into) ? TERN_TRANSPORT_MESSAGE : TERN_TRANSPORT_NOTHING;
}

int endpoint::next_by_mpi(tern_transport_arrival& into) {
  for (int i = 0; i < credit_messages; ++i) {
    arrived one; // written by next_head
    if (!next_head(one)) return TERN_TRANSPORT_NOTHING;
    peer& from = peers_[static_cast<std::size_t>(one.source)];
    incoming message{one.head->data(), one.size, nullptr, 0, 0, 0, 0};
    if (one.tag != 0) {
      const int credits = one.tag & credit_bits;
      if (one.tag > (credit_bits | has_body | only_credits) || credits > all_credits - from.credits || from.ring) {
        slots_.put(one.head);
        throw broken(one.source, "a message with tag " + std::to_string(one.tag));
      }
      from.credits += credits;
      if (credits) {
        from.heads_received += static_cast<std::uint32_t>(credits);
        const std::uint32_t received = from.sent_with[(from.heads_received - 1) % all_credits];
        unreceived_ -= received - from.received;
        from.received = received;
        if (refused_) [[unlikely]] { // the core must try again before it sleeps
          refused_ = false;
          progressed_ = true;
        }
      }
      if (one.tag & only_credits) {
        slots_.put(one.head);
        continue;
      }
      if (one.tag & has_body) {
        trailer end{};
        if (one.size >= sizeof end) {
          message.head_size = one.size - sizeof end;
          std::memcpy(&end, static_cast<char*>(message.head) + message.head_size, sizeof end);
        }
        if (receive_large(one.source, end, message)) return received(into, one.source, message);
        continue;
      }
    }
    if (one.size > head_limit_) {
      slots_.put(one.head);
      throw broken(one.source, "a head of " + std::to_string(one.size) + " bytes");
    }
    if (from.waiting()) [[unlikely]] {
      queue_behind(one.source, message);
      continue;
    }
    return received(into, one.source, message);
  }
  return TERN_TRANSPORT_NOTHING;
}

/// A message without a body, behind one whose body is under way.
void endpoint::queue_behind(int source, const incoming& message) {
  peers_[static_cast<std::size_t>(source)].in->queue.push_back(message);
  start_receives(source); // it lacks none: passes over it
  move_complete(source);
}

/// \return whether the whole message is here; else it is in its source's queue.
bool endpoint::receive_large(int source, const trailer& end, incoming& message) {
  if (end.body_size == 0 || end.body_size > PTRDIFF_MAX || end.fragment == 0 || end.fragment > largest_fragment) {
    give_back(message.head);
    throw broken(source,
                 "a body of " + std::to_string(end.body_size) + " bytes in pieces of " + std::to_string(end.fragment));
  }
  message.body_size = end.body_size;
  message.fragment = end.fragment;
  peer& from = peers_[static_cast<std::size_t>(source)];
  if (!from.in) from.in = std::make_unique<inbound>();
  from.in->queue.push_back(message);
  start_receives(source);
  inbound& in = *from.in;
  if (in.queue.size() > 1 || !in.queue.front().complete()) {
    move_complete(source);
    return false;
  }
  message = in.queue.front(); // came eagerly
  in.queue.pop_front();
  in.next = 0;
  return true;
}

/// Starts the receives of a source's bodies in the order of its messages, as far as the number
/// under way allows.
void endpoint::start_receives(int source) {
  inbound& in = *peers_[static_cast<std::size_t>(source)].in;
  for (; in.next < in.queue.size(); ++in.next) {
    incoming& message = in.queue[in.next];
    if (message.posted != message.body_size && !message.body) {
      try {
        land(source, message);
      } catch (const failure&) { // the next call of `receive` tries again
        if (std::find(stalled_.begin(), stalled_.end(), source) == stalled_.end()) stalled_.push_back(source);
        busy_ = true;
        throw;
      }
    }
    while (message.posted < message.body_size) {
      if (in.under_way >= pieces_under_way) return;
      const auto size = static_cast<int>(std::min(message.fragment, message.body_size - message.posted));
      MPI_Request request = MPI_REQUEST_NULL;
      check(MPI_Irecv(message.body + message.posted, size, MPI_BYTE, source, 0, bodies_, &request), "MPI_Irecv");
      message.posted += static_cast<std::size_t>(size);
      ++message.under_way;
      ++in.under_way;
      const receive_record record{source, size, &message};
      int done = 0;
      MPI_Status status;
      check(MPI_Test(&request, &done, &status), "MPI_Test");
      if (done) {
        piece_arrived(record, status);
      } else {
        receive_requests_.push_back(request);
        receive_records_.push_back(record);
        busy_ = true;
      }
    }
  }
}

void endpoint::piece_arrived(const receive_record& record, const MPI_Status& status) {
  const int size = count_of(status);
  if (size != record.size)
    throw broken(record.source,
                 "a piece of " + std::to_string(size) + " bytes instead of " + std::to_string(record.size));
  --record.message->under_way;
  peer& from = peers_[static_cast<std::size_t>(record.source)];
  --from.in->under_way;
  if (!record.message->complete()) return;
  if (from.ring) {
    host_.ring(host_.place_of(record.source), host_.rank())
        ->receivers_count.store(++from.bodies_received, std::memory_order_relaxed); // a number and nothing behind it
    unsettle(from, record.source);
  }
  bell.ring(record.source); // the sender may let go of its memory
}

/// What is whole now, and had nothing before it that is not, goes to the core in the calls that
/// follow.
void endpoint::move_complete(int source) {
  inbound& in = *peers_[static_cast<std::size_t>(source)].in;
  const bool was_blocked = blocked(source);
  while (!in.queue.empty() && in.queue.front().complete()) {
    ready_.push_back({in.queue.front(), source});
    in.queue.pop_front();
    --in.next;
    busy_ = true;
  }
  // Its mark may have been cleared meanwhile.
  if (was_blocked && peers_[static_cast<std::size_t>(source)].ring && poller_.has_marks() && !blocked(source))
    ring_poller::mark(host_.marks(host_.rank()), static_cast<std::size_t>(host_.place_of(source)));
}

void endpoint::test_receives() {
  if (receive_requests_.empty()) return;
  const auto arrived_at = [this](std::size_t at, const MPI_Status& status) {
    const receive_record record = receive_records_[at];
    receive_requests_[at] = receive_requests_.back();
    receive_records_[at] = receive_records_.back();
    receive_requests_.pop_back();
    receive_records_.pop_back();
    piece_arrived(record, status);
    return record.source;
  };
  constexpr int window = 64;
  std::array<int, window> done{};
  std::array<MPI_Status, window> statuses;
  int count = 0;
  const int n = static_cast<int>(std::min<std::size_t>(window, receive_requests_.size()));
  if (n == 1) {
    check(MPI_Test(receive_requests_.data(), &count, statuses.data()), "MPI_Test");
  } else {
    const int rc = MPI_Testsome(n, receive_requests_.data(), &count, done.data(), statuses.data());
    if (rc == MPI_ERR_IN_STATUS) {
      for (int i = 0; i < count; ++i) {
        const MPI_Status& status = statuses[static_cast<std::size_t>(i)];
        if (status.MPI_ERROR != MPI_SUCCESS && status.MPI_ERROR != MPI_ERR_PENDING)
          throw broken(status.MPI_SOURCE, "a body that cannot be received (" + error_text(status.MPI_ERROR) + ")");
      }
    }
    check(rc, "MPI_Testsome");
  }
  if (count <= 0) { // MPI_UNDEFINED is negative
    // The next window, so that the first receives cannot keep the others waiting.
    if (receive_requests_.size() > window) {
      std::rotate(receive_requests_.begin(), receive_requests_.begin() + window, receive_requests_.end());
      std::rotate(receive_records_.begin(), receive_records_.begin() + window, receive_records_.end());
    }
    return;
  }
  progressed_ = true;
  // From the back, so that the last element, which fills the hole, is never one that still has to
  // go.
  std::array<int, window> order{}, from{};
  for (int i = 0; i < count; ++i) order[static_cast<std::size_t>(i)] = i;
  std::sort(order.begin(), order.begin() + count,
            [&](int a, int b) { return done[static_cast<std::size_t>(a)] > done[static_cast<std::size_t>(b)]; });
  for (int i = 0; i < count; ++i) {
    const auto at = static_cast<std::size_t>(order[static_cast<std::size_t>(i)]);
    from[static_cast<std::size_t>(i)] = arrived_at(static_cast<std::size_t>(done[at]), statuses[at]);
  }
  // One source without memory for its next body keeps none of the others waiting.
  std::exception_ptr first;
  for (int i = 0; i < count; ++i) {
    const int source = from[static_cast<std::size_t>(i)];
    try {
      start_receives(source);
    } catch (const failure&) {
      if (!first) first = std::current_exception();
    }
    move_complete(source);
  }
  if (first) std::rethrow_exception(first);
}

void endpoint::land(int source, incoming& message) {
  message.body =
      static_cast<char*>(settings_.land(settings_.context, source, message.head, message.head_size, message.body_size));
  if (!message.body)
    throw failure("no memory for a message of " + std::to_string(message.body_size) + " bytes from rank " +
                  std::to_string(source));
}

/// All but heads. \return whether it gives the core something.
[[gnu::noinline]] bool endpoint::other_work(tern_transport_arrival& into, int& what) {
  if (!deferred_.empty()) throw failure(std::exchange(deferred_, std::string()));
  test_sends();
  test_receives();
  if (!unsettled_.empty() && ++settlings_ % 4 == 0) settle();
  if (!lenders_.empty()) take_read();
  if (!reading_.empty() && ++put_off_ >= most_put_off) read_on();
  while (!stalled_.empty()) {
    const int source = stalled_.back();
    stalled_.pop_back();
    start_receives(source);
    move_complete(source);
  }
  bool found = false;
  if (!ready_.empty()) {
    const ready_message one = ready_.front();
    ready_.pop_front();
    what = received(into, one.source, one.message);
    found = true;
  } else if (!sent_.empty()) {
    into.token = sent_.back();
    sent_.pop_back();
    nap_ = first_nap;
    what = TERN_TRANSPORT_SENT;
    found = true;
  }
  busy_ = has_other_work();
  return found;
}

} // namespace tern_mpi
