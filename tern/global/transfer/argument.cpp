// SPDX-License-Identifier: Apache-2.0
#include <tern/global/transfer/argument.hpp>

#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include <tern/base/error.hpp>
#include <tern/global/codec/frame.hpp>
#include <tern/global/coding/device_codec.hpp>
#include <tern/global/load/device_census.hpp>
#include <tern/global/transfer/departure.hpp>
#include <tern/global/transfer/transfer_table.hpp>
#include <tern/hetero/passage/at_once.hpp>
#include <tern/hetero/passage/landing.hpp>
#include <tern/hetero/passage/landing_place.hpp>
#include <tern/net/packing/multicastable.hpp>
#include <tern/net/packing/packing.hpp>
#include <tern/task/future.hpp>

namespace tern::global::detail {
namespace {

/// What is kept has the elements themselves. Each rank would wait for its own tasks' data.
void refuse_many(hetero::detail::object_state* object, const hetero::detail::box& part) {
  if (!net::detail::multicast_packing::here()) return;
  throw error(errc::unsupported,
              (object ? hetero::detail::text_of(*object, part) : std::string("a hetero_object")) +
                  " cannot go to many ranks at once, all of which get the same bytes",
              "send it to each of them");
}

/// Waits for the data of a part.
struct answer_awaited final : hetero::detail::outgoing::listener {
  void answered(hetero::detail::outgoing&) noexcept override {
    promise<void> last = std::move(told); // once it is set, this may go
    last.set_value();
  }
  promise<void> told{};
};

struct drop_object {
  void operator()(hetero::detail::object_state* o) const noexcept { hetero::detail::drop_handle(o); }
};

} // namespace

void about_to_send(hetero::detail::object_state& o, const hetero::detail::box& part) {
  transfer_table& table = transfer_table::here();
  if (table.waits_for_data()) [[unlikely]] {
    if (!hetero::detail::can_leave_at_once(o, part)) transfer_table::wait_for(o, part);
  } else {
    table.slow_down();
  }
}

packed_object::packed_object(hetero::detail::object_state* handle, const hetero::detail::box& part,
                             const element_type& of, bool gives, std::shared_ptr<const codec> encodes)
    : part_(part), of_(of), codec_(std::move(encodes)), any_(handle != nullptr), gives_(gives), handle_(handle) {
  if (!any_) return;
  transfer_table& table = transfer_table::here();
  bytes_ = static_cast<std::size_t>(part.size()) * of.bytes;
  if (!codec_ && bytes_ >= least_encoded) codec_ = table.job_codec();
  fits_inside_ = !codec_ && bytes_ <= table.most_inside();
}

packed_object::packed_object(packed_object&& other) noexcept
    : part_(other.part_), of_(other.of_), codec_(std::move(other.codec_)), bytes_(other.bytes_), sum_(other.sum_),
      kind_(other.kind_), rate_(other.rate_), any_(other.any_), gives_(other.gives_), fits_inside_(other.fits_inside_),
      in_body_(other.in_body_), handle_(std::exchange(other.handle_, nullptr)), leaves_(std::move(other.leaves_)) {}

packed_object::~packed_object() {
  if (leaves_) leaves_->dropped();
  if (handle_) hetero::detail::drop_handle(handle_);
}

void packed_object::begin() const {
  kind_ = hetero::detail::kind_that_has(*handle_, part_);
  std::array<std::int32_t, 3> extent{};
  for (std::size_t i = 0; i < 3; ++i) extent[i] = static_cast<std::int32_t>(part_.extent(i));
  const array_shape shape = shape_in(extent, of_);
  if (codec_ && kind_ != hetero::device_kind::host && of_.dimensions == 1) rate_ = kernel_rate(*codec_, shape);
  if (rate_ != 0) return begin_on_device();
  auto leaves = std::make_shared<departure>(transfer_table::here(), net::node::here(), std::exchange(handle_, nullptr),
                                            part_, gives_);
  if (codec_) leaves->encode_by(codec_, shape);
  departure::begin(leaves);
  leaves_ = std::move(leaves);
}

// A task encodes them where they are, and what it makes leaves as any object does.
void packed_object::begin_on_device() const {
  const auto all = hetero_object<float>::from_handle(std::exchange(handle_, nullptr));
  encoded_object encoded = encode_on_device(all.part({part_.low[2]}, {part_.high[2]}), rate_, kind_);
  const hetero::detail::box part = encoded.inside_part();
  auto leaves =
      std::make_shared<departure>(transfer_table::here(), net::node::here(), encoded.release_handle(), part, true);
  leaves->always_sum();
  departure::begin(leaves);
  leaves_ = std::move(leaves);
}

bool packed_object::become_body(byte_buffer& body, std::optional<net::detail::loan>&) {
  if (!any_ || fits_inside_ || codec_) return false;
  transfer_table& table = transfer_table::here();
  if (bytes_ < net::detail::least_body) { // two copies cost less than a body
    fits_inside_ = hetero::detail::can_leave_at_once(*handle_, part_);
    if (fits_inside_) return false;
  } else if (gives_) {
    body = hetero::detail::give_at_once(*handle_, part_);
    if (!body.empty()) {
      table.count_given();
      return has_become_body(body);
    }
  }
  begin();
  if (!leaves_->is_here()) return false;
  body = leaves_->take();
  leaves_.reset();
  return has_become_body(body);
}

bool packed_object::has_become_body(const byte_buffer& body) {
  transfer_table& table = transfer_table::here();
  table.count_body(bytes_);
  if (table.verifies()) sum_ = checksum(body.bytes());
  return in_body_ = true;
}

void packed_object::count(size_archive& ar) const {
  const bool stores = ar.purpose() == archive_purpose::storage;
  if (any_ && stores) refuse_many(handle_, part_);
  const bool is_inside = fits_inside_ || stores;
  ar.write(nullptr, sizeof(descriptor) + (is_inside ? bytes_ : 0));
  if (!is_inside) ar.beside(bytes_);
  if (any_ && handle_) count_resident(*handle_, part_, bytes_);
}

void packed_object::write(output_archive& ar) const {
  descriptor d;
  if (!any_) {
    ar(d);
    return;
  }
  d.element = of_.hash;
  for (std::size_t i = 0; i < 3; ++i) d.extent[i] = static_cast<std::int32_t>(part_.extent(i));
  if (ar.purpose() == archive_purpose::storage) return store(ar, d);
  transfer_table& table = transfer_table::here();
  d.origin = net::node::here().rank();
  d.room = fits_inside_ ? static_cast<std::uint32_t>(bytes_) : 0;
  if (in_body_) {
    d.how = form::body;
    d.number = sum_;
    ar(d);
    return;
  }
  if (fits_inside_) {
    // A few on the stack; not cleared, as most messages are small.
    std::byte few[2048]; // NOLINT(modernize-avoid-c-arrays)
    const std::unique_ptr<std::byte[]> many(bytes_ > sizeof few ? new std::byte[bytes_] : nullptr);
    std::byte* const room = many ? many.get() : &few[0];
    if (copies_at_once(room)) {
      d.how = form::inside;
      if (table.verifies()) d.number = checksum({room, bytes_});
      table.count_inside(bytes_);
    } else {
      follow(d, ar);
      std::memset(room, 0, bytes_);
    }
    ar(d);
    ar.write(room, bytes_);
    return;
  }
  follow(d, ar);
  ar(d);
}

void packed_object::store(output_archive& ar, descriptor d) const {
  refuse_many(handle_, part_);
  d.how = form::stored;
  ar(d);
  answer_awaited wait;
  future<void> told = wait.told.get_future();
  hetero::detail::outgoing data(std::exchange(handle_, nullptr), part_, false, true);
  if (!data.begin(wait)) told.get();
  if (data.failure()) std::rethrow_exception(data.failure());
  const byte_buffer bytes = data.take();
  ar.write(bytes.data(), bytes.size());
}

bool packed_object::copies_at_once(std::byte* to) const {
  if (handle_ && hetero::detail::copy_at_once(*handle_, part_, to)) return true;
  if (!leaves_) begin();
  if (!leaves_->is_here()) return false;
  leaves_->copy_to(to);
  leaves_.reset();
  return true;
}

void packed_object::follow(descriptor& d, output_archive& ar) const {
  transfer_table& table = transfer_table::here();
  if (!leaves_) begin();
  d.how = form::follows;
  d.kind = static_cast<std::uint8_t>(kind_);
  d.rate = static_cast<std::uint8_t>(rate_);
  if (codec_) d.coded = codec_->lossless() || codec_->decides() ? coding::maybe : coding::always;
  if (rate_ != 0) d.coded = coding::blocks;
  d.number = table.announce(std::move(leaves_));
  ar.on_abandon([&table, number = d.number] { table.drop(number); });
}

namespace {

void verify(const descriptor& d, std::span<const std::byte> bytes, const element_type& of) {
  if (d.number != 0 && checksum(bytes) != d.number)
    throw error(errc::invalid_data,
                "a hetero_object<" + std::string(of.name) + "> of " + std::to_string(bytes.size()) +
                    " bytes from rank " + std::to_string(d.origin) + " has another checksum than where it left",
                "the network, or memory, is not reliable (--tern-global-verify)");
}

// What comes is an object of its own, from which a task decodes, where it has landed.
void ask_for_blocks(input_archive& ar, const descriptor& d, hetero::detail::object_state& made) {
  hetero::detail::add_handle(made);
  auto into = hetero_object<float>::from_handle(&made);
  const encoded_object encoded(encoded_units(into.count(), d.rate));
  const auto kind = static_cast<hetero::device_kind>(d.kind);
  const std::uint8_t device = hetero::detail::device_to_land_on(*encoded.inside(), kind);
  ar.on_complete([d, into = std::move(into), encoded, device, kind = device != 0 ? kind : hetero::device_kind::host,
                  what = hetero::detail::text_of(made, hetero::detail::all_of(made)),
                  coming = std::make_unique<hetero::detail::incoming>(*encoded.inside())]() mutable {
    const std::size_t bytes = static_cast<std::size_t>(encoded.count()) * sizeof(std::uint16_t);
    transfer_table::here().request(d.origin, d.number, bytes, std::move(coming), "encoded " + what, device);
    decode_on_device(encoded, d.rate, into, kind);
  });
}

} // namespace

hetero::detail::object_state* load_object(input_archive& ar, byte_buffer* body, bool* body_used,
                                          const element_type& wanted, const char* type) {
  net::node& here = net::node::here();
  transfer_table& table = transfer_table::of(here);
  const descriptor d = read_descriptor(ar, wanted, here.size(), table.verifies());
  if (d.how == form::none) return nullptr;
  const std::size_t bytes = static_cast<std::size_t>(d.count()) * wanted.bytes;
  const std::byte* const room = ar.take(d.how == form::stored ? bytes : d.room);
  if (d.how == form::body) {
    if (!body)
      throw error(errc::invalid_data, "a hetero_object within another argument says that it is its message's body");
    if (std::exchange(*body_used, true)) net::detail::bad_body_use(true);
    if (body->size() != bytes) net::detail::bad_body(static_cast<std::size_t>(d.count()), body->size());
  }
  if (ar.discards()) {
    if (d.how == form::follows) transfer_table::refuse(d.origin, d.number);
    return nullptr;
  }
  if (d.how == form::inside) verify(d, {room, bytes}, wanted);
  if (d.how == form::body) verify(d, body->bytes(), wanted);
  if (d.how == form::follows && d.origin == here.rank() && d.coded != coding::always && d.coded != coding::blocks)
    if (hetero::detail::object_state* const kept = table.keep(d.number, d.extent, wanted.bytes)) return kept;
  hetero::detail::box all;
  all.high = d.extent;
  std::unique_ptr<hetero::detail::object_state, drop_object> made(
      hetero::detail::new_object(all, wanted.bytes, type, nullptr));
  switch (d.how) {
  case form::none:
    break;
  case form::inside:
  case form::stored:
    hetero::detail::land_at_once(*made, byte_buffer::copy_of({room, bytes}));
    break;
  case form::body:
    hetero::detail::land_at_once(*made, hetero::detail::own_memory(std::move(*body)));
    break;
  case form::follows:
    if (d.coded == coding::blocks) {
      ask_for_blocks(ar, d, *made);
      break;
    }
    ar.on_complete([d, bytes, shape = shape_in(d.extent, wanted),
                    what = hetero::detail::text_of(*made, hetero::detail::all_of(*made)),
                    device = hetero::detail::device_to_land_on(*made, static_cast<hetero::device_kind>(d.kind)),
                    into = std::make_unique<hetero::detail::incoming>(*made)]() mutable {
      transfer_table::here().request(d.origin, d.number, bytes, std::move(into), std::move(what), device, d.coded,
                                     shape);
    });
    break;
  }
  return made.release();
}

} // namespace tern::global::detail
