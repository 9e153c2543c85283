// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Bodies of hetero_object.hpp. Internal.

#include <algorithm>
#include <exception>
#include <memory>

#include <tern/base/language/type_name.hpp>
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

struct promise_request final : copy_out_request {
  void over(std::exception_ptr failed) noexcept override {
    if (failed)
      result.set_exception(std::move(failed));
    else
      result.set_value();
    delete this;
  }
  promise<void> result;
};

} // namespace hetero::detail

template <class T, int N>
future<host_access<T, N>> hetero_view<T, N>::host(access_mode how, std::source_location where) const {
  hetero::detail::object_state* const state = inside();
  auto* const request = new hetero::detail::host_request<T, N>(size());
  auto result = request->result.get_future();
  hetero::detail::request_access(state, part_, how, request, where);
  return result;
}

template <class T, int N> future<void> hetero_view<T, N>::copy_to(T* to) const {
  hetero::detail::object_state* const state = inside();
  hetero::detail::check_destination(*state, part_, to);
  auto* const request = new hetero::detail::promise_request;
  auto result = request->result.get_future();
  hetero::detail::copy_out(state, part_, reinterpret_cast<std::byte*>(to), request);
  return result;
}

} // namespace tern
