// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Arrays in large pages, so that no contestant is slower by the luck of its page tables.

#include <cstddef>
#include <cstdlib>
#include <new>
#include <span>

#include <sys/mman.h>

namespace tern::bench::hetero {

/// Zeroed; every page is there.
template <class T> class memory {
public:
  explicit memory(std::size_t count) : count_(count) {
    const std::size_t page = std::size_t{2} << 20, bytes = (count * sizeof(T) + page - 1) / page * page;
    data_ = static_cast<T*>(std::aligned_alloc(page, bytes));
    if (!data_) throw std::bad_alloc();
    madvise(data_, bytes, MADV_HUGEPAGE); // where there are none, small ones do
    for (std::size_t i = 0; i < count; ++i) data_[i] = T{};
  }
  ~memory() { std::free(data_); }
  memory(const memory&) = delete;
  memory& operator=(const memory&) = delete;
  T* data() const { return data_; }
  std::size_t size() const { return count_; }
  T& operator[](std::size_t i) const { return data_[i]; }

private:
  std::size_t count_;
  T* data_;
};

} // namespace tern::bench::hetero
