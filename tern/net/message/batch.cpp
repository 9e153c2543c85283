// SPDX-License-Identifier: Apache-2.0
#include <tern/net/message/batch.hpp>

#include <string>
#include <typeinfo>
#include <utility>

#include <tern/base/error.hpp>

namespace tern::net {
namespace {

struct batch_tag {};

[[noreturn]] void broken(int source, const std::string& what) {
  throw error(errc::invalid_data, "rank " + std::to_string(source) + " sent a batch " + what,
              "all ranks must run the same program");
}

} // namespace

const handler_record batch_record{
    typeid(batch_tag), "tern batch", __FILE__,
    [](node&, int, const wire_header&, payload&) { throw error(errc::invalid_data, "a batch lies in another"); }, true};

batch_reader* batch_reader::open(arrival&& whole) {
  wire_header h;
  std::memcpy(&h, whole.head.data(), sizeof h);
  if (h.reply == 0 || h.reply > (whole.head.size() - sizeof h) / record_bytes(0) || !whole.body.empty())
    broken(whole.source,
           "of " + std::to_string(whole.head.size()) + " bytes with " + std::to_string(h.reply) + " messages");
  return new batch_reader(std::move(whole), h.reply);
}

void batch_reader::left_over() const { broken(whole_.source, "with bytes after its last message"); }

void batch_reader::does_not_fit(std::uint64_t size) const {
  broken(whole_.source, "in which a message of " + std::to_string(size) + " bytes does not fit");
}

} // namespace tern::net
