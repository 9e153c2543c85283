// SPDX-License-Identifier: Apache-2.0
#include <tern/global/transfer/argument.hpp>

#include <array>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <tern/base/error.hpp>
#include <tern/global/transfer/departure.hpp>
#include <tern/global/transfer/transfer_table.hpp>
#include <tern/net/packing/multicastable.hpp>
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

packed_object::packed_object(hetero::detail::object_state* handle, const hetero::detail::box& part,
                             const element_type& of, bool gives)
    : part_(part), of_(of), any_(handle != nullptr), gives_(gives), handle_(handle) {
  if (!any_) return;
  bytes_ = static_cast<std::size_t>(part.size()) * of.bytes;
  fits_inside_ = bytes_ <= transfer_table::here().most_inside();
}

packed_object::packed_object(packed_object&& other) noexcept
    : part_(other.part_), of_(other.of_), bytes_(other.bytes_), any_(other.any_), gives_(other.gives_),
      fits_inside_(other.fits_inside_), in_body_(other.in_body_), handle_(std::exchange(other.handle_, nullptr)),
      leaves_(std::move(other.leaves_)) {}

packed_object::~packed_object() {
  if (handle_) hetero::detail::drop_handle(handle_);
}

void packed_object::begin() const {
  auto leaves = std::make_shared<departure>(transfer_table::here(), net::node::here(), std::exchange(handle_, nullptr),
                                            part_, gives_);
  departure::begin(leaves);
  leaves_ = std::move(leaves);
}

bool packed_object::become_body(byte_buffer& body, std::optional<net::detail::loan>&) {
  if (!any_ || fits_inside_) return false;
  begin();
  if (!leaves_->is_here()) return false;
  body = leaves_->take();
  leaves_.reset();
  transfer_table::here().count_body();
  return in_body_ = true;
}

void packed_object::count(size_archive& ar) const {
  const bool stores = ar.purpose() == archive_purpose::storage;
  if (any_ && stores) refuse_many(handle_, part_);
  const bool is_inside = fits_inside_ || stores;
  ar.write(nullptr, sizeof(descriptor) + (is_inside ? bytes_ : 0));
  if (!is_inside) ar.beside(bytes_);
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
  } else {
    if (!leaves_) begin();
    if (fits_inside_ && leaves_->is_here()) {
      d.how = form::inside;
    } else {
      d.how = form::follows;
      d.number = table.announce(leaves_);
      ar.on_abandon([&table, number = d.number] { table.drop(number); });
    }
  }
  ar(d);
  if (fits_inside_) {
    std::array<std::byte, 2048> few{};
    std::vector<std::byte> many(bytes_ > few.size() ? bytes_ : 0);
    std::byte* const room = many.empty() ? few.data() : many.data();
    if (d.how == form::inside) {
      leaves_->copy_to(room);
      table.count_inside();
    }
    ar.write(room, bytes_);
  }
  leaves_.reset();
}

void packed_object::store(output_archive& ar, descriptor d) const {
  refuse_many(handle_, part_);
  d.how = form::stored;
  ar(d);
  answer_awaited wait;
  future<void> told = wait.told.get_future();
  hetero::detail::outgoing data(std::exchange(handle_, nullptr), part_, false);
  if (!data.begin(wait)) told.get();
  if (data.failure()) std::rethrow_exception(data.failure());
  const byte_buffer bytes = data.take();
  ar.write(bytes.data(), bytes.size());
}

hetero::detail::object_state* load_object(input_archive& ar, byte_buffer* body, bool* body_used,
                                          const element_type& wanted, const char* type) {
  net::node& here = net::node::here();
  const descriptor d = read_descriptor(ar, wanted, here.size());
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
    hetero::detail::land_at_once(*made, own(std::move(*body)));
    break;
  case form::follows:
    ar.on_complete([d, bytes, into = std::make_unique<hetero::detail::incoming>(*made)]() mutable {
      transfer_table::here().request(d.origin, d.number, bytes, std::move(into));
    });
    break;
  }
  return made.release();
}

} // namespace tern::global::detail
