// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The simulated transport: ranks of one process on one thread, whose messages pass through a model
/// of a network. Internal.

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <tern/net/sim_world.hpp>
#include <tern/net/transport.hpp>
#include <tern/net/transport/sim/network_model.hpp>
#include <tern/task/sim.hpp>

namespace tern {
class scheduler;
}

namespace tern::sim::detail {

class simulated_executor;

/// What a simulated job's ranks share: the network, what goes wrong, and how the job is replayed.
/// Outlives its ends. One thread.
class sim_job {
public:
  sim_job(const world& w, simulation& s);
  ~sim_job();
  sim_job(const sim_job&) = delete;
  sim_job& operator=(const sim_job&) = delete;

  /// One rank's end of the network; each once. It must be told its scheduler before the simulation
  /// runs.
  std::unique_ptr<net::transport> end(int rank);
  void connect(int rank, scheduler& s);
  /// Plans what goes wrong. Once all ranks are connected.
  void plan_faults();
  /// What went wrong until now, a line each, with the virtual time.
  const std::vector<std::string>& faults() const noexcept { return told_; }
  bool crashed(int rank) const noexcept;

  const world& settings() const noexcept { return world_; }
  std::uint64_t messages() const noexcept { return messages_; }
  std::uint64_t bytes() const noexcept { return bytes_; }

private:
  struct simulated_message;
  struct slot_notice;
  struct loss_notice;
  class port;
  class fault;
  bool send(port& from, int to, std::span<const std::byte> head, byte_buffer& body, bool urgent);
  void received(int from, int to);
  simulated_message* take_message();
  void give(simulated_message* p) noexcept;
  void notify_of(int lost, port& who);
  void tell(const std::string& what);

  const world world_;
  simulated_executor& engine_;
  const std::unique_ptr<network> network_;
  std::vector<port*> ports_; // by rank
  std::vector<std::unique_ptr<simulated_message[]>> message_store_;
  simulated_message* free_ = nullptr;
  std::vector<std::unique_ptr<fault>> planned_;
  std::vector<std::unique_ptr<slot_notice>> notices_; // by sender; empty until one is refused
  std::vector<std::unique_ptr<loss_notice>> losses_;
  std::vector<std::string> told_;
  std::uint64_t messages_ = 0, bytes_ = 0;
  std::int64_t overhead_ = 0, jitter_ = 0, delay_ = 0, reorder_ = 0, latency_ = 0; // ns
  std::uint32_t slots_ = 0;                                                        // messages; 0: for any number
};

/// The command that runs this process's program again in the same world: for people to paste into a
/// shell.
/// \param trace also record what happens, in this file; empty: no.
std::string replay_command(const world& w, const std::string& trace);
/// Prints that command.
void tell_replay(const world& w) noexcept;
/// Prints that command and ends the process.
[[noreturn]] void give_up(const world& w, int code) noexcept;

} // namespace tern::sim::detail
