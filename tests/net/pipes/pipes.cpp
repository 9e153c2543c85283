// SPDX-License-Identifier: Apache-2.0
/// \file
/// A transport that Tern does not have, as a program may bring it: ranks are processes, and each
/// pair of them is joined by a socket pair. It uses public headers only. Linked to any program,
/// TERN_TRANSPORT=pipes chooses it.
///
/// It shows what a transport must keep, not how to be fast: a message costs a system call on each
/// side, and large bodies pass the kernel's buffers piece by piece.
#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <tern/base/error.hpp>
#include <tern/net/transport_kind.hpp>

namespace {

using tern::byte_buffer;
using tern::errc;
using tern::error;
using tern::net::arrival;
using tern::net::host_memory;
using tern::net::transport;

[[noreturn]] void failed(const std::string& what) {
  throw error(errc::transport, "pipes: " + what + ": " + std::strerror(errno));
}

/// Stands in front of each message.
struct frame {
  std::uint32_t head = 0, what = 0;
  std::uint64_t body = 0;
};
enum : std::uint32_t { a_message, a_space, a_goodbye }; // a_space: the receiver has taken a message

constexpr std::size_t head_most = 4096;
constexpr int spaces = 1024, urgent_spaces = 64; // messages of a sender that a receiver has space for

/// One rank's socket to another.
class line {
public:
  explicit line(int fd) : fd_(fd) {}
  ~line() { close(fd_); }
  line(const line&) = delete;
  line& operator=(const line&) = delete;

  int fd() const { return fd_; }
  bool wants_to_write() const { return !out_.empty(); }
  bool has_space(bool urgent) const { return in_flight_ < (urgent ? spaces : spaces - urgent_spaces); }
  bool said_goodbye() const { return goodbye_; }

  void post(std::span<const std::byte> head, byte_buffer body) {
    ++in_flight_;
    const frame f{static_cast<std::uint32_t>(head.size()), a_message, body.size()};
    put(f, head, std::move(body));
  }
  void tell(std::uint32_t what) { put({0, what, 0}, {}, {}); }

  /// Writes what the kernel takes. The bodies that are written wholly are given back.
  void write_some() {
    while (!out_.empty()) {
      piece& next = out_.front();
      const std::span<const std::byte> left = next.bytes.bytes().subspan(next.done);
      const ssize_t n = left.empty() ? 0 : send(fd_, left.data(), left.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
      if (n < 0) {
        if (errno == EAGAIN || errno == EWOULDBLOCK) return;
        if (errno == EINTR) continue;
        if (errno == EPIPE || errno == ECONNRESET) return out_.clear(); // the next read says so
        failed("cannot write");
      }
      next.done += static_cast<std::size_t>(n);
      if (next.done < next.bytes.size()) continue;
      // To give a body back may run code of the program, which may send: so not before the queue is
      // whole again.
      const byte_buffer gone = std::move(next.bytes);
      out_.pop_front();
    }
  }

  /// Reads on. \return whether a message has arrived whole.
  bool read_message(arrival& into) {
    for (;;) {
      if (stage_ == stage::frame) {
        if (!fill(std::as_writable_bytes(std::span(&frame_, 1)))) return false;
        if (frame_.what == a_space) {
          --in_flight_;
          continue;
        }
        if (frame_.what == a_goodbye) {
          goodbye_ = true;
          continue;
        }
        if (frame_.head > head_most) throw error(errc::transport, "pipes: a rank sent what is no message");
        head_ = byte_buffer(frame_.head);
        body_ = byte_buffer(static_cast<std::size_t>(frame_.body));
        stage_ = stage::head;
      }
      if (stage_ == stage::head) {
        if (!fill(head_.bytes())) return false;
        stage_ = stage::body;
      }
      if (!fill(body_.bytes())) return false;
      stage_ = stage::frame;
      into.head = std::move(head_);
      into.body = std::move(body_);
      return true;
    }
  }

private:
  struct piece {
    byte_buffer bytes;
    std::size_t done = 0;
  };
  enum class stage { frame, head, body };

  void put(const frame& f, std::span<const std::byte> head, byte_buffer body) {
    byte_buffer front(sizeof f + head.size());
    std::memcpy(front.data(), &f, sizeof f);
    if (!head.empty()) std::memcpy(front.data() + sizeof f, head.data(), head.size());
    out_.push_back({std::move(front)});
    if (!body.empty()) out_.push_back({std::move(body)});
    write_some();
  }
  /// \return whether all of it has been read; else this goes on next time.
  bool fill(std::span<std::byte> into) {
    while (filled_ < into.size()) {
      const ssize_t n = recv(fd_, into.data() + filled_, into.size() - filled_, MSG_DONTWAIT);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return false;
      if (n < 0 && errno != ECONNRESET) failed("cannot read");
      if (n <= 0) {
        if (goodbye_) return false;
        throw error(errc::transport, "pipes: a rank has gone before the job had ended");
      }
      filled_ += static_cast<std::size_t>(n);
    }
    filled_ = 0;
    return true;
  }

  const int fd_;
  std::deque<piece> out_;
  int in_flight_ = 0; // messages that the other rank has not taken
  bool goodbye_ = false;
  stage stage_ = stage::frame;
  std::size_t filled_ = 0;
  frame frame_;
  byte_buffer head_, body_;
};

class pipe_end final : public transport {
public:
  /// \param fds one to each rank; -1 for the own.
  pipe_end(int rank, const std::vector<int>& fds) : rank_(rank) {
    for (const int fd : fds) lines_.push_back(fd < 0 ? nullptr : std::make_unique<line>(fd));
    bell_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (bell_ < 0) failed("no eventfd");
  }
  ~pipe_end() override { close(bell_); }

  int rank() const noexcept override { return rank_; }
  int size() const noexcept override { return static_cast<int>(lines_.size()); }
  int host_rank() const noexcept override { return rank_; }
  int host_size() const noexcept override { return size(); }
  std::string describe() const override { return "pipes"; }
  std::size_t head_limit() const noexcept override { return head_most; }
  bool any_thread_sends() const noexcept override { return false; }
  std::optional<host_memory> processes() const noexcept override { return host_memory(); } // that share no memory

  bool send(int destination, std::span<const std::byte> head, byte_buffer& body, bool urgent) override {
    if (destination < 0 || destination >= size())
      throw error(errc::invalid_argument, "pipes: there is no rank " + std::to_string(destination));
    if (head.size() > head_most) throw error(errc::invalid_argument, "pipes: a head is too large");
    if (destination == rank_) {
      if (to_self_.size() >= static_cast<std::size_t>(urgent ? spaces : spaces - urgent_spaces)) return false;
      to_self_.push_back({rank_, byte_buffer::copy_of(head), std::move(body)});
    } else {
      line& to = *lines_[static_cast<std::size_t>(destination)];
      if (!to.has_space(urgent)) return false;
      to.post(head, std::move(body));
    }
    body = {};
    return true;
  }

  bool receive(arrival& into) override {
    if (!to_self_.empty() && (self_in_turn_ = !self_in_turn_)) return take_own(into);
    for (std::size_t n = 0; n < lines_.size(); ++n) {
      const std::size_t from = turn_++ % lines_.size();
      line* const l = lines_[from].get();
      if (!l) continue;
      l->write_some();
      if (!l->read_message(into)) continue;
      into.source = static_cast<int>(from);
      l->tell(a_space);
      return true;
    }
    return !to_self_.empty() && take_own(into);
  }

  void wait(std::chrono::microseconds at_most) override {
    if (!to_self_.empty()) return;
    std::vector<pollfd> all{{bell_, POLLIN, 0}};
    for (const auto& l : lines_)
      if (l && !l->said_goodbye())
        all.push_back({l->fd(), static_cast<short>(POLLIN | (l->wants_to_write() ? POLLOUT : 0)), 0});
    const timespec limit{at_most.count() / 1'000'000, at_most.count() % 1'000'000 * 1000};
    if (ppoll(all.data(), all.size(), &limit, nullptr) > 0 && all[0].revents != 0) {
      std::uint64_t rung = 0;
      if (read(bell_, &rung, sizeof rung) < 0 && errno != EAGAIN) failed("cannot read the eventfd");
    }
  }
  void wake() noexcept override {
    const std::uint64_t one = 1;
    [[maybe_unused]] const ssize_t n = write(bell_, &one, sizeof one); // full: it is ringing
  }

  // Each tells each other that it sends no more, and waits for the same of them.
  void finish() override {
    for (const auto& l : lines_)
      if (l) l->tell(a_goodbye);
    for (arrival none;;) {
      bool over = true;
      for (const auto& l : lines_) {
        if (!l) continue;
        l->write_some();
        if (l->read_message(none)) throw error(errc::transport, "pipes: a message after the end");
        over = over && !l->wants_to_write() && l->said_goodbye();
      }
      if (over) return;
      wait(std::chrono::milliseconds(10));
    }
  }
  [[noreturn]] void abort(int code) noexcept override {
    std::fflush(stdout);
    std::fflush(stderr);
    _exit(code); // the others notice, and end too
  }

private:
  bool take_own(arrival& into) {
    into = std::move(to_self_.front());
    to_self_.pop_front();
    return true;
  }

  const int rank_;
  int bell_ = -1;
  std::vector<std::unique_ptr<line>> lines_; // by rank; null for the own
  std::deque<arrival> to_self_;
  std::size_t turn_ = 0;
  bool self_in_turn_ = false;
};

class pipe_kind final : public tern::net::transport_kind {
public:
  pipe_kind()
      : transport_kind({.name = "pipes",
                        .what = "as processes with a pair of sockets for each two",
                        .words = {},
                        .automatic = {},
                        .preference = 0}) {}

  // This process is rank 0 and makes the others. A pair's two ends are made before both ranks are.
  int run(tern::net::job_start& job, tern::net::rank_runner run_ranks) const override {
    const auto n = static_cast<std::size_t>(job.ranks);
    std::vector<std::vector<int>> ends(n, std::vector<int>(n, -1)); // [rank][other]
    for (std::size_t a = 0; a < n; ++a)
      for (std::size_t b = a + 1; b < n; ++b) {
        std::array<int, 2> pair{};
        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair.data()) != 0) failed("no socket pair");
        ends[a][b] = pair[0];
        ends[b][a] = pair[1];
      }
    std::size_t mine = 0;
    std::vector<pid_t> others;
    std::fflush(nullptr); // else children would write it again
    for (std::size_t r = 1; r < n && mine == 0; ++r) {
      const pid_t child = fork();
      if (child < 0) failed("cannot fork");
      if (child == 0)
        mine = r;
      else
        others.push_back(child);
    }
    for (std::size_t r = 0; r < n; ++r)
      for (const int fd : ends[r])
        if (r != mine && fd >= 0) close(fd);
    std::vector<std::unique_ptr<transport>> end;
    end.push_back(std::make_unique<pipe_end>(static_cast<int>(mine), ends[mine]));
    const int code = run_ranks(job, std::move(end));
    if (mine != 0) { // what follows `tern::run` is for one process
      std::fflush(stdout);
      _exit(code);
    }
    for (const pid_t child : others) waitpid(child, nullptr, 0);
    return code;
  }
};

const pipe_kind the_pipes; // a static object: from now on TERN_TRANSPORT=pipes works

} // namespace
