// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The memory that heads arrive in. A slot is lent to the core with the message and comes back
/// through `give_back`.
#include <mpi.h>

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>
#include <utility>
#include <vector>

#include <pthread.h>

#include "common.hpp"

namespace tern_mpi {

/// Its data follow it. 64 bytes, so that the data are aligned to a cache line.
struct alignas(64) slot {
  MPI_Request request = MPI_REQUEST_NULL; // a persistent receive into the data, once it was posted
  slot* next = nullptr;
  std::size_t index = 0; // in the pool's list of all
  bool pooled = true;    // false: for one message only

  void* data() { return this + 1; }
  static slot* of(void* data) { return static_cast<slot*>(data) - 1; }
};

/// Owner only, but for `give_back`.
class slot_pool {
public:
  /// Slots of `bytes` data; the calling thread is the owner.
  void open(std::size_t bytes) {
    // Two lines more than the data need: slots whose distance is a multiple of 4096 would share a
    // set of the cache.
    stride_ = sizeof(slot) + (bytes + 127) / 64 * 64;
    owner_ = pthread_self();
  }

  /// A slot that is free. Null if there is none.
  slot* find() {
    if (!free_) {
      if (!given_back_.load(std::memory_order_relaxed)) return nullptr;
      drain();
    }
    slot* s = std::exchange(free_, free_->next);
    --free_count_;
    return s;
  }
  /// A slot that is free or new.
  slot* take() {
    if (slot* s = find()) return s;
    void* memory = std::aligned_alloc(alignof(slot), stride_);
    if (!memory) throw failure("no memory for arriving messages");
    slot* s = new (memory) slot;
    s->index = all_.size();
    all_.push_back(s);
    return s;
  }
  /// For one message only, of `bytes`.
  static slot* take_single(std::size_t bytes) {
    void* memory = std::aligned_alloc(alignof(slot), sizeof(slot) + (bytes + 63) / 64 * 64);
    if (!memory) throw failure("no memory for an arriving message");
    slot* s = new (memory) slot;
    s->pooled = false;
    return s;
  }
  /// A slot that the core does not have.
  void put(slot* s) {
    if (!s->pooled) {
      std::free(s);
      return;
    }
    s->next = free_;
    free_ = s;
    ++free_count_;
  }
  /// Any thread. Without atomic operations for the owner.
  void give_back(slot* s) {
    if (!s->pooled || pthread_equal(pthread_self(), owner_)) {
      put(s);
      return;
    }
    s->next = given_back_.load(std::memory_order_relaxed);
    // release: with drain's acquire, the next user of the slot comes after what this thread did
    // with it. Only the owner takes, and takes all: no slot can come back in between unnoticed.
    while (!given_back_.compare_exchange_weak(s->next, s, std::memory_order_release, std::memory_order_relaxed)) {
    }
  }
  /// Frees what a burst has left behind.
  void trim() {
    while (free_count_ > kept_free) release(std::exchange(free_, free_->next));
  }
  /// Nothing is posted any more. What the core still has stays its own until `give_back`; the slots
  /// are used again if the pool is.
  void close() {
    drain();
    while (free_) release(std::exchange(free_, free_->next));
    for (slot* s : all_)
      if (s->request != MPI_REQUEST_NULL) check(MPI_Request_free(&s->request), "MPI_Request_free");
  }

private:
  static constexpr std::size_t kept_free = 64;

  void drain() {
    for (slot* s = given_back_.exchange(nullptr, std::memory_order_acquire); s;) {
      slot* next = s->next;
      put(s);
      s = next;
    }
  }
  void release(slot* s) {
    --free_count_;
    all_[s->index] = all_.back();
    all_[s->index]->index = s->index;
    all_.pop_back();
    MPI_Request request = s->request;
    std::free(s);
    if (request != MPI_REQUEST_NULL) check(MPI_Request_free(&request), "MPI_Request_free");
  }

  slot* free_ = nullptr;
  std::size_t free_count_ = 0, stride_ = 0;
  pthread_t owner_{};
  std::vector<slot*> all_;
  alignas(64) std::atomic<slot*> given_back_{nullptr}; // by other threads
};

} // namespace tern_mpi
