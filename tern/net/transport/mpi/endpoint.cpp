// SPDX-License-Identifier: Apache-2.0
/// \file
/// Starting, sending, sleeping and finishing.
#include "endpoint.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <utility>

namespace tern_mpi {

namespace {

constexpr std::size_t smallest_fragment = 64;                   // below, MPI's own headers would be most of the traffic
constexpr int tests_per_call = 64;                              // the bound on the work of one call
constexpr std::int64_t nap_in_flight = 1000, nap_remote = 2000; // microseconds
constexpr std::int64_t safety = 50'000; // a bell can't be lost, but MPI may hold a message back inside the sender

const char* level_name(int level) {
  switch (level) {
  case MPI_THREAD_SINGLE:
    return "single";
  case MPI_THREAD_FUNNELED:
    return "funneled";
  case MPI_THREAD_SERIALIZED:
    return "serialized";
  case MPI_THREAD_MULTIPLE:
    return "multiple";
  default:
    return "unknown";
  }
}

/// "Open MPI v4.1.4, package: …" and "MPICH Version:\t4.0.2\n…" become "Open MPI 4.1.4" and "MPICH
/// 4.0.2".
std::string library_name() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING] = "";
  int length = 0;
  check(MPI_Get_library_version(text, &length), "MPI_Get_library_version");
  const std::string all(text);
  const auto digit = all.find_first_of("0123456789");
#ifdef OPEN_MPI
  const std::string name = "Open MPI ";
#else
  const std::string name = "MPICH ";
#endif
  if (digit == std::string::npos) return all.substr(0, all.find('\n'));
  return name + all.substr(digit, all.find_first_of(", \t\r\n", digit) - digit);
}

constexpr std::size_t copies_kept = 64; // for the next ones

// What messages take up, until they are received, in memory of MPI's that MPI_Send would wait for.
#ifdef OPEN_MPI
// In bytes. Measured with 4.1.4: MPI_Send returns at once for up to 256 bytes, as long as they fit
// into the 4096 bytes that vader has for the pair of ranks. Anything else waits until the receiver
// has taken it, "eager" or not.
constexpr std::size_t inline_limit = 256, pair_limit = 3000, header = 40;
constexpr std::uint32_t piece_cost = 400; // of a body: the announcement by MPI itself, or all of it
std::uint32_t head_cost(std::size_t size) {
  return size <= inline_limit ? static_cast<std::uint32_t>(size + header) : 0;
}
#else
// In places of a receiver, see all_credits.
constexpr std::uint32_t certain_places = 24, piece_cost = 1;
std::uint32_t head_cost(std::size_t) { return 1; }
#endif

} // namespace

int endpoint::start_mpi(int* argc, char*** argv, bool multithreaded) {
  const int needed = multithreaded ? MPI_THREAD_FUNNELED : MPI_THREAD_SINGLE;
  int initialized = 0, finalized = 0, level = MPI_THREAD_SINGLE;
  check(MPI_Initialized(&initialized), "MPI_Initialized");
  check(MPI_Finalized(&finalized), "MPI_Finalized");
  if (finalized) throw failure("MPI was finalised already in this process and cannot start again");
  if (initialized) {
    check(MPI_Query_thread(&level), "MPI_Query_thread");
    if (level < needed)
      throw failure(std::string("the application initialised MPI with thread level ") + level_name(level) +
                    ", but a rank with several threads needs funneled: call MPI_Init_thread(…, MPI_THREAD_FUNNELED, …) "
                    "or run with one worker a rank");
    int main_thread = 0;
    check(MPI_Is_thread_main(&main_thread), "MPI_Is_thread_main");
    if (level < MPI_THREAD_SERIALIZED && !main_thread)
      throw failure("the application initialised MPI in another thread than the one that starts Tern");
    return level;
  }
#ifdef OPEN_MPI
  // Heads above the default limit of 4096 would need the receiver's help, and 4 KiB cost half of
  // their speed again (2.08 against 1.41 microseconds). A value that the user set stays.
  setenv("OMPI_MCA_btl_vader_eager_limit", "17000", 0);
#endif
  // MPICH asks hwloc for all devices, hwloc's plug-in asks OpenCL for its, and PoCL, where there is
  // one, starts threads and takes over the signals by which reports are asked for. A value that the
  // user set stays.
  setenv("HWLOC_COMPONENTS", "-opencl", 0);
  check(MPI_Init_thread(argc, argv, needed, &level), "MPI_Init_thread");
  mine_ = true;
  if (level < needed)
    throw failure(std::string("this MPI offers only thread level ") + level_name(level) + ", funneled is needed");
  return level;
}

void endpoint::init(int* argc, char*** argv, const tern_transport_settings& settings, tern_transport_info& info) {
  if (active) throw failure("this process has an MPI transport already");
  settings_ = settings;
  const int level = start_mpi(argc, argv, settings.multithreaded != 0);
  check(MPI_Comm_dup(MPI_COMM_WORLD, &heads), "MPI_Comm_dup");
  check(MPI_Comm_set_errhandler(heads, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  check(MPI_Comm_dup(heads, &bodies_), "MPI_Comm_dup"); // with its error handler
  check(MPI_Comm_rank(heads, &rank_), "MPI_Comm_rank");
  check(MPI_Comm_size(heads, &size_), "MPI_Comm_size");
  fragment_ =
      std::clamp(settings.fragment == 0 ? largest_fragment : settings.fragment, smallest_fragment, largest_fragment);
  host_.open(heads, rank_, size_, settings.rings != 0 && settings.preallocate != 0, settings.rings > 2);
  bell.open(host_, size_);
  peers_ = std::vector<peer>(static_cast<std::size_t>(size_));
  for (int i = 0; i < size_; ++i) peers_[static_cast<std::size_t>(i)].on_host = bell.on_host(i);
#ifndef OPEN_MPI
  // See all_credits: the senders of a host share the 32 places of a receiver that are certain.
  most_unreceived_ = certain_places / static_cast<std::uint32_t>(std::max(1, host_.size() - 1));
#endif
  unreceived_ = 0;
  nap_ = first_nap;
  slots_.open(head_limit + sizeof(trailer));
  posting_ = settings.preallocate != 0;
  oldest_ = posted_ = 0;
  open_rings();
  if (posting_ && heads_by_mpi_) {
    constexpr int spare = 8; // being handled
    std::array<slot*, most_posted + spare> some{};
    for (auto& s : some) s = slots_.take();
    for (auto* s : some) slots_.put(s);
    refill();
  }
  info.rings = rings_ ? 1 : 0;
  info.reads = reads_ ? 1 : 0;
  info.shares = shares_ ? 1 : 0;
  info.rank = rank_;
  info.size = size_;
  info.host_rank = host_.rank();
  info.host_size = host_.size();
  info.sharer_rank = host_.sharer_rank();
  info.sharers = host_.sharers();
  info.head_limit = head_limit_;
  info.notes = host_.notes();
  info.notes_stride = host::notes_stride();
  std::snprintf(info.library, sizeof info.library, "%s", library_name().c_str());
  std::snprintf(info.threads, sizeof info.threads, "%s", level_name(level));
  active = true;
}

/// Would MPI_Send return without help of the receiver?
inline bool endpoint::sends_at_once(const peer& to, std::size_t size) const {
#ifdef OPEN_MPI
  return size <= inline_limit && to.on_host && to.sent - to.received + size <= pair_limit - header;
#else
  return to.on_host && unreceived_ < most_unreceived_ && size <= head_limit + sizeof(trailer);
#endif
}

/// By way of a copy. Whether MPI is done with it is asked when the next is made: no rank waits for
/// that.
[[gnu::noinline]] void endpoint::send_copy(int destination, const void* data, std::size_t size, int tag) {
  test_copies();
  void* memory = nullptr;
  if (spare_copies_.empty()) {
    memory = std::malloc(head_limit + sizeof(trailer));
    if (!memory) throw failure("no memory for the copy of a head");
  } else {
    memory = spare_copies_.back();
    spare_copies_.pop_back();
  }
  if (size) std::memcpy(memory, data, size);
  copies_.push_back({MPI_REQUEST_NULL, memory});
  check(MPI_Isend(memory, static_cast<int>(size), MPI_BYTE, destination, tag, heads, &copies_.back().request),
        "MPI_Isend");
}

/// The oldest first: those behind it take no more memory than the receivers have space for.
void endpoint::test_copies() {
  while (!copies_.empty()) {
    int done = 0;
    check(MPI_Test(&copies_.front().request, &done, MPI_STATUS_IGNORE), "MPI_Test");
    if (!done) return;
    void* memory = copies_.front().memory;
    copies_.pop_front();
    if (spare_copies_.size() < copies_kept)
      spare_copies_.push_back(memory);
    else
      std::free(memory);
  }
}

inline void endpoint::send_head(peer& to, int destination, const void* data, std::size_t size, int tag) {
  if (sends_at_once(to, size)) [[likely]]
    check(MPI_Send(data, static_cast<int>(size), MPI_BYTE, destination, tag, heads), "MPI_Send");
  else
    send_copy(destination, data, size, tag);
}

int endpoint::send(int destination, const void* head, std::size_t head_size, const void* body, std::size_t body_size,
                   void* token, std::uint64_t where, bool urgent) {
  if (static_cast<unsigned>(destination) >= static_cast<unsigned>(size_) || destination == rank_) [[unlikely]]
    throw failure("no other rank has number " + std::to_string(destination));
  if (head_size > head_limit_) [[unlikely]]
    throw failure("a head of " + std::to_string(head_size) + " bytes is above the limit of " +
                  std::to_string(head_limit_));
  peer& to = peers_[static_cast<std::size_t>(destination)];
  if (to.ring) [[likely]] {
    if (body || head_size > ring_sender::small_head) [[unlikely]]
      return send_by_ring(to, destination, head, head_size, body, body_size, token, where, urgent);
    if (!to.ring->send_small(static_cast<const std::byte*>(head), head_size, urgent, received_)) [[unlikely]]
      return refused(to, destination);
    announce(destination);
    return 1;
  }
  if (to.credits <= (urgent ? 0 : urgent_credits)) {
    refused_ = true;
    return 0;
  }
  std::uint32_t cost = head_cost(head_size);
  if (!body) [[likely]] {
    send_head(to, destination, head, head_size, to.owed);
  } else {
    std::array<char, head_limit + sizeof(trailer)> both;
    const trailer end{body_size, fragment_};
    if (head_size) std::memcpy(both.data(), head, head_size);
    std::memcpy(both.data() + head_size, &end, sizeof end);
    send_head(to, destination, both.data(), head_size + sizeof end, to.owed | has_body);
    send_body(destination, body, body_size, token);
    cost += piece_cost * static_cast<std::uint32_t>(std::min<std::size_t>(8, (body_size - 1) / fragment_ + 1));
  }
  to.sent += cost;
  unreceived_ += cost;
  to.sent_with[to.heads_sent++ % all_credits] = to.sent;
  to.owed = 0;
  --to.credits;
  bell.ring(destination);
  return 1;
}

void endpoint::send_body(int destination, const void* body, std::size_t size, void* token) {
  large_send* large = nullptr; // freed by its last completion
  if (size > fragment_) large = new large_send{(size + fragment_ - 1) / fragment_, token};
  for (std::size_t offset = 0; offset < size; offset += fragment_) {
    MPI_Request request = MPI_REQUEST_NULL;
    check(MPI_Isend(static_cast<const char*>(body) + offset, static_cast<int>(std::min(fragment_, size - offset)),
                    MPI_BYTE, destination, 0, bodies_, &request),
          "MPI_Isend");
    track(request, {large ? nullptr : token, large, destination});
  }
}

[[gnu::noinline]] void endpoint::return_credits(peer& to, int destination) {
  send_head(to, destination, nullptr, 0, to.owed | only_credits);
  to.owed = 0;
  bell.ring(destination);
}

void endpoint::track(MPI_Request request, const send_record& record) {
  send_requests_.push_back(request);
  send_records_.push_back(record);
  busy_ = true;
}

void endpoint::sent(const send_record& record) {
  if (record.large && --record.large->remaining > 0) return;
  sent_.push_back(record.large ? record.large->token : record.token);
  delete record.large;
  if (peer& to = peers_[static_cast<std::size_t>(record.destination)]; to.ring)
    host_.ring(host_.rank(), host_.place_of(record.destination))
        ->senders_count.store(++to.bodies_left, std::memory_order_relaxed); // a number and nothing behind it
}

void endpoint::test_sends() {
  const std::size_t n = send_requests_.size();
  if (n == 0) return;
  const auto remove = [this](std::size_t at) {
    sent(send_records_[at]);
    send_requests_[at] = send_requests_.back();
    send_records_[at] = send_records_.back();
    send_requests_.pop_back();
    send_records_.pop_back();
  };
  int count = 0;
  if (n == 1) {
    check(MPI_Test(send_requests_.data(), &count, MPI_STATUS_IGNORE), "MPI_Test");
    if (count) remove(0);
    if (count) progressed_ = true;
    return;
  }
  // A window that moves, so that a call costs the same with ten or with ten thousand sends in
  // flight.
  if (next_test_ >= n) next_test_ = 0;
  const std::size_t first = next_test_;
  const int window = static_cast<int>(std::min<std::size_t>(tests_per_call, n - first));
  std::array<int, tests_per_call> done{};
  check(MPI_Testsome(window, send_requests_.data() + first, &count, done.data(), MPI_STATUSES_IGNORE), "MPI_Testsome");
  next_test_ = first + static_cast<std::size_t>(window);
  if (count <= 0) return; // MPI_UNDEFINED is negative
  progressed_ = true;
  // From the back, so that the last element, which fills the hole, is never one that still has to
  // go.
  std::sort(done.begin(), done.begin() + count, [](int a, int b) { return a > b; });
  for (int i = 0; i < count; ++i) remove(first + static_cast<std::size_t>(done[static_cast<std::size_t>(i)]));
}

bool endpoint::may_have_input() const {
  if (!ready_.empty() || !stalled_.empty() || !reading_.empty()) return true;
  if (rings_ && poller_.any([this](std::size_t place) { return ready(place); })) return true;
  return heads_by_mpi_ && head_is_there() != 0;
}

void endpoint::wait(std::int64_t at_most) {
  if (std::exchange(progressed_, false)) { // the next pieces may be there already, or what was refused has space
    nap_ = first_nap;
    return;
  }
  if (has_new_room()) { // what was refused is to be tried again
    nap_ = first_nap;
    return;
  }
  slots_.trim();
  // The end of a transfer and a message from another host ring no bell: then we may only nap.
  std::int64_t limit = bell.reaches_all() ? safety : nap_remote;
  try {
    test_copies();
    if (!unsettled_.empty()) settle();
  } catch (const failure& e) {
    deferred_ = e.what();
    busy_ = true;
    return;
  }
  if (in_flight() || !copies_.empty() || !unsettled_.empty()) limit = nap_in_flight;
  if (limit < safety) {
    limit = std::min(nap_, limit);
    nap_ = std::min(nap_ * 2, nap_remote);
  }
  const auto something_to_do = [this] {
    if (!sent_.empty() || any_read() || (rings_ && starves_no_more())) return true;
    try {
      return may_have_input();
    } catch (const failure&) {
      return true; // the next `receive` meets the same error and reports it
    }
  };
  bell.sleep(std::min(at_most, limit), something_to_do);
}

void endpoint::finish() {
  std::int64_t nap = first_nap;
  const auto rest = [&] {
    tern_transport_arrival dropped{};
    test_copies();
    const int what = receive(dropped);
    if (what == TERN_TRANSPORT_MESSAGE) { // it is not expected any more
      give_back(dropped.slot);
      return;
    }
    nap = what != TERN_TRANSPORT_NOTHING ? first_nap : std::min(nap * 2, nap_in_flight);
    const timespec time{0, static_cast<long>(nap * 1000)};
    if (what == TERN_TRANSPORT_NOTHING) nanosleep(&time, nullptr);
  };
  while (!send_requests_.empty() || !copies_.empty() || !lenders_.empty()) rest();
  // MPI_Barrier would burn a core until the slowest rank comes. Receiving goes on meanwhile: peers'
  // sends need us.
  MPI_Request barrier = MPI_REQUEST_NULL;
  check(MPI_Ibarrier(heads, &barrier), "MPI_Ibarrier");
  for (int done = 0;;) {
    check(MPI_Test(&barrier, &done, MPI_STATUS_IGNORE), "MPI_Test");
    if (done) break;
    rest();
  }
  // The last credits, which no rank needs.
  for (tern_transport_arrival dropped{}; receive(dropped) != TERN_TRANSPORT_NOTHING || in_flight();) {
    if (dropped.slot) give_back(std::exchange(dropped.slot, nullptr));
  }
  active = false;
  for (; posted_ > 0; --posted_) {
    slot* s = posts_[oldest_++ % most_posted];
    check(MPI_Cancel(&s->request), "MPI_Cancel");
    check(MPI_Wait(&s->request, MPI_STATUS_IGNORE), "MPI_Wait");
    slots_.put(s);
  }
  close_rings();
  slots_.close();
  for (void* memory : spare_copies_) std::free(memory);
  spare_copies_.clear();
  bell.close();
  check(MPI_Comm_free(&bodies_), "MPI_Comm_free");
  check(MPI_Comm_free(&heads), "MPI_Comm_free");
  peers_.clear();
  sent_.clear();
  if (mine_) {
    mine_ = false;
    check(MPI_Finalize(), "MPI_Finalize");
  }
}

} // namespace tern_mpi
