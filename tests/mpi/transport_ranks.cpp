// SPDX-License-Identifier: Apache-2.0
/// \file
/// The MPI transport by itself, started by an MPI launcher with any number of ranks: order and content of messages of
/// all sizes between all pairs, sends from a second thread, pieces, sleeping and waking, an idle rank's use of its
/// core. Prints `N passed, N failed` from rank 0; the exit code is 0 if none failed on any rank. Arguments: `single`
/// claims to have one thread only; `hold` sleeps until it is killed, `abort` ends the job with code 7 (both for the
/// tests of `tern run`).
#include <tern/net/transport.hpp>

#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <deque>
#include <string>
#include <thread>
#include <vector>

#include <unistd.h>

using namespace std::chrono_literals;
using clock_type = std::chrono::steady_clock;

namespace {

int passed = 0, failed = 0, me = 0;

void expect(bool good, const std::string& what) {
  (good ? passed : failed)++;
  if (!good) std::fprintf(stderr, "rank %d: FAILED: %s\n", me, what.c_str());
}

std::uint64_t mix(std::uint64_t x) { // splitmix64
  x += 0x9e3779b97f4a7c15U;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31);
}

// What message `k` of stream `stream` from `s` to `d` looks like is a function of these numbers: the receiver knows it
// without a header, so that empty messages are covered too and a message out of order is noticed by its content.
std::uint64_t seed_of(int s, int d, int stream, int k) {
  return mix(mix(static_cast<std::uint64_t>(s) << 40 | static_cast<std::uint64_t>(d) << 20) +
             (static_cast<std::uint64_t>(stream) << 32) + static_cast<std::uint64_t>(k));
}

std::size_t size_of(std::uint64_t seed) {
  const auto kind = seed % 100;
  const auto random = mix(seed);
  if (kind < 10) return 0;
  if (kind < 50) return random % 65;
  if (kind < 80) return random % (8u << 10);
  if (kind < 95) return random % (256u << 10);
  return random % (4u << 20) + 1;
}

void fill(std::byte* at, std::size_t n, std::uint64_t seed) {
  std::uint64_t state = seed | 1;
  std::size_t i = 0;
  for (; i + 8 <= n; i += 8) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    std::memcpy(at + i, &state, 8);
  }
  for (; i < n; ++i) at[i] = static_cast<std::byte>(state >> (8 * (i % 8)));
}

constexpr int owner_stream = 0, thread_stream = 1, late_owner_stream = 2, streams = 3;
constexpr int per_stream = 40;

/// Streams 0 and 1 follow each other, so their messages may be empty; the two streams that run at once are told apart
/// by their first byte.
tern::byte_buffer make_message(int s, int d, int stream, int k) {
  const auto seed = seed_of(s, d, stream, k);
  const std::size_t tag = stream == owner_stream ? 0 : 1;
  const std::size_t n = size_of(seed) + tag;
  tern::byte_buffer message(n);
  fill(message.data() + tag, n - tag, seed);
  if (tag) message.data()[0] = static_cast<std::byte>(stream);
  return message;
}

struct checker {
  int size;
  std::vector<std::array<int, streams>> next; // by source
  std::size_t remaining;
  std::deque<std::string> control; // "source:text" of messages after the streams
  bool good = true;

  explicit checker(int ranks)
      : size(ranks), next(static_cast<std::size_t>(ranks)),
        remaining(static_cast<std::size_t>(ranks) * streams * per_stream) {}

  void operator()(int source, tern::byte_buffer message) {
    auto& from = next[static_cast<std::size_t>(source)];
    int stream = owner_stream;
    if (from[owner_stream] == per_stream) {
      if (message.size() == 0) return fail(source, -1, "an empty message where none is due");
      stream = static_cast<int>(message.data()[0]);
      if (stream == 'c') {
        control.push_back(std::to_string(source) + ":" +
                          std::string(reinterpret_cast<const char*>(message.data()) + 1, message.size() - 1));
        return;
      }
      if (stream != thread_stream && stream != late_owner_stream) return fail(source, stream, "an unknown stream");
    }
    const int k = from[static_cast<std::size_t>(stream)]++;
    --remaining;
    const auto expected = make_message(source, me, stream, k);
    if (expected.size() != message.size())
      return fail(source, stream,
                  "message " + std::to_string(k) + " has " + std::to_string(message.size()) + " bytes, not " +
                      std::to_string(expected.size()));
    if (message.size() && std::memcmp(expected.data(), message.data(), message.size()) != 0)
      return fail(source, stream, "message " + std::to_string(k) + " has the wrong content");
  }

  void fail(int source, int stream, const std::string& what) {
    if (good) expect(false, "from rank " + std::to_string(source) + ", stream " + std::to_string(stream) + ": " + what);
    good = false;
  }
};

double cpu_seconds() {
  timespec t{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

tern::byte_buffer control_message(const std::string& text) {
  tern::byte_buffer message(text.size() + 1);
  message.data()[0] = std::byte{'c'};
  if (!text.empty()) std::memcpy(message.data() + 1, text.data(), text.size());
  return message;
}

class session {
public:
  explicit session(tern::net::transport& t) : net_(t), check_(t.size()) {}

  void messages();
  void wake_ups();
  void ping_pong();
  void idle();
  int collect();

private:
  template <class Done> void until(Done&& done, const char* what) {
    const auto limit = clock_type::now() + 20s;
    while (!done()) {
      if (net_.poll([this](int s, tern::byte_buffer m) { check_(s, std::move(m)); }) == 0) net_.wait(1s);
      if (clock_type::now() > limit) {
        std::fprintf(stderr, "rank %d: FAILED: no progress in: %s\n", me, what);
        net_.abort(3);
      }
    }
  }
  void meet(const std::string& name) {
    for (int d = 0; d < net_.size(); ++d) net_.send(d, control_message(name));
    int there = 0;
    until(
        [&] {
          while (take(name)) ++there;
          return there == net_.size();
        },
        name.c_str());
  }
  /// Removes one control message with this text; others may be of ranks that are further on than we are.
  bool take(const std::string& text) {
    for (auto it = check_.control.begin(); it != check_.control.end(); ++it)
      if (it->substr(it->find(':') + 1) == text) {
        check_.control.erase(it);
        return true;
      }
    return false;
  }

  tern::net::transport& net_;
  checker check_;
};

void session::messages() {
  const int n = net_.size();
  const auto send_stream = [&](int stream) {
    for (int k = 0; k < per_stream; ++k)
      for (int d = 0; d < n; ++d) net_.send((me + d) % n, make_message(me, (me + d) % n, stream, k));
  };
  send_stream(owner_stream);
  std::thread other([&] { send_stream(thread_stream); });
  for (int k = 0; k < per_stream; ++k) {
    for (int d = 0; d < n; ++d) net_.send(d, make_message(me, d, late_owner_stream, k));
    net_.poll([this](int s, tern::byte_buffer m) { check_(s, std::move(m)); });
  }
  until([&] { return check_.remaining == 0; }, "messages");
  other.join();
  expect(check_.good, "all messages arrived whole and in order");
  meet("messages");
}

void session::wake_ups() {
  net_.wake();
  auto start = clock_type::now();
  net_.wait(20s);
  expect(clock_type::now() - start < 10s, "a wake before wait is not lost");
  std::thread other([&] { net_.wake(); });
  start = clock_type::now();
  net_.wait(20s); // a spurious return before the wake is allowed, a late one is not
  expect(clock_type::now() - start < 10s, "another thread wakes");
  other.join();
  // A message to oneself from another thread ends the sleep as well.
  std::thread self([&] { net_.send(me, control_message("self")); });
  until([&] { return take("self"); }, "a message to oneself");
  self.join();
  bool refused = false;
  try {
    net_.send(net_.size(), tern::byte_buffer(1));
  } catch (const tern::error& e) {
    refused = e.code() == tern::errc::invalid_argument;
  }
  expect(refused, "a rank that does not exist is refused");
  bool not_owner = false;
  std::thread([&] {
    try {
      net_.wait(0us);
    } catch (const tern::error& e) {
      not_owner = e.code() == tern::errc::invalid_state;
    }
  }).join();
  expect(not_owner, "only the owner may wait");
  meet("wake-ups");
}

/// Rounds between neighbours that both go to sleep in between: a lost wake-up would cost a timeout each.
void session::ping_pong() {
  const int partner = me ^ 1, rounds = 200;
  const auto start = clock_type::now();
  if (partner < net_.size()) {
    for (int i = 0; i < rounds; ++i) {
      if (me < partner) net_.send(partner, control_message("ping"));
      while (!take(me < partner ? "pong" : "ping")) {
        net_.wait(1s);
        net_.poll([this](int s, tern::byte_buffer m) { check_(s, std::move(m)); });
      }
      if (me > partner) net_.send(partner, control_message("pong"));
    }
    const double us = std::chrono::duration<double, std::micro>(clock_type::now() - start).count() / rounds;
    if (me == 0) std::printf("round trip between sleeping ranks: %.0f microseconds\n", us);
  }
  meet("ping-pong");
}

void session::idle() {
  const auto start = clock_type::now();
  const double before = cpu_seconds();
  while (clock_type::now() - start < 300ms) {
    if (net_.poll([this](int s, tern::byte_buffer m) { check_(s, std::move(m)); }) == 0) net_.wait(100ms);
  }
  const double wall = std::chrono::duration<double>(clock_type::now() - start).count();
  const double share = (cpu_seconds() - before) / wall;
  if (me == 0) std::printf("idle: %.2f %% of a core\n", 100 * share);
  expect(share < 0.2, "an idle rank leaves its core alone, but used " + std::to_string(100 * share) + " %");
  meet("idle");
}

/// Rank 0 learns everybody's counts; \return the number of failures it knows of.
int session::collect() {
  if (me != 0) {
    net_.send(0, control_message(std::to_string(passed) + " " + std::to_string(failed)));
    return failed;
  }
  until([&] { return check_.control.size() + 1 == static_cast<std::size_t>(net_.size()); }, "collecting");
  int all_passed = passed, all_failed = failed;
  for (const auto& one : check_.control) {
    int p = 0, f = 1;
    if (std::sscanf(one.c_str() + one.find(':') + 1, "%d %d", &p, &f) != 2) f = 1;
    all_passed += p;
    all_failed += f;
  }
  std::printf("%d passed, %d failed\n", all_passed, all_failed);
  std::fflush(stdout);
  return all_failed;
}

} // namespace

int main(int argc, char** argv) {
  try {
    setenv("TERN_MPI_FRAGMENT", "40000", 0); // several pieces for every larger message
    const std::string which = tern::net::detect_mpi("");
    if (which.empty()) {
      std::fprintf(stderr, "start this program with an MPI launcher\n");
      return 2;
    }
    const std::string mode = argc > 1 ? argv[1] : "";
    const auto net = tern::net::make_mpi(which, &argc, &argv, mode != "single");
    me = net->rank();
    if (mode == "hold") {
      std::printf("rank %d process %ld\n", me, static_cast<long>(getpid()));
      std::fflush(stdout);
      const auto ignore = [](int, tern::byte_buffer) {};
      for (;;)
        if (net->poll(ignore) == 0) net->wait(1s);
    }
    if (mode == "abort" && me == net->size() - 1) std::thread([&] { net->abort(7); }).detach();
    while (mode == "abort") net->wait(1s);
    if (me == 0) std::printf("%s, %d ranks\n", net->describe().c_str(), net->size());
    expect(which == "openmpi" || which == "mpich", "known MPI");
    expect(net->host_size() >= 1 && net->host_rank() < net->host_size(), "place on the host");
    session run(*net);
    run.messages();
    run.wake_ups();
    run.ping_pong();
    run.idle();
    const int failures = run.collect();
    net->finish();
    return failures == 0 ? 0 : 1;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "rank %d: %s\n", me, e.what());
    return 1;
  }
}
