// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Bodies of hetero_object.hpp. Internal.

#include <algorithm>
#include <exception>
#include <memory>

#include <tern/base/detail/type_name.hpp>
#include <tern/hetero/hetero_object.hpp>

namespace tern {

namespace hetero::detail {

template <class T> const char* name_of_element() {
  static const std::string name{tern::detail::type_name<T>()};
  return name.c_str();
}

template <class T, int N> struct host_request final : access_request {
  explicit host_request(const extents<N>& e) : size(e) {}
  void granted(task_record* t, const host_place& where) noexcept override {
    result.set_value(
        host_access<T, N>(host_view<T, N>(reinterpret_cast<T*>(where.address), size, where.pitch, where.slice), t));
    delete this;
  }
  void refused(std::exception_ptr why) noexcept override {
    result.set_exception(std::move(why));
    delete this;
  }
  extents<N> size;
  promise<host_access<T, N>> result;
};

template <class T, int N> struct copy_request_to final : access_request {
  copy_request_to(T* memory, const extents<N>& e) : to(memory), size(e) {}
  void granted(task_record* t, const host_place& where) noexcept override {
    const T* const from = reinterpret_cast<const T*>(where.address);
    const std::int64_t row = size[N - 1], rows = N > 1 ? size[N > 1 ? N - 2 : 0] : 1, slices = N > 2 ? size[0] : 1;
    T* out = to;
    for (std::int64_t s = 0; s < slices; ++s)
      for (std::int64_t r = 0; r < rows; ++r, out += row)
        std::memcpy(out, from + s * where.slice + r * where.pitch, static_cast<std::size_t>(row) * sizeof(T));
    release_access(t);
    result.set_value();
    delete this;
  }
  void refused(std::exception_ptr why) noexcept override {
    result.set_exception(std::move(why));
    delete this;
  }
  T* to;
  extents<N> size;
  promise<void> result;
};

} // namespace hetero::detail

template <class T, int N> future<host_access<T, N>> hetero_view<T, N>::host(access_mode how) const {
  auto* const request = new hetero::detail::host_request<T, N>(size());
  auto result = request->result.get_future();
  hetero::detail::request_access(state_, part_, how, request);
  return result;
}

template <class T, int N> future<void> hetero_view<T, N>::copy_to(T* to) const {
  auto* const request = new hetero::detail::copy_request_to<T, N>(to, size());
  auto result = request->result.get_future();
  hetero::detail::request_access(state_, part_, access_mode::read, request);
  return result;
}

} // namespace tern
