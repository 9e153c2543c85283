// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What an all-to-all exchange is made of: parts of objects, whatever their elements. Internal.

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <source_location>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <tern/base/bytes.hpp>
#include <tern/global/codec.hpp>
#include <tern/hetero/hetero_object.hpp>
#include <tern/net/communicator.hpp>
#include <tern/task/future.hpp>

namespace tern::net::detail {
class collective_call;
} // namespace tern::net::detail

namespace tern::global::detail {

/// Elements in the host's memory, rows and slices apart.
struct host_block {
  std::byte* data = nullptr;
  std::size_t pitch = 0, slice = 0; ///< bytes
};

/// A part of an object, and the access to it. A default one has no elements.
class part {
public:
  part() = default;
  /// Asks for access.
  template <class T, int N>
  part(const hetero_view<T, N>& view, access_mode how, const std::source_location& where)
      : shape_(shape_of<T, N>(view.size())), some_(true) {
    auto asked = std::make_shared<future<host_access<T, N>>>(view.host(how, where));
    get_ = [asked, held = std::shared_ptr<host_access<T, N>>()]() mutable {
      held = std::make_shared<host_access<T, N>>(asked->get());
      host_block b{reinterpret_cast<std::byte*>(held->data()), static_cast<std::size_t>(held->pitch()) * sizeof(T),
                   static_cast<std::size_t>(held->slice()) * sizeof(T)};
      return std::pair<host_block, std::shared_ptr<void>>(b, held);
    };
  }

  bool empty() const noexcept { return !some_; }
  const array_shape& shape() const noexcept { return shape_; }
  std::size_t bytes() const noexcept { return some_ ? shape_.bytes() : 0; }
  /// Waits for the access. \throws what the tasks before failed with.
  void acquire();
  void release() noexcept { held_.reset(); }
  /// The elements in one piece: where they are, or a copy. \pre acquired; so below.
  std::span<const std::byte> packed();
  /// Where elements in one piece are to be written; `unpack` then puts them where they belong.
  std::span<std::byte> room();
  void unpack();

private:
  bool in_one_piece() const noexcept;
  array_shape shape_;
  bool some_ = false;
  std::function<std::pair<host_block, std::shared_ptr<void>>()> get_;
  std::shared_ptr<void> held_;
  host_block where_;
  byte_buffer copy_; ///< if they do not lie in one piece
};

/// One all-to-all exchange on one rank. Requires: `check` for both objects, then as many parts as
/// ranks. One fiber.
class exchange {
public:
  /// \throws error(invalid_option) for an unknown codec.
  exchange(const communicator& ranks, std::string_view codec, const std::source_location& where);
  ~exchange();
  exchange(const exchange&) = delete;
  exchange& operator=(const exchange&) = delete;

  /// \throws error(invalid_argument) for another number of counts than ranks, or more rows than
  /// there are.
  void check(const std::string& object, std::int64_t rows, std::span<const std::int64_t> counts) const;
  std::vector<part>& out() noexcept { return out_; }
  std::vector<part>& in() noexcept { return in_; }
  /// Sends and receives all.
  void run();

private:
  struct peer_state;
  void decide();
  void send_all(net::detail::collective_call& all);
  void receive_all(net::detail::collective_call& all);
  void measure(double seconds);
  void keep_own();
  byte_buffer encoded(std::size_t peer, std::size_t chunk);
  std::size_t take_first(std::size_t peer, std::span<const std::byte> came);
  void take_raw(std::size_t peer, std::span<const std::byte> came);
  void decode(std::size_t peer, std::size_t chunk, std::span<const std::byte> frame);
  void check_not_failed(std::size_t peer, std::span<const std::byte> came) const;
  std::string rank_text(std::size_t peer) const;
  template <class F> bool attempt(F&& f);

  const communicator ranks_;
  const std::source_location where_;
  std::shared_ptr<const codec> codec_; ///< null: none
  std::vector<part> out_, in_;
  std::vector<std::unique_ptr<peer_state>> peers_;
  std::exception_ptr failed_; ///< the first; all others are sent to and received from all the same
};

/// \throws error(invalid_argument) if `rows` is no multiple of `ranks`.
std::vector<std::int64_t> equal_parts(const std::string& object, std::int64_t rows, int ranks);

} // namespace tern::global::detail
