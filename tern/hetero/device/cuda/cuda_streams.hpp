// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// A CUDA device's streams, and what of that which was put into them is over. Internal.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <tern/hetero/device/cuda/cuda_api.hpp>
#include <tern/hetero/device/cuda/cuda_timer.hpp>
#include <tern/hetero/device/device.hpp>

namespace tern::hetero::detail {

struct cuda_target;

/// Operations in streams, their tickets, and events by need.
///
/// Operations of a stream end in their order. So one event says of all before it that they are
/// over, and it is recorded only
/// - after an operation whose end has to be known by itself (`apart`, `mark`);
/// - after every eighth, or after each where they take long;
/// - when another stream is to wait for an operation after which there is none. It is later than
///   needed then, and right.
/// Questions are for the oldest event of a stream. Where none is recorded the stream itself is
/// asked: has it anything left to do?
///
/// Requires: the context is current where something is put into a stream. Errors: as `device`.
/// Threads: the device's owner's.
class cuda_streams {
public:
  struct stream {
    cu::stream handle = nullptr;

  private:
    friend class cuda_streams;
    using clock = std::chrono::steady_clock;
    std::uint32_t first = 0, last = 0;             // of what is not known to be over: slot + 1
    std::uint64_t put = 0, recorded = 0, over = 0; // places of the last ones
    std::vector<std::uint64_t> waits_for;          // of each stream: the place that it comes after
    std::uint32_t put_off = 0;                     // questions for others than the first
    std::uint64_t asked_in = 0;
    clock::time_point since{}; // when it got something to do, or some of that was found to be over
    unsigned slow = 0;         // how often in a row its operations took long
  };
  /// An operation that is about to be put into a stream.
  struct slot {
    const char* operation = nullptr;
    const char* kernel = nullptr; ///< null: none
    const char* task = nullptr;   ///< null: it is of none
    std::uint32_t timed = 0;      ///< the timer's pair around it; 0: none

  private:
    friend class cuda_streams;
    cu::event event = nullptr; // recorded after it; null: none
    bool used = false, come = false;
    bool prompt = false; // it was put there `apart`
    std::uint8_t queue = 0;
    std::uint32_t uses = 0;
    std::uint32_t next = 0; // in its stream: slot + 1; 0: it is the last
    std::uint64_t place = 0;
  };

  cuda_streams(cuda_target& target, cuda_timer& timer);
  ~cuda_streams();
  cuda_streams(const cuda_streams&) = delete;
  cuda_streams& operator=(const cuda_streams&) = delete;

  void open(std::size_t count);
  std::size_t size() const noexcept { return all_.size(); }
  stream& operator[](std::size_t n) noexcept { return all_[n]; }

  /// What may fail comes before the operation.
  slot& reserve(const char* operation, const char* kernel, const char* task = nullptr);
  /// The operation of the slot that was reserved last has been put there. \param apart its end is
  /// to be known by itself.
  ticket put(stream& to, slot& s, bool apart);
  /// The end of what was put there last is to be known by itself.
  void mark(stream& s);
  /// What is put there from now on comes after `t`.
  void come_after(stream& s, ticket t);
  /// The end of `t`, for streams of other devices. \return null: it is over.
  event_ref event(ticket t);
  /// What is put there from now on comes after that, which is another device's.
  void come_after_others(stream& s, const event_ref& e);
  bool done(ticket t);
  /// Nanoseconds, of what was found to be done last; 0: not known.
  std::int64_t took() const noexcept { return took_; }
  /// Another round of the owner's: in one, no stream is asked twice.
  void next_round() noexcept;

  void wait_for_all() const noexcept;
  /// CUDA does not say which kernel broke the context: it is one of those that were there. "'add'
  /// (task 'astray')"
  std::string under_way() const;
  std::size_t open_tickets() const noexcept { return slots_.size() - unused_.size(); }

private:
  /// Events that other devices wait for. They come back when these have been told to. Thread-safe.
  struct told_events {
    explicit told_events(const cuda_api& of) : destroy(of.EventDestroy) {}
    const decltype(cuda_api::EventDestroy) destroy;
    std::mutex lock;
    std::vector<cu::event> unused;
    std::size_t made = 0;
    bool open = true; ///< else what comes back is destroyed
  };
  struct told_event;

  // A ticket is the number of a slot, and how often it was used: one that was forgotten is
  // recognised.
  slot* find(ticket t);
  void forget(slot& s) noexcept;
  void have_event();
  void record(stream& s, slot& after);
  void advance(stream& s);
  void over_until(stream& s, std::uint64_t place) noexcept;
  bool is_worth_a_question(stream& s) noexcept;
  [[noreturn]] void fail(const stream& s, cu::result r);

  cuda_target& target_;
  cuda_timer& timer_;
  std::int64_t took_ = 0;
  std::vector<stream> all_;
  std::vector<slot> slots_;
  std::vector<std::uint32_t> unused_; // slots
  std::vector<cu::event> events_;     // that are not recorded
  std::shared_ptr<told_events> told_;
  std::uint64_t round_ = 0;
  bool has_put_ = false;          // in this round
  std::uint32_t busy_rounds_ = 0; // one after the other: in each something was put into a stream
};

} // namespace tern::hetero::detail
