// SPDX-License-Identifier: Apache-2.0
#include <tern/global/transfer/descriptor.hpp>

#include <limits>
#include <string>

#include <tern/base/error.hpp>
#include <tern/global/coding/device_codec.hpp>
#include <tern/hetero/devices.hpp>

namespace tern::global::detail {
namespace {

[[noreturn]] void bad(const element_type& wanted, const std::string& why) {
  throw error(errc::invalid_data,
              "a message's hetero_object<" + std::string(wanted.name) + ", " + std::to_string(wanted.dimensions) +
                  "> " + why,
              "all ranks must run the same program");
}

} // namespace

descriptor read_descriptor(input_archive& ar, const element_type& wanted, int ranks, bool sums) {
  descriptor d;
  ar(d);
  if (d.how == form::none) {
    if (d.room != 0 || d.number != 0 || d.coded != coding::none || d.rate != 0)
      bad(wanted, "is none, and has elements");
    return d;
  }
  if (d.how > form::stored) bad(wanted, "has form " + std::to_string(static_cast<std::uint32_t>(d.how)));
  if (d.coded > coding::blocks || (d.coded != coding::none && (d.how != form::follows || d.room != 0)))
    bad(wanted, "has coding " + std::to_string(static_cast<std::uint32_t>(d.coded)));
  const bool may_be_blocks = wanted.kind == element_kind::float32 && wanted.dimensions == 1;
  if (d.coded == coding::blocks ? !may_be_blocks || d.rate == 0 || d.rate > largest_kernel_rate || d.rate % 4 != 0
                                : d.rate != 0)
    bad(wanted, "is encoded at rate " + std::to_string(d.rate));
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
  if (d.kind != 0 && (d.how != form::follows || d.kind >= hetero::device_kinds_most))
    bad(wanted, "is on a device of kind " + std::to_string(d.kind));
  if ((d.how == form::follows || sums) != (d.number != 0)) bad(wanted, "has number " + std::to_string(d.number));
  if (d.coded == coding::blocks && count > most_kernel_elements) bad(wanted, "has more elements than are encoded so");
  if (d.room != 0 && d.room != count * wanted.bytes)
    bad(wanted, "has room for " + std::to_string(d.room) + " bytes, and needs " + std::to_string(count * wanted.bytes));
  if (d.how == form::inside && d.room == 0) bad(wanted, "is to be inside, where there is no room");
  return d;
}

} // namespace tern::global::detail
