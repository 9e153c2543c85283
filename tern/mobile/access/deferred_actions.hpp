// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What is decided under a shard's lock and done without it. Internal.

#include <memory>
#include <utility>
#include <vector>

#include <tern/mobile/directory.hpp>

namespace tern::mobile {

struct directory::todo {
  explicit todo(entry* e = nullptr) noexcept : of(e) {}

  entry* of;                           ///< whose invocations are to be started
  invocation_list start;               ///< admitted, in order
  std::unique_ptr<invocation> request; ///< to migrate, if it can now
  struct forward {
    int where;
    std::unique_ptr<invocation> what;
  };
  std::vector<forward> forwards;
  std::vector<std::pair<int, directory_note>> notes;
  tern::detail::waiter_list wake;              ///< who has its access back
  std::vector<object_id> opens;                ///< streams to be opened by way of the home
  std::vector<std::pair<int, address>> closes; ///< streams to be closed
  invocation_list done;                        ///< only to be counted, and answered if somebody waits
  invocation_list refusals;                    ///< that the object's end does not wait for
  std::vector<entry*> loads;                   ///< at `loading`
  object_id ready;                             ///< whose next invocation may begin, when a worker has time
  double ready_load = 0;
  priority ready_level = priority::normal;
  bool ready_again = false;
  object_id changed; ///< its load
  object_id left;    ///< whose last own messages were sent on
  std::unique_ptr<entry> forgotten;
};

namespace detail {

inline constexpr const char* how_to_serialize =
    "give the class a serialize function, and a default constructor or one from an archive";

void post_note(net::node& here, int to, const directory_note& n);
void post_open(net::node& here, object_id id);
void post_close(net::node& here, int where, const address& to);
/// As if somebody had asked for it who does not wait.
std::unique_ptr<invocation> migrate_request(net::node& here, object_id id, int to, std::uint64_t reply = 0);
/// What was the last of an object's counted references is what destroys it.
void make_destroy(invocation& one) noexcept;
/// \throws error(invalid_data) if the message says nothing.
std::uint64_t credit_in(invocation& one);
void post_skip(net::node& here, const directory::way& w);
/// Sends an invocation that has arrived to another rank, and counts it as done here.
void forward(net::node& here, int where, std::unique_ptr<invocation> one);

} // namespace detail
} // namespace tern::mobile
