// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What is decided under a shard's lock and done without it. Internal.

#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <tern/mobile/entry/directory_services.hpp>
#include <tern/mobile/entry/entry.hpp>

namespace tern::mobile::detail {

/// What follows from events and signals (access/event_signals.hpp).
struct event_actions {
  struct answer {
    int to;
    std::uint64_t reply;
    std::uint32_t number; ///< 0: that it is done
    tern::detail::held_context on;
  };
  struct failure {
    int to;
    std::uint64_t reply;
    std::exception_ptr why;
    std::string name;
  };
  std::vector<answer> answers;
  std::vector<failure> failures;
  std::vector<fired_with_objects> firings;
  std::vector<fired_near> near;
  std::vector<tern::detail::held_context> released; ///< of signals that count no longer
  unsigned done = 0;                                ///< messages
};

/// A list of things to do. It is filled under the lock of one shard; `directory_services::perform`
/// does them in order when the lock has been released.
struct deferred_actions {
  explicit deferred_actions(entry* e = nullptr) noexcept : of(e) {}

  entry* of;                           ///< the object whose invocations are to be started
  invocation_list start;               ///< admitted, in order
  std::unique_ptr<invocation> request; ///< to migrate or to swap out; the entry is at `leaving`
  struct forward {
    int where;
    std::unique_ptr<invocation> what;
  };
  std::vector<forward> forwards;
  std::vector<std::pair<int, directory_note>> notes;
  tern::detail::waiter_list wake;              ///< fibers that have their access back
  std::vector<object_id> opens;                ///< streams to be opened by way of the home
  std::vector<std::pair<int, address>> closes; ///< streams to be closed
  struct granted {
    std::unique_ptr<invocation> claim;
    claim_grant with;
  };
  std::vector<granted> grants; ///< claims whose callers are to be told
  invocation_list done;        ///< only to be counted, and answered if their callers wait
  invocation_list refusals;    ///< arrived behind the object's end
  std::vector<entry*> loads;   ///< at `loading`
  object_id ready;             ///< its next invocation may begin when a worker is idle
  double ready_load = 0;
  priority ready_level = priority::normal;
  bool ready_again = false;
  object_id changed; ///< its load
  object_id closed;  ///< the last messages that waited for the end of its stream have been sent on
  std::unique_ptr<entry> forgotten;
  std::unique_ptr<event_actions> events; ///< null: none
};

} // namespace tern::mobile::detail
