// SPDX-License-Identifier: Apache-2.0
/// \file
/// The MPI transport plug-in: one source, compiled once for each MPI found when Tern is built, into a library that
/// exports the table `tern_transport_plugin` and links nothing of Tern. See tern/net/transport_abi.h for the contract.
///
/// Wire format, on a communicator of our own: a message of at most `fragment` bytes is one MPI message (tag `whole`); a
/// larger one is an announcement (tag `announce`, the size as 8 bytes) followed by its pieces (tag `piece`). All tags
/// are matched by one wildcard probe, so MPI's non-overtaking rule gives the order of the sender.
///
/// Sleeping: every rank has a futex word in memory shared by the ranks of its host; see `doorbell`.
#include <mpi.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <list>
#include <stdexcept>
#include <string>
#include <vector>

#include <unistd.h>

#include "doorbell.hpp"

#include "../transport_abi.h"

namespace {

using tern_mpi::doorbell;

constexpr int whole = 1, announce = 2, piece = 3;              // tags
constexpr std::size_t largest_fragment = std::size_t{1} << 30; // MPI-3 counts are int
constexpr std::size_t smallest_fragment = 64;                  // below, the announcement would be most of the traffic
constexpr int probes_per_poll = 32, tests_per_poll = 64;       // the bound on the work of one poll
constexpr std::size_t receives_in_flight = 64;                 // bounds memory promised to senders at one time
constexpr std::int64_t first_nap = 100, nap_in_flight = 1000, nap_remote = 2000; // microseconds
constexpr std::int64_t safety = 50'000; // a bell can't be lost, but MPI may hold a message back inside the sender

struct failure : std::runtime_error {
  using std::runtime_error::runtime_error;
};

void check(int rc, const char* what) {
  if (rc == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  if (MPI_Error_string(rc, text, &length) != MPI_SUCCESS) std::snprintf(text, sizeof text, "error %d", rc);
  for (char* c = text; *c; ++c)
    if (*c == '\n') *c = ' ';
  throw failure(std::string(what) + ": " + text);
}

/// One large message under way: its announcement's memory and the pieces that MPI still reads.
struct large_send {
  std::uint64_t size;
  std::size_t remaining;
  void* token;
};

struct incoming {
  void* data;
  std::size_t size, matched; // bytes for which a receive was started
  std::size_t remaining;     // receives not yet complete
  bool complete() const { return matched == size && remaining == 0; }
};

/// Messages of one source in the order sent; only complete ones at the front are delivered.
struct source {
  std::list<incoming> queue;      // a list: addresses stay, and an idle source costs nothing
  incoming* assembling = nullptr; // announced, pieces missing; always queue.back()
};

struct send_record {
  void* token;
  large_send* large; // null for a message that travels whole
};

struct receive_record {
  int source;
  incoming* message;
};

class endpoint {
public:
  void init(int* argc, char*** argv, bool multithreaded, std::size_t fragment, tern_transport_info& info);
  void send(int destination, const void* data, std::size_t size, void* token);
  std::size_t poll(const tern_transport_sink& sink);
  void wait(std::int64_t at_most);
  void finish(const tern_transport_sink& sink);

  doorbell bell;
  MPI_Comm comm = MPI_COMM_NULL;
  bool active = false;

private:
  int start_mpi(int* argc, char*** argv, bool multithreaded);
  void start_send(int destination, int tag, const void* data, std::size_t size, const send_record& record);
  void sent(const send_record& record);
  void test_sends();
  std::size_t report_sent(const tern_transport_sink& sink);
  std::size_t test_receives(const tern_transport_sink& sink);
  bool receive_next(const tern_transport_sink& sink, std::size_t& events);
  void start_receive(MPI_Message& message, int from, incoming& into, std::size_t offset, std::size_t size);
  std::size_t deliver_front(const tern_transport_sink& sink, int from);
  bool in_flight() const { return !send_requests_.empty() || !receive_requests_.empty(); }

  int rank_ = 0, size_ = 1;
  bool mine_ = false; // we initialised MPI, so we finalise it
  std::size_t fragment_ = largest_fragment;
  std::int64_t nap_ = first_nap;

  // MPI wants its requests contiguous: records run beside them, index by index.
  std::vector<MPI_Request> send_requests_, receive_requests_;
  std::vector<send_record> send_records_;
  std::vector<receive_record> receive_records_;
  std::vector<void*> sent_; // tokens to report with the next poll
  std::size_t next_test_ = 0;
  std::vector<source> sources_;
};

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

/// "Open MPI v4.1.4, package: …" and "MPICH Version:\t4.0.2\n…" become "Open MPI 4.1.4" and "MPICH 4.0.2".
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
  // Our header pushes a 4 KiB payload over the default limit of 4096, which costs half of its speed again (2.08 against
  // 1.41 microseconds). A value that the user set stays.
  setenv("OMPI_MCA_btl_vader_eager_limit", "17000", 0);
#endif
  check(MPI_Init_thread(argc, argv, needed, &level), "MPI_Init_thread");
  mine_ = true;
  if (level < needed)
    throw failure(std::string("this MPI offers only thread level ") + level_name(level) + ", funneled is needed");
  return level;
}

void endpoint::init(int* argc, char*** argv, bool multithreaded, std::size_t fragment, tern_transport_info& info) {
  if (active) throw failure("this process has an MPI transport already");
  const int level = start_mpi(argc, argv, multithreaded);
  check(MPI_Comm_dup(MPI_COMM_WORLD, &comm), "MPI_Comm_dup");
  check(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  check(MPI_Comm_rank(comm, &rank_), "MPI_Comm_rank");
  check(MPI_Comm_size(comm, &size_), "MPI_Comm_size");
  if (fragment == 0) fragment = largest_fragment;
  fragment_ = std::clamp(fragment, smallest_fragment, largest_fragment);
  sources_.resize(static_cast<std::size_t>(size_));
  nap_ = first_nap;
  bell.open(comm, rank_, size_);
  info.rank = rank_;
  info.size = size_;
  info.host_rank = bell.host_rank();
  info.host_size = bell.host_size();
  std::snprintf(info.library, sizeof info.library, "%s", library_name().c_str());
  std::snprintf(info.threads, sizeof info.threads, "%s", level_name(level));
  active = true;
}

void endpoint::sent(const send_record& record) {
  if (!record.large) {
    sent_.push_back(record.token);
  } else if (--record.large->remaining == 0) {
    sent_.push_back(record.large->token);
    delete record.large;
  }
}

void endpoint::start_send(int destination, int tag, const void* data, std::size_t size, const send_record& record) {
  MPI_Request request = MPI_REQUEST_NULL;
  check(MPI_Isend(data, static_cast<int>(size), MPI_BYTE, destination, tag, comm, &request), "MPI_Isend");
  // An eager send is complete at once: asking here is cheap and keeps it out of the list that each poll tests.
  int done = 0;
  check(MPI_Test(&request, &done, MPI_STATUS_IGNORE), "MPI_Test");
  if (done) {
    sent(record);
  } else {
    send_requests_.push_back(request);
    send_records_.push_back(record);
  }
}

void endpoint::send(int destination, const void* data, std::size_t size, void* token) {
  if (destination < 0 || destination >= size_ || destination == rank_)
    throw failure("no other rank has number " + std::to_string(destination));
  if (size <= fragment_) {
    start_send(destination, whole, data, size, {token, nullptr});
  } else {
    const std::size_t pieces = (size + fragment_ - 1) / fragment_;
    auto* large = new large_send{size, pieces + 1, token}; // freed by its last completion
    start_send(destination, announce, &large->size, sizeof large->size, {nullptr, large});
    for (std::size_t offset = 0; offset < size; offset += fragment_)
      start_send(destination, piece, static_cast<const char*>(data) + offset, std::min(fragment_, size - offset),
                 {nullptr, large});
  }
  bell.ring(destination);
}

void endpoint::test_sends() {
  const std::size_t n = send_requests_.size();
  if (n == 0) return;
  // A window that moves, so that a poll costs the same with ten or with ten thousand sends in flight.
  if (next_test_ >= n) next_test_ = 0;
  const std::size_t first = next_test_;
  const int window = static_cast<int>(std::min<std::size_t>(tests_per_poll, n - first));
  std::array<int, tests_per_poll> done{};
  int count = 0;
  check(MPI_Testsome(window, send_requests_.data() + first, &count, done.data(), MPI_STATUSES_IGNORE), "MPI_Testsome");
  next_test_ = first + static_cast<std::size_t>(window);
  if (count <= 0) return; // MPI_UNDEFINED is negative
  // From the back, so that the last element, which fills the hole, is never one that still has to go.
  std::sort(done.begin(), done.begin() + count, [](int a, int b) { return a > b; });
  for (int i = 0; i < count; ++i) {
    const std::size_t at = first + static_cast<std::size_t>(done[static_cast<std::size_t>(i)]);
    sent(send_records_[at]);
    send_requests_[at] = send_requests_.back();
    send_records_[at] = send_records_.back();
    send_requests_.pop_back();
    send_records_.pop_back();
  }
}

std::size_t endpoint::report_sent(const tern_transport_sink& sink) {
  const std::size_t count = sent_.size();
  for (std::size_t i = 0; i < count; ++i) sink.sent(sink.context, sent_[i]);
  sent_.clear();
  return count;
}

std::size_t endpoint::deliver_front(const tern_transport_sink& sink, int from) {
  auto& queue = sources_[static_cast<std::size_t>(from)].queue;
  std::size_t count = 0;
  while (!queue.empty() && queue.front().complete()) {
    const incoming message = queue.front();
    queue.pop_front();
    sink.deliver(sink.context, from, message.data, message.size);
    ++count;
  }
  return count;
}

std::size_t endpoint::test_receives(const tern_transport_sink& sink) {
  if (receive_requests_.empty()) return 0;
  std::array<int, receives_in_flight> done{};
  int count = 0;
  check(MPI_Testsome(static_cast<int>(receive_requests_.size()), receive_requests_.data(), &count, done.data(),
                     MPI_STATUSES_IGNORE),
        "MPI_Testsome");
  if (count <= 0) return 0;
  std::array<int, receives_in_flight> from{};
  std::sort(done.begin(), done.begin() + count, [](int a, int b) { return a > b; });
  for (int i = 0; i < count; ++i) {
    const auto at = static_cast<std::size_t>(done[static_cast<std::size_t>(i)]);
    --receive_records_[at].message->remaining;
    from[static_cast<std::size_t>(i)] = receive_records_[at].source;
    receive_requests_[at] = receive_requests_.back();
    receive_records_[at] = receive_records_.back();
    receive_requests_.pop_back();
    receive_records_.pop_back();
  }
  std::size_t events = 0;
  for (int i = 0; i < count; ++i) events += deliver_front(sink, from[static_cast<std::size_t>(i)]);
  return events;
}

void endpoint::start_receive(MPI_Message& message, int from, incoming& into, std::size_t offset, std::size_t size) {
  MPI_Request request = MPI_REQUEST_NULL;
  check(MPI_Imrecv(static_cast<char*>(into.data) + offset, static_cast<int>(size), MPI_BYTE, &message, &request),
        "MPI_Imrecv");
  into.matched += size;
  int done = 0;
  check(MPI_Test(&request, &done, MPI_STATUS_IGNORE), "MPI_Test");
  if (done) return;
  ++into.remaining;
  receive_requests_.push_back(request);
  receive_records_.push_back({from, &into});
}

/// Takes the next message that MPI has for us, if any.
bool endpoint::receive_next(const tern_transport_sink& sink, std::size_t& events) {
  if (receive_requests_.size() >= receives_in_flight) return false;
  int found = 0, bytes = 0;
  MPI_Message message = MPI_MESSAGE_NULL;
  MPI_Status status;
  check(MPI_Improbe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &found, &message, &status), "MPI_Improbe");
  if (!found) return false;
  check(MPI_Get_count(&status, MPI_BYTE, &bytes), "MPI_Get_count");
  const int from = status.MPI_SOURCE;
  source& origin = sources_[static_cast<std::size_t>(from)];
  const auto broken = [&](const std::string& what) {
    return failure("rank " + std::to_string(from) + " sent " + what + "; do all ranks run the same version of Tern?");
  };
  auto size = static_cast<std::size_t>(bytes);
  if (status.MPI_TAG == piece) {
    incoming* into = origin.assembling;
    if (!into || size > into->size - into->matched) throw broken("a piece of a message that it did not announce");
    if (into->matched + size == into->size) origin.assembling = nullptr; // before `into` may be delivered and freed
    start_receive(message, from, *into, into->matched, size);
    events += deliver_front(sink, from);
    return true;
  }
  if (origin.assembling) throw broken("a message inside another");
  if (status.MPI_TAG == announce) {
    std::uint64_t announced = 0;
    if (size != sizeof announced) throw broken("an announcement of " + std::to_string(size) + " bytes");
    // 8 bytes travel eagerly under every MPI: this does not wait.
    check(MPI_Mrecv(&announced, bytes, MPI_BYTE, &message, MPI_STATUS_IGNORE), "MPI_Mrecv");
    if (announced == 0) throw broken("an announcement of nothing");
    size = announced;
  } else if (status.MPI_TAG != whole) {
    throw broken("a message with tag " + std::to_string(status.MPI_TAG));
  }
  void* data = sink.allocate(sink.context, size);
  if (!data)
    throw failure("no memory for a message of " + std::to_string(size) + " bytes from rank " + std::to_string(from));
  incoming fresh{data, size, 0, 0};
  if (status.MPI_TAG == whole && origin.queue.empty()) { // the common case: complete and first in line, no allocation
    MPI_Request request = MPI_REQUEST_NULL;
    int done = 0;
    check(MPI_Imrecv(data, bytes, MPI_BYTE, &message, &request), "MPI_Imrecv");
    check(MPI_Test(&request, &done, MPI_STATUS_IGNORE), "MPI_Test");
    if (done) {
      sink.deliver(sink.context, from, data, size);
      ++events;
      return true;
    }
    fresh.matched = size;
    fresh.remaining = 1;
    origin.queue.push_back(fresh);
    receive_requests_.push_back(request);
    receive_records_.push_back({from, &origin.queue.back()});
    return true;
  }
  origin.queue.push_back(fresh);
  if (status.MPI_TAG == announce)
    origin.assembling = &origin.queue.back();
  else
    start_receive(message, from, origin.queue.back(), 0, size);
  return true;
}

std::size_t endpoint::poll(const tern_transport_sink& sink) {
  test_sends();
  std::size_t events = report_sent(sink);
  events += test_receives(sink);
  for (int i = 0; i < probes_per_poll && receive_next(sink, events); ++i) {
  }
  if (events) nap_ = first_nap;
  return events;
}

void endpoint::wait(std::int64_t at_most) {
  // The end of a transfer and a message from another host ring no bell: then we may only nap.
  std::int64_t limit = bell.reaches_all() ? safety : nap_remote;
  if (in_flight()) limit = nap_in_flight;
  if (limit < safety) {
    limit = std::min(nap_, limit);
    nap_ = std::min(nap_ * 2, nap_remote);
  }
  const auto something_arrived = [this] {
    int found = 0;
    MPI_Status status;
    const int rc = MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &found, &status);
    return rc != MPI_SUCCESS || found; // the next poll reports the error
  };
  // With its receive slots full, poll can't take what a probe would find: that must not keep us from napping.
  const bool look = receive_requests_.size() < receives_in_flight;
  bell.sleep(std::min(at_most, limit), [&] { return !sent_.empty() || (look && something_arrived()); });
}

void endpoint::finish(const tern_transport_sink& sink) {
  std::int64_t nap = first_nap;
  const auto rest = [&](std::size_t events) {
    nap = events ? first_nap : std::min(nap * 2, nap_in_flight);
    const timespec time{0, static_cast<long>(nap * 1000)};
    if (!events) nanosleep(&time, nullptr);
  };
  while (!send_requests_.empty() || !sent_.empty()) rest(poll(sink));
  // MPI_Barrier would burn a core until the slowest rank comes. Polling goes on meanwhile: peers' sends need us.
  MPI_Request barrier = MPI_REQUEST_NULL;
  check(MPI_Ibarrier(comm, &barrier), "MPI_Ibarrier");
  for (int done = 0;;) {
    check(MPI_Test(&barrier, &done, MPI_STATUS_IGNORE), "MPI_Test");
    if (done) break;
    rest(poll(sink));
  }
  while (poll(sink) != 0 || in_flight()) {
  }
  active = false;
  bell.close();
  check(MPI_Comm_free(&comm), "MPI_Comm_free");
  sources_.clear();
  if (mine_) {
    mine_ = false;
    check(MPI_Finalize(), "MPI_Finalize");
  }
}

// MPI itself is one a process, so is its endpoint. Never destroyed: other threads may call `wake` until the process
// ends.
endpoint& self() {
  static auto* const it = new endpoint;
  return *it;
}

template <class F> int guarded(char* error, std::size_t error_size, F&& body) {
  try {
    body();
    return 0;
  } catch (const std::exception& e) {
    std::snprintf(error, error_size, "%s", e.what());
    return 1;
  }
}

int plugin_init(int* argc, char*** argv, int multithreaded, size_t fragment, tern_transport_info* info, char* error,
                size_t error_size) {
  return guarded(error, error_size, [&] { self().init(argc, argv, multithreaded != 0, fragment, *info); });
}
int plugin_send(int destination, const void* data, size_t size, void* token, char* error, size_t error_size) {
  return guarded(error, error_size, [&] { self().send(destination, data, size, token); });
}
int plugin_poll(const tern_transport_sink* sink, size_t* events, char* error, size_t error_size) {
  return guarded(error, error_size, [&] { *events = self().poll(*sink); });
}
void plugin_wait(int64_t at_most_microseconds) { self().wait(at_most_microseconds); }
void plugin_wake() { self().bell.wake(); }
int plugin_finish(const tern_transport_sink* sink, char* error, size_t error_size) {
  return guarded(error, error_size, [&] { self().finish(*sink); });
}
volatile std::sig_atomic_t code_to_leave_with = 1;
extern "C" void leave_at_once(int) { _exit(code_to_leave_with); }

/// MPICH's MPI_Abort over UCX goes on communicating, without end if another rank no longer does: so only for a second.
/// A rank that leaves without MPI_Finalize ends the job under both launchers.
void plugin_abort(int code) {
  code_to_leave_with = code;
  std::signal(SIGALRM, leave_at_once);
  sigset_t only;
  sigemptyset(&only);
  sigaddset(&only, SIGALRM);
  pthread_sigmask(SIG_UNBLOCK, &only, nullptr);
  alarm(1);
  int initialized = 0, finalized = 0;
  MPI_Initialized(&initialized);
  MPI_Finalized(&finalized);
  if (initialized && !finalized) MPI_Abort(self().comm == MPI_COMM_NULL ? MPI_COMM_WORLD : self().comm, code);
  _exit(code);
}

} // namespace

extern "C" __attribute__((visibility("default"))) const struct tern_transport_plugin tern_transport_plugin = {
    TERN_TRANSPORT_ABI,
#ifdef OPEN_MPI
    "openmpi",
#else
    "mpich",
#endif
    plugin_init,        plugin_send, plugin_poll, plugin_wait, plugin_wake, plugin_finish, plugin_abort,
};
