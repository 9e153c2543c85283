// SPDX-License-Identifier: Apache-2.0
#include <tern/net/transport/inproc/inproc_ring.hpp>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <utility>

#include <tern/base/error.hpp>

namespace tern::net::detail {
namespace {

ring_shared* make_memory(std::uint32_t cells) {
  const std::size_t bytes = ring_end::bytes_of(cells);
  void* p = std::aligned_alloc(alignof(ring_shared), bytes);
  if (!p)
    throw error(errc::out_of_memory, "cannot allocate a ring of " + std::to_string(bytes) + " bytes between two ranks",
                "start fewer ranks, or give the process more memory");
  std::memset(p, 0, bytes);
  return ::new (p) ring_shared{};
}

} // namespace

inproc_ring::inproc_ring(std::uint32_t cells) : memory_(make_memory(cells)) {
  sender_.open(memory_, cells, cells >= 64 ? 8 : 4); // what is large goes by pointer
  receiver_.open(memory_, cells, lent_.data());
}

inproc_ring::~inproc_ring() {
  ring_record r;
  for (; receiver_.look(r) == ring_receiver::found::record; receiver_.pass(r)) { // these have not been received
    if (r.flags() & far) far_head();
    if (r.flags() & ring_record::with_extra) far_body(r);
  }
  std::free(memory_);
}

bool inproc_ring::send_large(std::span<const std::byte> head, byte_buffer& body, bool urgent,
                             std::uint64_t received_until_now) {
  const bool with_body = !body.empty();
  std::unique_ptr<byte_buffer> shared; // in which what nobody changes goes as it is
  if (with_body && body.borrowed()) {
    if (body.share())
      shared = std::make_unique<byte_buffer>();
    else
      body = body.copy(); // its memory will be changed or freed by another
  }
  std::uint32_t cells = ring_end::cells_of(head.size(), with_body);

  std::lock_guard hold(lock_);
  const std::uint32_t wanted = cells > sender_.largest() ? 1 : cells, found = sender_.space(wanted, urgent);
  if (found == 0) return false;
  std::uint8_t flags = with_body ? ring_record::with_extra : 0;
  auto size = static_cast<std::uint32_t>(head.size());
  if (found < cells) {
    byte_buffer copy = byte_buffer::copy_of(head); // throws before anything has been written
    const far_part part{copy.data(), head.size()};
    (void)copy.release();
    std::memcpy(sender_.place(), &part, sizeof part);
    flags |= far;
    size = sizeof part;
    cells = 1;
  } else if (!head.empty()) {
    std::memcpy(sender_.place(), head.data(), head.size());
  }
  if (with_body) {
    far_part part{nullptr, 0};
    if (shared) {
      *shared = std::move(body);
      part.data = shared.release();
    } else {
      part.size = body.size();
      part.data = body.release();
    }
    static_assert(sizeof part == ring_end::extra_bytes);
    std::memcpy(sender_.extra_place(cells), &part, sizeof part);
  }
  sender_.publish({size, flags, cells}, received_until_now);
  return true;
}

byte_buffer inproc_ring::far_head() const noexcept {
  far_part part;
  std::memcpy(&part, receiver_.head(), sizeof part);
  return byte_buffer::adopt(part.data, part.size);
}

byte_buffer inproc_ring::far_body(ring_record r) const noexcept {
  far_part part;
  std::memcpy(&part, receiver_.extra(r), sizeof part);
  if (part.size == 0) return std::move(*std::unique_ptr<byte_buffer>(static_cast<byte_buffer*>(part.data)));
  return byte_buffer::adopt(part.data, part.size);
}

bool inproc_ring::receive_other(ring_record r, byte_buffer& head, byte_buffer& body) {
  if (r.flags() & far) {
    head = far_head();
  } else if (r.size() == 0) {
    ; // stays empty
  } else if (!receiver_.may_lend()) {
    head = byte_buffer::copy_of({receiver_.head(), r.size()});
  } else {
    receiver_.lend(r);
    byte_buffer::borrow(receiver_.head(), r.size(), *this).swap(head);
  }
  if (r.flags() & ring_record::with_extra) body = far_body(r);
  receiver_.pass(r);
  return true;
}

void inproc_ring::take_back(std::byte* data) noexcept {
  const auto i = static_cast<std::size_t>(data - reinterpret_cast<std::byte*>(memory_ + 1)) / ring_end::cell_bytes;
  // release: the head was read before it was destroyed; see `ring_receiver::credit_now`.
  lent_[i].store(0, std::memory_order_release);
}

} // namespace tern::net::detail
