// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// For properties of mobile objects that move: objects that see whether each invocation runs once,
/// in order, on the one live copy. For one source file of a program.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <tern/mobile/object.hpp>
#include <tern/net/collectives.hpp>
#include <tern/net/runtime.hpp>

#include "property.hpp"
#include "watched.hpp"

namespace tern::property::travellers {

// Counted by references.
class leaf {
public:
  leaf() = default;
  explicit leaf(std::int64_t value) : value_(value) {}
  std::int64_t value() const { return value_; }
  template <class A> void serialize(A& ar) { ar(value_); }

private:
  std::int64_t value_ = 0;
};

// How many objects that have moved each rank remembers: so few that it must forget some all the
// time.
inline const option_knob known_knob{"known", [](tern::options& of, std::int64_t value) {
                                      of.set(tern::mobile::known_option, static_cast<int>(value));
                                    }};

// Objects move after each invocation, or are packed and unpacked where they are.
inline const option_knob debug_knob{"debug", [](tern::options& of, std::int64_t value) {
                                      static const char* const words[] = {"none", "rotate", "random", "reserialize"};
                                      of.set(tern::mobile::debug_option, words[std::clamp<std::int64_t>(value, 0, 3)]);
                                    }};

// How many bytes of objects stay in memory: all, none, or few. And how many there may be on disk.
inline const option_knob memory_knob{"memory", [](tern::options& of, std::int64_t value) {
                                       static const char* const words[] = {"0", "1", "120", "1000"};
                                       of.set(tern::mobile::memory_option,
                                              words[std::clamp<std::int64_t>(value, 0, 3)]);
                                     }};
inline const option_knob disk_knob{"disk", [](tern::options& of, std::int64_t value) {
                                     of.set(tern::mobile::disk_option, value == 0 ? "0" : value == 1 ? "4K" : "8K");
                                   }};

inline std::string text(std::int64_t n) { return std::to_string(n); }
inline int any_rank() { return static_cast<int>(rolls().below(size())); }

struct totals {
  std::int64_t sent = 0, ran = 0, made = 0, dropped = 0, moved = 0, refused = 0;
  std::map<std::int64_t, int> lives_on; // rank of the live copy, by object
  double failures = 0;                  // of packing, and of unpacking what has moved
  bool disks = false;                   // in use: what has been put there can be read
};
inline per_case<totals> all;

// Its copies: one that has been packed is dead as soon as another one has been unpacked, until
// which it may live on.
class migrating_object {
public:
  migrating_object() { ++all->made; }
  explicit migrating_object(std::int64_t number) : number_(number) {
    ++all->made;
    all->lives_on[number] = rank();
  }
  migrating_object(const migrating_object&) = delete;
  migrating_object& operator=(const migrating_object&) = delete;
  ~migrating_object() {
    ++all->dropped;
    TERN_HOLDS(inside_.nobody(), "an object was destroyed while somebody was inside");
  }

  template <class A> void save(A& ar) const {
    TERN_HOLDS(inside_.nobody(), "an object was packed while somebody was inside");
    if (rolls().chance(all->failures)) throw tern::error(tern::errc::io, "packing fails by chance");
    ar(number_, next_, inside_, padding_);
  }
  template <class A> void load(A& ar) {
    if (!all->disks && rolls().chance(all->failures)) throw tern::error(tern::errc::io, "unpacking fails by chance");
    ar(number_, next_, inside_, padding_);
    take_time();
    if (!all->disks && rolls().chance(all->failures)) throw tern::error(tern::errc::io, "unpacking fails by chance");
    all->lives_on[number_] = rank();
    ++all->moved;
  }

  std::int64_t write(std::int64_t from, std::int64_t number) {
    begin(from, number);
    inside_.write();
    ++all->ran;
    return number;
  }
  // Lets others in meanwhile, and has it alone again afterwards.
  std::int64_t pause(std::int64_t from, std::int64_t number) {
    begin(from, number);
    {
      const tern::release_access meanwhile;
      take_time();
      take_time();
      TERN_HOLDS(all->lives_on[number_] == rank(), "an object moved that an unfinished invocation looked at");
    }
    inside_.write();
    ++all->ran;
    return number;
  }
  std::int64_t read(std::int64_t from, std::int64_t number) const {
    begin(from, number);
    if (rolls().chance(0.1)) {
      const tern::release_access meanwhile;
      take_time();
    }
    inside_.read();
    ++all->ran;
    return number;
  }
  void grow(std::int64_t bytes) { padding_.assign(static_cast<std::size_t>(bytes), 'x'); }
  std::int64_t value() const { return inside_.value(); }

private:
  void begin(std::int64_t from, std::int64_t number) const {
    TERN_HOLDS(all->lives_on[number_] == rank(),
               "an invocation ran on rank " + text(rank()) + " when the object was on " + text(all->lives_on[number_]));
    std::int64_t& due = next_[from];
    TERN_HOLDS(number == due, "invocation " + text(number) + " of fiber " + text(from) + " began on object " +
                                  text(number_) + " when " + text(due) + " was due");
    due = number + 1;
  }
  std::int64_t number_ = -1;
  watched inside_;
  mutable std::map<std::int64_t, std::int64_t> next_;
  std::string padding_;
};
using pointer = mobile_ptr<migrating_object>;

inline std::vector<pointer> make_objects(std::int64_t n) {
  std::vector<pointer> objects;
  if (rank() == 0) {
    for (std::int64_t i = 0; i < n; ++i) objects.push_back(tern::create_on<migrating_object>(any_rank(), i).get());
    afterwards([](const ending&) {
      TERN_HOLDS(all->made == all->dropped,
                 text(all->made) + " copies were made and " + text(all->dropped) + " destroyed");
    });
  }
  return tern::broadcast(objects);
}
inline std::size_t any_of(const std::vector<pointer>& objects) {
  return static_cast<std::size_t>(rolls().below(static_cast<std::int64_t>(objects.size())));
}
// Waits for a move. It may fail only for the causes that the property allows.
inline void expect_moved(tern::future<void>& f) {
  try {
    f.get();
  } catch (const tern::error& e) {
    const std::string why = e.what();
    TERN_HOLDS((all->failures > 0 && why.find("fails by chance") != why.npos) ||
                   (all->disks && why.find("bytes may be stored in") != why.npos),
               "unexpected: " + why);
  }
}

} // namespace tern::property::travellers
