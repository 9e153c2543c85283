// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Messages of a rank to an object of its own, and what keeps them until they are delivered.
/// Internal.

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include <tern/base/bytes.hpp>
#include <tern/mobile/object_id.hpp>
#include <tern/task/fiber/causal_context.hpp>
#include <tern/task/fiber_options.hpp>
#include <tern/task/worker/activation_queue.hpp>
#include <tern/task/worker/handed_ring.hpp>

namespace tern::mobile::detail {

class mailboxes;

/// A message, header first, as it would arrive. What is simple touches its first lines only: they
/// may come from another core.
struct alignas(64) mail : tern::detail::handed {
  static constexpr std::size_t near_bytes = 160;

  explicit mail(mailboxes* all = nullptr) noexcept : handed(arrives), rank(all) {}

  mail* next = nullptr;
  mailboxes* const rank;         ///< null: it never goes to another worker
  tern::detail::held_context on; ///< the causal context in which it waits
  std::uint32_t size = 0;        ///< in `near`
  std::int16_t worker = -1;      ///< that sends it
  std::uint8_t level = 1;        ///< tern::priority
  bool has_body = false;
  alignas(16) std::array<std::byte, near_bytes> near;
  byte_buffer large; ///< the message, if `near` has no room for it
  byte_buffer body;  ///< if `has_body`

  std::span<std::byte> message() noexcept { return size > 0 ? std::span(near).first(size) : large.bytes(); }

private:
  static void arrives(handed& x) noexcept;
};

/// First in, first out.
class mail_list {
public:
  bool empty() const noexcept { return !first_; }
  void push(mail* m) noexcept {
    m->next = nullptr;
    (first_ ? last_->next : first_) = m;
    last_ = m;
  }
  mail* pop() noexcept {
    mail* const m = first_;
    if (m) first_ = m->next;
    return m;
  }
  /// Puts all of `o` before these.
  void prepend(mail_list&& o) noexcept {
    if (o.empty()) return;
    o.last_->next = first_;
    if (!first_) last_ = o.last_;
    first_ = std::exchange(o.first_, nullptr);
  }
  mail_list take() noexcept { return {std::exchange(first_, nullptr), last_}; }

  mail_list() noexcept = default;

private:
  mail_list(mail* first, mail* last) noexcept : first_(first), last_(last) {}
  mail *first_ = nullptr, *last_ = nullptr;
};

/// Which worker an object's invocations should run on: where they find it in the caches, and those
/// that send to it.
///
/// An object moves to a worker that sends it far more than its home does, and to one that has taken
/// it from the home again and again because it had nothing else to do. One message or one theft
/// changes nothing: both come by chance, and neighbours that are together should stay together.
class home_choice {
public:
  /// A message comes from that worker; -1: from another thread.
  /// \return the home, perhaps a new one.
  int sent_by(int worker, int home) noexcept {
    if (worker == home || worker < 0) {
      pull_ = pull_ > strength ? pull_ - strength : 0;
    } else if (pull_ == 0 || worker == puller_) {
      puller_ = worker;
      if (++pull_ == most_pull) {
        pull_ = 0;
        return worker;
      }
    } else {
      --pull_;
    }
    return home;
  }
  /// That worker delivers. \return as above.
  int delivered_by(int worker, int home) noexcept {
    if (worker == home) {
      away_ -= away_ > 0;
      return home;
    }
    away_ += 2;
    if (away_ < most_away) return home;
    away_ = 0;
    pull_ = 0;
    return worker;
  }

private:
  static constexpr int strength = 3; // a message from the home counts so much
  static constexpr int most_pull = 16, most_away = 64;
  int puller_ = 0, pull_ = 0, away_ = 0;
};

/// Of one object. Protected by its shard's lock, but for what belongs to the fiber that delivers.
struct mailbox {
  /// Stands in a worker's queue of that priority. The first that comes to run delivers all there
  /// is; the others find nothing.
  struct ticket final : tern::detail::activation {
    ticket(mailbox& b, priority p) noexcept;
    mailbox& of;
  };

  mailbox(mailboxes& all, object_id i) noexcept;
  bool unused() const noexcept { return waiting.empty() && queued == 0 && !delivering; }

  mailboxes& rank;
  const object_id id;
  mail_list waiting;
  std::array<std::uint32_t, 3> levels{}; ///< how many of each priority wait or are being delivered
  std::uint8_t queued = 0;               ///< tickets, a bit for each priority
  bool delivering = false;
  bool orphaned = false; ///< the object is no longer known here: goes when it is unused
  int home = 0;          ///< the worker that is to deliver
  home_choice choice;    ///< of it
  // While `delivering`, of the fiber that does, and of its worker when that has waited.
  mail_list current;
  std::array<std::uint32_t, 3> delivered{}; ///< of `levels`, and not yet taken off them
  std::uint32_t done = 0;                   ///< of those, what is to be counted as handled
  std::array<ticket, 3> tickets;
};

} // namespace tern::mobile::detail
