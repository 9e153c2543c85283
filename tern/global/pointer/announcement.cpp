// SPDX-License-Identifier: Apache-2.0
#include <tern/global/pointer/announcement.hpp>

#include <string>

#include <tern/base/error.hpp>

namespace tern::global::detail {

announcement read_announcement(std::span<const std::byte> bytes, int source, int owner) {
  const auto bad = [source](const std::string& why) {
    return error(errc::invalid_data, "rank " + std::to_string(source) + " announced an operation " + why,
                 "all ranks must run the same program");
  };
  const auto a = unpack<announcement>(bytes);
  const auto kind = static_cast<std::uint32_t>(a.kind);
  if (kind < 1 || kind > static_cast<std::uint32_t>(operation_kind::fetch))
    throw bad("of kind " + std::to_string(kind));
  if (a.how > 2) throw bad("that combines in way " + std::to_string(a.how));
  if (a.operation == 0) throw bad("without a number");
  if (a.place.owner() != owner)
    throw bad("on what is of rank " + std::to_string(a.place.owner()) + " to rank " + std::to_string(owner));
  if (a.brings_data() != (a.data != 0)) throw bad("whose data have number " + std::to_string(a.data));
  if (a.fetches_data() != (a.landing != 0)) throw bad("whose data are to land under " + std::to_string(a.landing));
  return a;
}

} // namespace tern::global::detail
