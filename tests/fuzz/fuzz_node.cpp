// SPDX-License-Identifier: Apache-2.0
// A rank that is sent anything: a real node with its scheduler, on a network that delivers what the
// input says.
//
// An input is a list of steps: what to do, to which handler, with which flags, for which reply, and
// the bytes. Messages for the program's handlers arrive as from the network. Those for the
// runtime's own are handed to their entries by the main fiber: what is wrong with one ends the job,
// and here that must be an error that can be caught.
#include "fuzz.hpp"

#include <deque>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <tern/base/log.hpp>
#include <tern/base/options.hpp>
#include <tern/net/epoch.hpp>
#include <tern/net/epoch/epoch_table.hpp>
#include <tern/net/job/rank_life.hpp>
#include <tern/net/message.hpp>
#include <tern/net/message/batch.hpp>
#include <tern/net/message/parse.hpp>
#include <tern/net/multicast.hpp>
#include <tern/net/remote_promise.hpp>
#include <tern/task/fiber.hpp>

namespace {

using tern::net::arrival;
using tern::net::flag_joined;
using tern::net::flag_range;
using tern::net::flag_traced;
using tern::net::flag_uncounted;
using tern::net::handler_record;
using tern::net::handler_table;
using tern::net::wire_header;

// What others may call.
void note(const std::string&) {}
int add_up(std::span<const std::int32_t> numbers, const std::vector<std::string>& more) {
  unsigned sum = static_cast<unsigned>(more.size());
  for (const std::int32_t each : numbers) sum += static_cast<unsigned>(each);
  return static_cast<int>(sum);
}
std::vector<double> twice(tern::buffer<double> block) {
  for (double& each : block) each *= 2;
  return {block.begin(), block.end()};
}
void refuse(int code) { throw tern::error(tern::errc::invalid_argument, "refused " + std::to_string(code)); }
void wait(int turns) {
  for (int n = 0; n < turns % 8; ++n) tern::this_fiber::yield();
}

constexpr int ranks = 4;

/// Rank 0's end of a network of four. What it delivers has been looked at as a node does, since a
/// node ends the job with what is wrong.
class scripted final : public tern::net::transport {
public:
  explicit scripted(std::deque<arrival>& incoming) : incoming_(incoming) {}
  int rank() const noexcept override { return 0; }
  int size() const noexcept override { return ranks; }
  int host_rank() const noexcept override { return 0; }
  int host_size() const noexcept override { return 1; }
  std::string describe() const override { return "scripted"; }
  std::size_t head_limit() const noexcept override { return 512; }
  bool any_thread_sends() const noexcept override { return false; }
  bool send(int to, std::span<const std::byte> head, tern::byte_buffer& body, bool urgent) override {
    fuzz::require(to >= 0 && to < ranks && head.size() >= sizeof(wire_header) && head.size() <= head_limit(),
                  "a message is sent that cannot be one");
    if (!urgent && ++asked_ % 3 == 0) return false; // no room, for once
    body = {};
    return true;
  }
  bool receive(arrival& into) override {
    if (incoming_.empty()) return false;
    into = std::move(incoming_.front());
    incoming_.pop_front();
    return true;
  }
  void wait(std::chrono::microseconds) override {}
  void wake() noexcept override {}
  void finish() override {}
  [[noreturn]] void abort(int) noexcept override { fuzz::fail("the node has ended the job"); }

private:
  std::deque<arrival>& incoming_;
  unsigned asked_ = 0;
};

arrival copy_of(const arrival& m) { return {m.source, m.head.copy(), m.body.copy()}; }

// May the network deliver it, or would the node end the job?
bool deliverable(const arrival& m) {
  return fuzz::accepts({tern::errc::invalid_data}, [&] {
    const auto p = tern::net::detail::parse(copy_of(m));
    if (p.handler.internal()) throw tern::error(tern::errc::invalid_data, "not this way");
  });
}
bool batch_deliverable(const arrival& whole) {
  tern::net::batch_reader* reader = nullptr;
  if (!fuzz::accepts({tern::errc::invalid_data}, [&] { reader = tern::net::batch_reader::open(copy_of(whole)); }))
    return false;
  for (;;) {
    arrival one;
    bool more = false;
    const bool fine = fuzz::accepts({tern::errc::invalid_data}, [&] {
      more = reader->next(one);
      if (more && !deliverable(one)) throw tern::error(tern::errc::invalid_data, "one of them");
    });
    if (!fine) {
      one = {};
      reader->abandon();
      return false;
    }
    if (!more) return true;
  }
}

struct table {
  std::vector<const handler_record*> programs, internal; // the former in an order that is the same in every build
  const handler_record *multicast = nullptr, *share = nullptr, *batch = nullptr;
};
const table& handlers() {
  static const table all = [] {
    handler_table::freeze();
    table t;
    t.programs = {&tern::net::detail::function_handler<&note>, &tern::net::detail::function_handler<&add_up>,
                  &tern::net::detail::function_handler<&twice>, &tern::net::detail::function_handler<&refuse>,
                  &tern::net::detail::function_handler<&wait>};
    for (const char* name :
         {"tern reply", "tern error reply", "tern collective", "tern multicast", "tern remote promise", "tern batch"}) {
      const handler_record* found = nullptr;
      for (std::uint32_t i = 0; i < handler_table::size(); ++i)
        if (handler_table::at(i).name() == name) found = &handler_table::at(i);
      fuzz::require(found, "one of the runtime's handlers has another name now: change fuzz_node.cpp");
      t.internal.push_back(found);
    }
    t.multicast = t.internal[3];
    t.share = t.internal[4];
    t.batch = t.internal[5];
    return t;
  }();
  return all;
}

const tern::options& settings() {
  static const tern::options all = [] {
    tern::set_log_level(tern::log_level::off);
    std::string words[] = {"fuzz", "--tern-workers=1", "--tern-spin-us=0", "--tern-unhandled=report",
                           "--tern-bind=none"};
    char* argv[std::size(words) + 1] = {};
    for (std::size_t i = 0; i < std::size(words); ++i) argv[i] = words[i].data();
    int argc = static_cast<int>(std::size(words));
    return tern::options::parse(argc, argv);
  }();
  return all;
}

class job {
public:
  explicit job(fuzz::input in) : in_(in) {}
  void run() {
    tern::net::rank_life life(std::make_shared<tern::options>(settings()), std::make_unique<scripted>(incoming_));
    tern::net::node& here = life.here();
    here.fibers().run([&] { main(here); });
    life.end();
  }

private:
  arrival next_message(const wire_header& h, bool with_body) {
    const auto arguments = in_.bytes(in_.number());
    tern::byte_buffer head;
    head.append(&h, sizeof h);
    head.append(arguments);
    arrival m{in_.number() % ranks, fuzz::placed::buffer(head, in_.number() % 16), {}};
    if (with_body) m.body = fuzz::placed::buffer(in_.bytes(in_.number<std::uint16_t>() % 2048), in_.number() % 16);
    return m;
  }

  // What one of the runtime's own handlers makes of a message.
  void enter(tern::net::node& here, const handler_record& handler, wire_header h) {
    arrival m = next_message(h, false);
    // Which numbers the program's handlers have depends on the build: an input names them by their
    // place in the list.
    if (&handler == handlers().multicast && m.head.size() >= sizeof h + sizeof(std::uint32_t)) {
      std::uint32_t to = 0;
      std::memcpy(&to, m.head.data() + sizeof h, sizeof to);
      if (to < handlers().programs.size()) to = handlers().programs[to]->id();
      std::memcpy(m.head.data() + sizeof h, &to, sizeof to);
    }
    if (&handler == handlers().share && share_set_) return; // a second value ends the job, as it should
    std::uint32_t says = 0;
    if (m.head.size() >= sizeof h + sizeof says) std::memcpy(&says, m.head.data() + sizeof h, sizeof says);
    const bool fine = fuzz::accepts({tern::errc::invalid_data, tern::errc::invalid_argument}, [&] {
      const int source = m.source;
      auto p = tern::net::detail::parse(std::move(m));
      p.handler.entry()(here, source, p.header, p.message);
    });
    // An exception that cannot be read has set the promise by the time that it is found to be none.
    if (&handler == handlers().share && (fine ? says != 2 : says == 1)) share_set_ = true;
  }

  // What comes of the network for epochs: of this rank, of others, or of none.
  void enter_epoch(tern::net::node& here) {
    const int source = in_.number() % ranks;
    tern::net::detail::epoch_mark mark;
    mark.epoch = static_cast<std::uint64_t>(in_.number() % (ranks + 1)) << 40 | in_.number() % 4u;
    mark.units = in_.number() % 2 == 0 ? std::uint64_t{1} << in_.number() % 64u : in_.number<std::uint64_t>();
    mark.bank = in_.number() % (ranks + 1);
    const bool back = in_.number() % 2 == 0;
    static_cast<void>(fuzz::accepts({tern::errc::invalid_data}, [&] {
      if (back) return here.epochs().take_back(source, mark.epoch, mark.units);
      const tern::detail::held_context held = here.epochs().arrive(source, mark);
      const tern::detail::causal_scope in(held.get());
      tern::send<&note>(2, "caused");
    }));
  }

  void main(tern::net::node& here) {
    tern::epoch work("work");
    work.run([] { tern::send<&note>(1, "of an epoch"); });
    auto answer = tern::call<&add_up>(1, std::vector<std::int32_t>{1, 2}, std::vector<std::string>{"x"});
    auto empty = tern::call<&note>(2, "y");
    tern::remote_promise<std::string> promise;
    auto promised = promise.get_future();
    auto away = promise.share();
    tern::send<&note>(3, "the share leaves for there");
    const table& t = handlers();
    for (int step = 0; step < 64 && !in_.empty(); ++step) {
      const std::uint8_t what = in_.number(), which = in_.number(), reply = in_.number();
      // Numbers as the node gives them to calls and promises: the slot, and which use of it this
      // is.
      const std::uint64_t number = reply == 0 ? 0 : (std::uint64_t{1} + reply / 16u % 2) << 32 | reply % 4u;
      wire_header h{0,
                    flag_uncounted | (what & 0x10 ? flag_range : 0) | (what & 0x20 ? flag_joined : 0) |
                        (what & 0x40 ? flag_traced : 0),
                    number};
      switch (what % 4) {
      case 0: { // to the program
        h.handler = t.programs[which % t.programs.size()]->id();
        arrival m = next_message(h, (what & 0x80) != 0);
        if (deliverable(m)) incoming_.push_back(std::move(m));
        break;
      }
      case 1: { // to the runtime
        if (what & 0x08) {
          enter_epoch(here);
          break;
        }
        const handler_record& to = *t.internal[which % t.internal.size()];
        h.handler = to.id();
        h.flags &= ~(flag_range | flag_joined);
        enter(here, to, h);
        break;
      }
      case 2: { // a batch of messages for the program, or of anything
        tern::byte_buffer all(1024);
        tern::net::batch_writer writer(all.data(), all.size(), t.batch->id());
        for (unsigned n = 0; n < 1u + which % 4; ++n) {
          h.handler = t.programs[in_.number() % t.programs.size()]->id();
          const arrival one = next_message(h, false);
          if (!writer.has_space(one.head.size())) break;
          writer.add(one.head);
        }
        if (writer.empty()) break;
        auto bytes = tern::byte_buffer::copy_of(writer.finish());
        if (what & 0x80) bytes.append(in_.bytes(in_.number() % 16));
        arrival whole{1, fuzz::placed::buffer(bytes, 0), {}};
        if (batch_deliverable(whole)) incoming_.push_back(std::move(whole));
        break;
      }
      default:
        settle();
      }
    }
    settle();
    const auto look = [](auto& future) {
      if (!future.ready()) return;
      try {
        static_cast<void>(future.get());
      } catch (const tern::error&) { // whatever the other side is said to have thrown
      }
    };
    look(answer);
    look(empty);
    look(promised);
  }
  // Lets what has arrived be handled.
  void settle() {
    while (!incoming_.empty()) tern::this_fiber::yield();
    for (int n = 0; n < 12; ++n) tern::this_fiber::yield();
  }

  fuzz::input in_;
  std::deque<arrival> incoming_;
  bool share_set_ = false;
};

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static_cast<void>(handlers());
  job(fuzz::input(data, size)).run();
  return 0;
}
