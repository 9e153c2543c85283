// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Stacks for fibers: cut from large mappings, each with a guard page below it, reused last in first out so that the
/// next fiber finds warm memory.

#include <cstddef>
#include <mutex>
#include <vector>

namespace tern::detail {

struct stack {
  std::byte* low = nullptr; ///< lowest usable byte; the guard page lies below
  std::size_t size = 0;
  void* tsan_fiber = nullptr; ///< the thread sanitizer's context, one for each pooled stack
  std::byte* top() const noexcept { return low + size; }
};

/// Thread-safe.
class stack_pool {
public:
  explicit stack_pool(std::size_t stack_bytes);
  ~stack_pool();
  stack_pool(const stack_pool&) = delete;
  stack_pool& operator=(const stack_pool&) = delete;
  /// \throws error(out_of_memory) that says how many stacks there are and which limit was met.
  stack take();
  void give(stack s) noexcept;

private:
  void grow();
  std::size_t page_, usable_, slot_;
  std::mutex lock_;
  std::vector<stack> free_;
  struct mapping {
    void* base;
    std::size_t size;
  };
  std::vector<mapping> mappings_;
  std::size_t stacks_ = 0;
};

} // namespace tern::detail
