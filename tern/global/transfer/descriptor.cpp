// SPDX-License-Identifier: Apache-2.0
#include <tern/global/transfer/descriptor.hpp>

#include <limits>
#include <string>

#include <tern/base/error.hpp>

namespace tern::global::detail {
namespace {

[[noreturn]] void bad(const element_type& wanted, const std::string& why) {
  throw error(errc::invalid_data,
              "a message's hetero_object<" + std::string(wanted.name) + ", " + std::to_string(wanted.dimensions) +
                  "> " + why,
              "all ranks must run the same program");
}

} // namespace

descriptor read_descriptor(input_archive& ar, const element_type& wanted, int ranks) {
  descriptor d;
  ar(d);
  if (d.how == form::none) {
    if (d.room != 0 || d.number != 0) bad(wanted, "is none, and has elements");
    return d;
  }
  if (d.how > form::stored) bad(wanted, "has form " + std::to_string(static_cast<std::uint32_t>(d.how)));
  if (d.element != wanted.hash) bad(wanted, "has elements of another type, or other dimensions");
  std::uint64_t count = 1;
  const std::uint64_t most = std::numeric_limits<std::int64_t>::max() / wanted.bytes;
  for (std::size_t i = 0; i < 3; ++i) {
    const std::int32_t e = d.extent[i];
    const bool used = i + static_cast<std::size_t>(wanted.dimensions) >= 3;
    if (e < 1 || (!used && e != 1)) bad(wanted, "has extent " + std::to_string(e));
    if (count > most / static_cast<std::uint64_t>(e)) bad(wanted, "has more elements than any memory");
    count *= static_cast<std::uint64_t>(e);
  }
  if (d.how == form::stored ? d.origin != -1 : d.origin < 0 || d.origin >= ranks)
    bad(wanted, "is of rank " + std::to_string(d.origin));
  if ((d.how == form::follows) != (d.number != 0)) bad(wanted, "has number " + std::to_string(d.number));
  if (d.room != 0 && d.room != count * wanted.bytes)
    bad(wanted, "has room for " + std::to_string(d.room) + " bytes, and needs " + std::to_string(count * wanted.bytes));
  if (d.how == form::inside && d.room == 0) bad(wanted, "is to be inside, where there is no room");
  return d;
}

} // namespace tern::global::detail
