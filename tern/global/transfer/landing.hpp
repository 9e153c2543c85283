// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Data on their way into an object of this rank. Internal.

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <vector>

#include <tern/base/bytes.hpp>
#include <tern/base/error.hpp>
#include <tern/global/codec.hpp>
#include <tern/global/transfer/descriptor.hpp>
#include <tern/global/transfer/staging.hpp>
#include <tern/hetero/passage/incoming.hpp>
#include <tern/net/handler.hpp>
#include <tern/net/node.hpp>
#include <tern/task/wait/waiting.hpp>

namespace tern::global::detail {

/// Where data go that have been asked for, if that is no new object. In the polling context.
class data_sink {
public:
  virtual ~data_sink() = default;
  /// As many bytes as were asked for, which may be lent. Once, or `fail`.
  virtual void land(byte_buffer memory) noexcept = 0;
  virtual void fail(std::exception_ptr why) noexcept = 0;
};

/// An arriving object, and what has come of it. Threads: pieces are taken where messages arrive,
/// and land on any worker; `describe` is called by any thread.
class landing : public std::enable_shared_from_this<landing> {
public:
  /// Is told of the end, on any worker. Outlives it.
  class owner {
  public:
    /// \param failed it has none of its data.
    virtual void ended(landing& of, bool on_device, bool failed) noexcept = 0;

  protected:
    ~owner() = default;
  };
  /// \param device on which it is to land; 0: the host.
  landing(net::node& here, owner& tells, std::unique_ptr<hetero::detail::incoming> into, std::string what, int origin,
          std::size_t bytes, std::uint8_t device);
  /// Pieces are put together for it.
  landing(net::node& here, owner& tells, std::unique_ptr<data_sink> into, int origin, std::size_t bytes);

  /// What comes may be coded, or is. \param shape of the elements. Before anything comes.
  void may_be_coded(coding coded, const array_shape& shape) noexcept {
    coded_ = coded;
    shape_ = shape;
  }
  /// All at once, in the message `h`. \throws error(invalid_data) for another number of bytes.
  void take_all(byte_buffer body, const net::wire_header& h);
  /// \throws error(invalid_data): it cannot be a piece of this object, or has come before.
  void take_piece(const piece_head& p, byte_buffer body, const net::wire_header& h);
  /// They will not come. Pieces that are under way into the object's memory land first.
  void fail(std::exception_ptr why) noexcept;

  int origin() const noexcept { return origin_; }
  std::size_t bytes() const noexcept { return bytes_; }
  std::uint64_t number() const noexcept { return number_; }
  void set_number(std::uint64_t n) noexcept { number_ = n; }
  /// "hetero_object<double> of 100 from rank 1: 0 of 800 bytes in 3 s"
  std::string describe();
  // Under the owner's lock.
  enum class part : std::uint8_t { none, waits, has, recalled }; ///< of the landing budget
  part room = part::none;
  bool begun() noexcept; ///< something has come

private:
  struct piece;
  std::unique_ptr<piece> make_piece(byte_buffer body, std::size_t bytes, const net::wire_header& h,
                                    std::uint64_t stage);
  void put(const hetero::detail::box& where, byte_buffer body, const net::wire_header& h, std::uint64_t stage);
  void decode(const hetero::detail::box& where, byte_buffer frame, const net::wire_header& h, std::uint64_t stage);
  void landed(std::size_t bytes, std::exception_ptr failed) noexcept;
  void end() noexcept;
  void take_piece_aside(const piece_head& p, byte_buffer body, const net::wire_header& h);
  error bad_piece(const piece_head& p, std::size_t bytes, std::size_t count) const;

  net::node& here_;
  owner& tells_;
  const std::unique_ptr<hetero::detail::incoming> into_; // one of these
  const std::unique_ptr<data_sink> elsewhere_;
  const std::string what_;
  const int origin_;
  const std::size_t bytes_;
  std::uint64_t number_ = 0;
  coding coded_ = coding::none;
  array_shape shape_{};
  const std::int64_t since_;      ///< rough_ticks
  tern::detail::spin_lock guard_; // all below
  bool placed_;                   ///< pieces have a place to go to
  std::uint64_t each_ = 0;
  std::size_t next_ = 0, come_ = 0, landed_ = 0, under_way_ = 0; // a piece; bytes; bytes; pieces
  bool stops_ = false, ended_ = false;                           ///< no more will come
  std::exception_ptr failed_;
  byte_buffer whole_; ///< of what goes elsewhere, if it comes in pieces
};

/// The answer to a piece.
const net::handler_record& landed_message() noexcept;

} // namespace tern::global::detail
