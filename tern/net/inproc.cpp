// SPDX-License-Identifier: Apache-2.0
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <utility>

#include <tern/base/error.hpp>
#include <tern/net/transport.hpp>

namespace tern::net {
namespace {

struct arrival {
  int source;
  byte_buffer message;
};

struct inbox {
  std::mutex lock;
  std::condition_variable bell;
  std::vector<arrival> arrived;
  bool woken = false;
};

struct hub {
  explicit hub(int ranks) : inboxes(static_cast<std::size_t>(ranks)) {}
  std::vector<inbox> inboxes;
  std::mutex lock;
  std::condition_variable all_finished;
  std::size_t finished = 0;
};

/// Ranks are threads of this process: a message is a buffer that changes hands.
class inproc_transport final : public transport {
public:
  inproc_transport(std::shared_ptr<hub> h, int rank) : hub_(std::move(h)), rank_(rank) {}

  int rank() const noexcept override { return rank_; }
  int size() const noexcept override { return static_cast<int>(hub_->inboxes.size()); }
  int host_rank() const noexcept override { return rank_; }
  int host_size() const noexcept override { return size(); }
  std::string describe() const override { return "inproc"; }

  void send(int destination, byte_buffer message) override {
    if (destination < 0 || destination >= size())
      throw error(errc::invalid_argument, "there is no rank " + std::to_string(destination),
                  "ranks are 0 to " + std::to_string(size() - 1));
    inbox& in = hub_->inboxes[static_cast<std::size_t>(destination)];
    {
      std::lock_guard hold(in.lock);
      in.arrived.push_back({rank_, std::move(message)});
    }
    in.bell.notify_one();
  }

  std::size_t poll(const sink& receive) override {
    {
      std::lock_guard hold(mine().lock);
      batch_.swap(mine().arrived);
    }
    for (auto& a : batch_) receive(a.source, std::move(a.message));
    const std::size_t events = batch_.size();
    batch_.clear();
    return events;
  }

  void wait(std::chrono::microseconds at_most) override {
    inbox& in = mine();
    std::unique_lock hold(in.lock);
    in.bell.wait_for(hold, at_most, [&] { return in.woken || !in.arrived.empty(); });
    in.woken = false;
  }

  void wake() noexcept override {
    {
      std::lock_guard hold(mine().lock);
      mine().woken = true;
    }
    mine().bell.notify_one();
  }

  void finish() override {
    std::unique_lock hold(hub_->lock);
    if (++hub_->finished == hub_->inboxes.size())
      hub_->all_finished.notify_all();
    else
      hub_->all_finished.wait(hold, [&] { return hub_->finished == hub_->inboxes.size(); });
  }

  // The other ranks' threads run on meanwhile, so nothing may be destroyed under them.
  [[noreturn]] void abort(int code) noexcept override {
    std::fflush(stdout); // not all streams: a thread that reads one would keep its lock
    std::fflush(stderr);
    std::_Exit(code);
  }

private:
  inbox& mine() noexcept { return hub_->inboxes[static_cast<std::size_t>(rank_)]; }
  std::shared_ptr<hub> hub_;
  int rank_;
  std::vector<arrival> batch_; // of the owner
};

} // namespace

std::vector<std::unique_ptr<transport>> make_inproc(int ranks) {
  if (ranks < 1)
    throw error(errc::invalid_argument, "a job needs at least 1 rank, not " + std::to_string(ranks),
                "set TERN_RANKS or `tern run -n` to 1 or more");
  auto h = std::make_shared<hub>(ranks);
  std::vector<std::unique_ptr<transport>> ends;
  ends.reserve(static_cast<std::size_t>(ranks));
  for (int r = 0; r < ranks; ++r) ends.push_back(std::make_unique<inproc_transport>(h, r));
  return ends;
}

} // namespace tern::net
