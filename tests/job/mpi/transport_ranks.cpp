// SPDX-License-Identifier: Apache-2.0
/// \file
/// The MPI transport by itself, started by an MPI launcher with any number of ranks: order and
/// content of messages with heads and bodies of all sizes between all pairs, pieces, room that is
/// used up and regained, heads that are kept and given back from another thread, large messages of
/// a rank that computes, looking without receiving, sleeping and waking, an idle rank's use of its
/// core. Prints `N passed, N failed` from rank 0; the exit code is 0 if none failed on any rank.
/// Arguments: `single` claims to have one thread only, `bare` posts and pools nothing, `alone`
/// sends everything by MPI, without rings, `heads` all but heads, `copies` what does not fit into
/// rings, `reads` has bodies read also where the ring costs less, `hosts` makes MPICH take odd and
/// even ranks for those of two hosts; `hold` sleeps until it is killed, `abort` ends the job with
/// code 7 (both for the tests of `tern run`).
#include <tern/base/topology.hpp>
#include <tern/net/job/start_mark.hpp>
#include <tern/net/transport/mpi/mpi_transport.hpp>

#include "contents.hpp"
#include "doorbell.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <deque>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <sched.h>
#include <unistd.h>

using namespace std::chrono_literals;
using clock_type = std::chrono::steady_clock;
using tern::byte_buffer;
using tern::net::arrival;
using tern::test::body_size;
using tern::test::doorbell;
using tern::test::fill;
using tern::test::filled;
using tern::test::head_size;
using tern::test::mix;
using tern::test::number_of;
using tern::test::numbered;
using tern::test::seed_of;

namespace {

int passed = 0, failed = 0, me = 0;
// Ten ranks on two cores take turns, and have a hundred pairs.
int messages_per_pair(const tern::net::transport& net) { return net.size() > 4 ? 150 : 600; }

void expect(bool good, const std::string& what) {
  (good ? passed : failed)++;
  if (!good) std::fprintf(stderr, "rank %d: FAILED: %s\n", me, what.c_str());
}

double cpu_seconds() {
  timespec t{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

double seconds_since(clock_type::time_point start) {
  return std::chrono::duration<double>(clock_type::now() - start).count();
}

class session {
public:
  explicit session(tern::net::transport& t)
      : net_(t), next_(static_cast<std::size_t>(t.size())),
        remaining_(static_cast<std::size_t>(t.size()) * static_cast<std::size_t>(messages_per_pair(t))) {}

  void messages();
  void room(std::size_t head_bytes);
  void lent_bodies();
  void kept_heads();
  void sender_that_computes(std::size_t body_bytes);
  void looks();
  void wake_ups();
  void refusals();
  void ping_pong();
  void idle();
  int collect();

private:
  void take(arrival one);
  bool step() {
    arrival one;
    if (!net_.receive(one)) return false;
    take(std::move(one));
    return true;
  }
  template <class Done> void until(Done&& done, const char* what) {
    const auto limit = clock_type::now() + 30s;
    while (!done()) {
      if (!step()) net_.wait(1s);
      if (clock_type::now() > limit) {
        std::fprintf(stderr, "rank %d: FAILED: no progress in: %s\n", me, what);
        net_.abort(3);
      }
    }
  }
  void send(int destination, const byte_buffer& head, byte_buffer body = {}) {
    until([&] { return net_.send(destination, head, body); }, "sending");
    if (!body.empty()) expect(false, "a body that was taken leaves nothing");
  }
  void tell(int destination, const std::string& text) {
    byte_buffer head(text.size() + 1);
    head.data()[0] = std::byte{'c'};
    if (!text.empty()) std::memcpy(head.data() + 1, text.data(), text.size());
    send(destination, head);
  }
  void meet(const std::string& name) {
    for (int d = 0; d < net_.size(); ++d) tell(d, name);
    int there = 0;
    until(
        [&] {
          while (told(name)) ++there;
          return there == net_.size();
        },
        name.c_str());
  }
  /// Removes one control message with this text; others may be of ranks that are further on than we
  /// are.
  bool told(const std::string& text) {
    for (auto it = control_.begin(); it != control_.end(); ++it)
      if (*it == text) {
        control_.erase(it);
        return true;
      }
    return false;
  }
  /// The rest of the first control message that begins so, which is removed; waits for it.
  std::string rest_of(const std::string& beginning, const char* what) {
    std::string rest;
    until(
        [&] {
          const auto it = std::find_if(control_.begin(), control_.end(),
                                       [&](const std::string& text) { return text.starts_with(beginning); });
          if (it == control_.end()) return false;
          rest = it->substr(beginning.size());
          control_.erase(it);
          return true;
        },
        what);
    return rest;
  }
  /// Receives nothing until the partner rings the bell that it is told of.
  void receive_nothing_until_rung(int partner) {
    doorbell bell;
    tell(partner, "bell " + bell.name());
    expect(bell.wait(25s), "the partner does not wait for one that receives nothing");
  }
  void fail(int source, const std::string& what) {
    if (good_) expect(false, "from rank " + std::to_string(source) + ": " + what);
    good_ = false;
  }

  tern::net::transport& net_;
  std::vector<int> next_; // message expected, by source
  std::size_t remaining_;
  std::deque<std::string> control_;
  std::deque<arrival> others_; // heads that begin with another letter
  bool good_ = true;
};

void session::take(arrival one) {
  if (one.source < 0 || one.source >= net_.size()) return fail(one.source, "no such rank");
  int& k = next_[static_cast<std::size_t>(one.source)];
  if (k == messages_per_pair(net_)) {
    if (one.head.empty()) return fail(one.source, "an empty head where none is due");
    if (one.head.data()[0] == std::byte{'c'})
      control_.emplace_back(reinterpret_cast<const char*>(one.head.data()) + 1, one.head.size() - 1);
    else
      others_.push_back(std::move(one));
    return;
  }
  const auto seed = seed_of(one.source, me, k);
  const std::string name = "message " + std::to_string(k);
  if (reinterpret_cast<std::uintptr_t>(one.head.data()) % 16 != 0) fail(one.source, name + " is not aligned");
  if (!(one.head == filled(head_size(k, seed, net_.head_limit()), seed)))
    fail(one.source, name + " has the wrong head, of " + std::to_string(one.head.size()) + " bytes");
  if (!(one.body == filled(body_size(seed), seed + 1)))
    fail(one.source, name + " has the wrong body, of " + std::to_string(one.body.size()) + " bytes");
  ++k;
  --remaining_;
}

void session::messages() {
  const int n = net_.size();
  for (int k = 0; k < messages_per_pair(net_); ++k)
    for (int i = 0; i < n; ++i) {
      const int d = (me + i) % n;
      const auto seed = seed_of(me, d, k);
      send(d, filled(head_size(k, seed, net_.head_limit()), seed), filled(body_size(seed), seed + 1));
    }
  until([&] { return remaining_ == 0; }, "messages");
  expect(good_, "all messages arrived whole and in order");
  meet("messages");
}

/// A rank that receives nothing is sent as many messages as it has room for, and no more. No sender
/// blocks on that.
void session::room(std::size_t head_bytes) {
  const int partner = me ^ 1;
  for (int sender = 0; sender < 2 && partner < net_.size(); ++sender) {
    if ((me & 1) == sender) {
      const std::string bell = rest_of("bell ", "room");
      byte_buffer none;
      std::uint32_t sent = 0, urgent = 0;
      while (sent < 100000 && net_.send(partner, numbered('r', sent, head_bytes), none)) ++sent;
      byte_buffer body = filled(1000, 5);
      expect(!net_.send(partner, numbered('r', sent, head_bytes), body) && body == filled(1000, 5),
             "a refused message keeps its body");
      while (urgent < 100000 && net_.send(partner, numbered('r', sent + urgent, head_bytes), none, true)) ++urgent;
      doorbell::ring(bell);
      expect(sent > 1 && sent < 100000, "room is limited: " + std::to_string(sent));
      expect(urgent > 0 && urgent < 100000, "urgent messages have room of their own: " + std::to_string(urgent));
      // Room comes back without a message of theirs.
      for (std::uint32_t more = 0; more < 3 * sent; ++more)
        send(partner, numbered('r', sent + urgent + more, head_bytes));
      tell(partner, "sent " + std::to_string(4 * sent + urgent));
      until([&] { return told("received"); }, "the partner's receiving");
    } else {
      receive_nothing_until_rung(partner);
      const unsigned long expected = std::stoul(rest_of("sent ", "what the partner sent"));
      bool good = others_.size() == expected;
      for (std::uint32_t i = 0; good && i < expected; ++i)
        good = others_[i].source == partner && others_[i].head == numbered('r', i, head_bytes);
      expect(good, std::to_string(expected) + " messages arrived in order, though there was no room for some");
      others_.clear();
      tell(partner, "received");
    }
  }
  meet("room");
}

/// A message arrives whole though its sender does not touch the transport meanwhile.
void session::sender_that_computes(std::size_t body_bytes) {
  const int partner = me ^ 1;
  if (partner < net_.size()) {
    if (me > partner) {
      doorbell bell; // rung when the message is there: until then it does not touch the transport
      tell(partner, "bell " + bell.name());
      send(partner, numbered('b', 0, 40), filled(body_bytes, 3));
      expect(bell.wait(20s), "a message of " + std::to_string(body_bytes) + " bytes arrives while its sender computes");
    } else {
      const std::string bell = rest_of("bell ", "a bell");
      until([&] { return !others_.empty(); }, "a message of a rank that computes");
      doorbell::ring(bell);
      expect(others_.front().body == filled(body_bytes, 3), "and is whole");
      others_.clear();
    }
  }
  meet("sender that computes");
}

/// A rank that receives nothing is lent so much memory, and no more; what was taken arrives.
void session::lent_bodies() {
  const int partner = me ^ 1;
  constexpr std::size_t bytes = std::size_t{2} << 20;
  if (partner < net_.size()) {
    if (me < partner) {
      const std::string bell = rest_of("bell ", "lent bodies");
      std::uint32_t sent = 0;
      for (byte_buffer body = filled(bytes, 7); sent < 1000 && net_.send(partner, numbered('l', sent, 20), body);
           ++sent)
        body = filled(bytes, 7);
      expect(sent >= 1 && sent <= 56, "large bodies under way are limited: " + std::to_string(sent));
      if (net_.describe().find("single copies") != std::string::npos)
        expect(sent * bytes <= std::size_t{64} << 20, "so is their memory: " + std::to_string(sent));
      doorbell::ring(bell);
      tell(partner, "count " + std::to_string(sent));
      until([&] { return told("has them"); }, "the partner's receiving of bodies");
    } else {
      receive_nothing_until_rung(partner);
      const unsigned long expected = std::stoul(rest_of("count ", "how many bodies were lent"));
      bool good = others_.size() == expected;
      for (std::uint32_t i = 0; good && i < expected; ++i)
        good = others_[i].head == numbered('l', i, 20) && others_[i].body == filled(bytes, 7);
      expect(good, std::to_string(expected) + " bodies that were under way at once arrived in order");
      others_.clear();
      tell(partner, "has them");
    }
  }
  meet("lent bodies");
}

/// Heads that stay with the core do not keep others from arriving, and go back from any thread.
void session::kept_heads() {
  const int n = net_.size(), partner = (me + 1) % n, from = (me + n - 1) % n;
  constexpr std::uint32_t kept_count = 300, passed_on = 2000;
  const auto size = [](std::uint32_t i) { return std::size_t{5} + mix(i) % 2000; };
  const auto exchange = [&](std::uint32_t first, std::uint32_t count, auto&& each) {
    std::uint32_t sent = 0, got = 0;
    byte_buffer none;
    until(
        [&] {
          while (sent < count && net_.send(partner, numbered('k', first + sent, size(first + sent)), none)) ++sent;
          for (; got < count && !others_.empty(); ++got) { // the other rank may be further on
            each(std::move(others_.front()));
            others_.pop_front();
          }
          return sent == count && got == count;
        },
        "kept heads");
  };
  std::vector<arrival> kept;
  exchange(0, kept_count, [&](arrival one) { kept.push_back(std::move(one)); });
  std::mutex lock;
  std::deque<arrival> queue;
  bool done = false;
  std::uint32_t right = 0;
  std::thread other([&] { // gives each head back a while later, and all that were kept in between
    for (std::uint32_t i = 0;;) {
      arrival one;
      {
        const std::lock_guard hold(lock);
        if (queue.empty()) {
          if (done) return;
        } else {
          one = std::move(queue.front());
          queue.pop_front();
        }
      }
      if (one.source < 0) {
        std::this_thread::yield();
        continue;
      }
      if (one.source == from && one.head == numbered('k', kept_count + i, size(kept_count + i))) ++right;
      if (i < kept_count) {
        const auto& old = kept[i].head;
        if (!(old == numbered('k', i, size(i)))) right = 0;
        kept[i].head = byte_buffer();
      }
      ++i;
    }
  });
  exchange(kept_count, passed_on, [&](arrival one) {
    if (number_of(one.head) % 7 == 0) std::this_thread::yield();
    const std::lock_guard hold(lock);
    queue.push_back(std::move(one));
  });
  {
    const std::lock_guard hold(lock);
    done = true;
  }
  other.join();
  expect(right == passed_on, "heads keep their bytes until they are given back: " + std::to_string(right));
  meet("kept heads");
}

/// One rank after the other sees that there is no message, then that there is one, and receives
/// neither time.
void session::looks() {
  for (int looker = 0; looker < net_.size(); ++looker) {
    const int sender = (looker + 1) % net_.size();
    const std::string go = "go " + std::to_string(looker), come = "come " + std::to_string(looker);
    if (me == looker) {
      until([&] { return !net_.may_have_input(); }, "a look that finds nothing"); // credits may be on their way
      tell(sender, me == sender ? come : go);
      const auto limit = clock_type::now() + 20s;
      while (!net_.may_have_input() && clock_type::now() < limit) std::this_thread::yield();
      expect(net_.may_have_input(), "a look finds a message that has arrived");
      expect(!told(come), "a look receives nothing");
      until([&] { return told(come); }, "the message that was found");
    } else if (me == sender) {
      until([&] { return told(go); }, "the rank that looks");
      tell(looker, come);
    }
  }
  bool elsewhere = false;
  std::thread([&] { elsewhere = net_.may_have_input(); }).join();
  expect(elsewhere, "another thread does not learn that there is nothing");
  meet("looks");
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
  tell(me, "self");
  until([&] { return told("self"); }, "a message to oneself");
  meet("wake-ups");
}

void session::refusals() {
  const auto code_of = [](auto&& call) {
    try {
      call();
    } catch (const tern::error& e) {
      return e.code();
    }
    return tern::errc::internal;
  };
  byte_buffer none;
  const byte_buffer head(1), large(net_.head_limit() + 1);
  expect(code_of([&] { net_.send(net_.size(), head, none); }) == tern::errc::invalid_argument, "no such rank");
  expect(code_of([&] { net_.send(-1, head, none); }) == tern::errc::invalid_argument, "no negative rank");
  expect(code_of([&] { net_.send(me, large, none); }) == tern::errc::invalid_argument, "a head above the limit");
  expect(code_of([&] { net_.send((me + 1) % net_.size(), large, none); }) == tern::errc::invalid_argument,
         "a head above the limit to another rank");
  tern::errc wait = tern::errc::internal, send = wait, receive = wait;
  std::thread([&] {
    wait = code_of([&] { net_.wait(0us); });
    send = code_of([&] { net_.send(me, head, none); });
    receive = code_of([&] {
      arrival one;
      net_.receive(one);
    });
  }).join();
  expect(wait == tern::errc::invalid_state, "only the owner may wait");
  expect(send == tern::errc::invalid_state, "only the owner may send");
  expect(receive == tern::errc::invalid_state, "only the owner may receive");
  std::uint32_t sent = 0;
  while (sent < 100000 && net_.send(me, numbered('s', sent, 100), none)) ++sent;
  expect(sent > 1 && sent < 100000, "room for messages to oneself is limited");
  expect(net_.send(me, numbered('s', sent, 100), none, true), "an urgent one to oneself");
  until([&] { return others_.size() == sent + 1; }, "messages to oneself");
  others_.clear();
  meet("refusals");
}

/// Rounds between neighbours that both go to sleep in between: a lost wake-up would cost a timeout
/// each.
void session::ping_pong() {
  const int partner = me ^ 1, rounds = 200;
  const auto start = clock_type::now();
  if (partner < net_.size()) {
    for (int i = 0; i < rounds; ++i) {
      if (me < partner) tell(partner, "ping");
      while (!told(me < partner ? "pong" : "ping")) {
        net_.wait(1s);
        step();
      }
      if (me > partner) tell(partner, "pong");
    }
    if (me == 0)
      std::printf("round trip between sleeping ranks: %.0f microseconds\n", 1e6 * seconds_since(start) / rounds);
  }
  meet("ping-pong");
}

void session::idle() {
  const auto start = clock_type::now();
  const double before = cpu_seconds();
  while (seconds_since(start) < 0.3)
    if (!step()) net_.wait(100ms);
  const double share = (cpu_seconds() - before) / seconds_since(start);
  if (me == 0) std::printf("idle: %.2f %% of a core\n", 100 * share);
  expect(share < 0.2, "an idle rank leaves its core alone, but used " + std::to_string(100 * share) + " %");
  meet("idle");
}

/// Rank 0 collects the counts of all ranks. \return the number of failures that this rank knows.
int session::collect() {
  if (me != 0) {
    tell(0, std::to_string(passed) + " " + std::to_string(failed));
    return failed;
  }
  until([&] { return control_.size() + 1 == static_cast<std::size_t>(net_.size()); }, "collecting");
  int all_passed = passed, all_failed = failed;
  for (const auto& one : control_) {
    int p = 0, f = 1;
    if (std::sscanf(one.c_str(), "%d %d", &p, &f) != 2) f = 1;
    all_passed += p;
    all_failed += f;
  }
  std::printf("%d passed, %d failed\n", all_passed, all_failed);
  std::fflush(stdout);
  return all_failed;
}

// As a launcher does with two ranks. \return whether there are CPUs enough.
bool bind_to_own_cpu() {
  const char* place = std::getenv("OMPI_COMM_WORLD_RANK");
  if (!place) place = std::getenv("PMI_RANK");
  const std::vector<int> cpus = tern::allowed_cpus();
  if (!place || cpus.size() < 2) return false;
  cpu_set_t own;
  CPU_ZERO(&own);
  CPU_SET(static_cast<std::size_t>(cpus[static_cast<std::size_t>(std::atoi(place)) % 2]), &own);
  return sched_setaffinity(0, sizeof own, &own) == 0;
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
    if (mode == "alone") setenv("TERN_MPI_RINGS", "off", 1);
    if (mode == "heads" || mode == "copies" || mode == "reads" || mode == "unshared")
      setenv("TERN_MPI_RINGS", mode.c_str(), 1);
    if (mode == "hosts") setenv("MPIR_CVAR_ODD_EVEN_CLIQUES", "1", 1);
    const bool bound = mode == "bound" && bind_to_own_cpu();
    const auto net = tern::net::make_mpi(which, &argc, &argv, mode != "single", mode != "bare");
    me = net->rank();
    tern::net::detail::mark_start(me); // it stands for a program of tern::run
    if (mode == "hold") {
      std::printf("rank %d process %ld\n", me, static_cast<long>(getpid()));
      std::fflush(stdout);
      for (;;)
        if (arrival one; !net->receive(one)) net->wait(1s);
    }
    if (mode == "abort" && me == net->size() - 1) std::thread([&] { net->abort(7); }).detach();
    while (mode == "abort") net->wait(1s);
    if (me == 0) std::printf("%s, %d ranks\n", net->describe().c_str(), net->size());
    expect(which == "openmpi" || which == "mpich", "known MPI");
    expect(net->host_size() >= 1 && net->host_rank() < net->host_size(), "place on the host");
    if (mode == "hosts" && which == "mpich") expect(net->host_size() == net->size() / 2, "two hosts");
    // Two ranks that are bound to a CPU each do not share it; others share all.
    const auto sharers = net->sharers();
    const int expected = bound ? 1 : net->host_size();
    expect(sharers.ranks == expected && sharers.rank == (bound ? 0 : net->host_rank()), "ranks that share CPUs");
    expect(net->head_limit() >= 96 && !net->any_thread_sends(), "limits");
    session run(*net);
    run.messages();
    run.room(5);
    run.room(net->head_limit());
    if (net->describe().find("rings") != std::string::npos && mode != "hosts") run.lent_bodies();
    run.kept_heads();
    if (net->describe().find("rings") != std::string::npos && mode != "heads" && mode != "hosts")
      run.sender_that_computes(50'000);
    if (net->describe().find("single copies") != std::string::npos && mode != "hosts")
      for (const std::size_t size : {std::size_t{100'000}, std::size_t{20} << 20}) run.sender_that_computes(size);
    run.looks();
    run.wake_ups();
    run.refusals();
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
