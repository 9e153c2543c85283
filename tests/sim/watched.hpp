// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// For properties of mobile objects: a value that checks which invocations are inside at once.

#include <cstdint>
#include <string>

#include "property.hpp"

namespace tern::property {

class watched {
public:
  /// For an exclusive invocation: adds one.
  void write() {
    TERN_HOLDS(nobody(), "an exclusive invocation has an object beside " + std::to_string(writers_) +
                             " exclusive and " + std::to_string(readers_) + " shared ones");
    ++writers_;
    const std::int64_t before = value_;
    take_time();
    take_time();
    value_ = before + 1; // lost if another one came between
    --writers_;
  }
  /// For a shared one.
  void read() const {
    TERN_HOLDS(writers_ == 0, "a shared invocation has an object beside an exclusive one");
    ++readers_;
    const std::int64_t before = value_;
    take_time();
    take_time();
    TERN_HOLDS(value_ == before, "an object changed under a reader");
    --readers_;
  }
  bool nobody() const noexcept { return writers_ == 0 && readers_ == 0; }
  std::int64_t value() const noexcept { return value_; }
  template <class A> void serialize(A& ar) { ar(value_); }

private:
  std::int64_t value_ = 0;
  int writers_ = 0;
  mutable int readers_ = 0;
};

} // namespace tern::property
