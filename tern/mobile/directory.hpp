// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Which objects live on a rank, and where others are looked for. Programs use object.hpp.

#include <compare>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <typeinfo>
#include <unordered_map>

#include <tern/base/bytes.hpp>
#include <tern/base/detail/type_name.hpp>
#include <tern/base/unique_function.hpp>
#include <tern/net/node.hpp>
#include <tern/task/sync.hpp>

namespace tern::mobile {

/// 64 bits: the rank where the object was born (24) and a number on that rank (40, from 1). Zero names nothing.
struct object_id {
  std::uint64_t bits = 0;
  constexpr object_id() noexcept = default;
  constexpr explicit object_id(std::uint64_t b) noexcept : bits(b) {}
  constexpr object_id(int home, std::uint64_t number) noexcept
      : bits(static_cast<std::uint64_t>(home) << 40 | number) {}
  constexpr int home() const noexcept { return static_cast<int>(bits >> 40); }
  constexpr std::uint64_t number() const noexcept { return bits & ((std::uint64_t{1} << 40) - 1); }
  constexpr explicit operator bool() const noexcept { return bits != 0; }
  constexpr auto operator<=>(const object_id&) const noexcept = default;
};
/// "3:17": born on rank 3 as its 17th object.
std::string to_string(object_id id);

} // namespace tern::mobile

template <> struct std::hash<tern::mobile::object_id> {
  std::size_t operator()(tern::mobile::object_id id) const noexcept {
    return static_cast<std::size_t>(id.bits * 0x9e3779b97f4a7c15ull);
  }
};

namespace tern::mobile {

/// What the directory needs to know of an object's class.
struct type_record {
  std::string name;
  void (*destroy)(void*);
};

/// One function to run on an object.
struct invocation {
  bool exclusive = true;
  const std::string* name = nullptr; ///< of the function; static
  int source = 0;
  net::wire_header header;
  std::unique_ptr<promise<void>> ends; ///< set if it ends the object: who waits for that, instead of a caller
  tern::detail::held_cause on{};       ///< on whose account it waits
  net::payload message;                ///< with the arguments; perhaps the transport's memory, until it has to wait
  unique_function<void(void* object, net::payload& message)> body; ///< answers the caller itself; never throws
};

/// The objects of one rank. Thread-safe.
///
/// Access: an invocation is admitted when nothing that came before it waits and it is compatible with what runs: any
/// number of shared ones, or one exclusive one. So a stream of readers cannot starve a writer, and what one sender sent
/// in order begins in order.
class directory {
public:
  directory() = default;
  ~directory();
  directory(const directory&) = delete;
  directory& operator=(const directory&) = delete;
  /// The calling rank's.
  static directory& here();

  object_id add(const type_record& type, void* object);
  /// The rank to send invocations to: this one if the object is here, else its home, which knows more.
  /// \throws error(invalid_argument) for a null pointer or one that cannot exist in this job.
  int locate(object_id id) const;
  /// Runs or queues an invocation that has arrived, or answers that there is no such object.
  void deliver(net::node& here, object_id id, const type_record& expected, invocation call);
  /// Queues an exclusive invocation that ends the object; `gone` is kept when it is destroyed.
  /// \throws error(not_found) if it is gone already.
  void end(net::node& here, object_id id, promise<void> gone);
  std::size_t size() const;

private:
  struct entry;
  std::shared_ptr<entry> find(object_id id) const;
  /// \return false, with `call` untouched, if the object is gone.
  bool submit(net::node& here, const std::shared_ptr<entry>& e, invocation& call);
  static void refuse(net::node& here, const invocation& call, const std::string& problem);
  void start(net::node& here, std::shared_ptr<entry> e, invocation call) noexcept;
  void finished(net::node& here, const std::shared_ptr<entry>& e, bool exclusive);
  std::string missing(object_id id, const std::string& type) const;

  mutable tern::detail::spin_lock lock_; // a few instructions at a time, from fibers and from the polling context alike
  std::uint64_t next_ = 1;
  std::unordered_map<object_id, std::shared_ptr<entry>> objects_;
};

namespace detail {

template <class T> const type_record& type_of() {
  static const type_record record{tern::detail::type_name(typeid(T)), [](void* p) { delete static_cast<T*>(p); }};
  return record;
}

/// The object that an invocation's message is for. \throws error(invalid_data) if the message is too short.
object_id read_target(const byte_buffer& message);
std::span<const std::byte> arguments_of(const byte_buffer& message);
/// "counter::add on object 1:1 (counter)"
std::string describe_invocation(const std::string& function, object_id id, const type_record& type);
void destroy_object(std::uint64_t id);

} // namespace detail
} // namespace tern::mobile
