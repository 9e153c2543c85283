// SPDX-License-Identifier: Apache-2.0
#include <tern/global/transfer/argument.hpp>

#include <array>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <tern/base/error.hpp>
#include <tern/global/codec/frame.hpp>
#include <tern/global/transfer/departure.hpp>
#include <tern/global/transfer/transfer_table.hpp>

namespace tern::global::detail {
namespace {

void refuse_storage(archive_purpose purpose, hetero::detail::object_state* object, const hetero::detail::box& part) {
  if (purpose == archive_purpose::message) return;
  throw error(errc::unsupported,
              (object ? hetero::detail::text_of(*object, part) : std::string("a hetero_object")) +
                  " was to be packed where its bytes may be read often, or never",
              "it travels as an argument of send or call, or as a result; copy its elements into a std::vector for "
              "multicasts, checkpoints, and members of objects that move");
}

struct drop_object {
  void operator()(hetero::detail::object_state* o) const noexcept { hetero::detail::drop_handle(o); }
};

} // namespace

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
    : part_(other.part_), of_(other.of_), codec_(std::move(other.codec_)), bytes_(other.bytes_), any_(other.any_),
      gives_(other.gives_), fits_inside_(other.fits_inside_), in_body_(other.in_body_),
      handle_(std::exchange(other.handle_, nullptr)), leaves_(std::move(other.leaves_)) {}

packed_object::~packed_object() {
  if (handle_) hetero::detail::drop_handle(handle_);
}

void packed_object::begin() const {
  auto leaves = std::make_shared<departure>(transfer_table::here(), net::node::here(), std::exchange(handle_, nullptr),
                                            part_, gives_);
  if (codec_) {
    std::array<std::int32_t, 3> extent{};
    for (std::size_t i = 0; i < 3; ++i) extent[i] = static_cast<std::int32_t>(part_.extent(i));
    leaves->encode_by(codec_, shape_in(extent, of_));
  }
  departure::begin(leaves);
  leaves_ = std::move(leaves);
}

bool packed_object::become_body(byte_buffer& body, std::optional<net::detail::loan>&) {
  if (!any_ || fits_inside_ || codec_) return false;
  begin();
  if (!leaves_->is_here()) return false;
  body = leaves_->take();
  leaves_.reset();
  transfer_table::here().count_body();
  return in_body_ = true;
}

void packed_object::count(size_archive& ar) const {
  if (any_) refuse_storage(ar.purpose(), handle_, part_);
  ar.write(nullptr, sizeof(descriptor) + (fits_inside_ ? bytes_ : 0));
  if (!fits_inside_) ar.beside(bytes_);
}

void packed_object::write(output_archive& ar) const {
  descriptor d;
  if (!any_) {
    ar(d);
    return;
  }
  refuse_storage(ar.purpose(), handle_, part_);
  transfer_table& table = transfer_table::here();
  d.element = of_.hash;
  for (std::size_t i = 0; i < 3; ++i) d.extent[i] = static_cast<std::int32_t>(part_.extent(i));
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
      if (codec_) d.coded = codec_->lossless() ? coding::maybe : coding::always;
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

hetero::detail::object_state* load_object(input_archive& ar, byte_buffer* body, bool* body_used,
                                          const element_type& wanted, const char* type) {
  net::node& here = net::node::here();
  const descriptor d = read_descriptor(ar, wanted, here.size());
  if (d.how == form::none) return nullptr;
  const std::byte* const room = ar.take(d.room);
  const std::size_t bytes = static_cast<std::size_t>(d.count()) * wanted.bytes;
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
    hetero::detail::land_at_once(*made, byte_buffer::copy_of({room, bytes}));
    break;
  case form::body:
    hetero::detail::land_at_once(*made, own(std::move(*body)));
    break;
  case form::follows:
    transfer_table::here().request(d.origin, d.number, bytes, std::make_unique<hetero::detail::incoming>(*made),
                                   d.coded, shape_in(d.extent, wanted));
    break;
  }
  return made.release();
}

} // namespace tern::global::detail
