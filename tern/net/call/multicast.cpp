// SPDX-License-Identifier: Apache-2.0
#include <tern/net/multicast.hpp>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <typeinfo>

#include <tern/net/node.hpp>

namespace tern::net::detail {
namespace {

// Follows the wire_header. A rank that receives it runs the handler and passes it on: to the ranks
// that are listed behind it, or to those from `first` to before `last`, counted cyclically from
// `origin`.
struct route {
  std::uint32_t handler = 0;
  std::int32_t origin = 0, first = 0, last = 0;
  std::uint32_t listed = 0;
};
static_assert(sizeof(route) == 20);

struct multicast_tag {};
void take_multicast(node& here, int source, const wire_header& h, payload& arrived);
const handler_record multicast_record{typeid(multicast_tag), "tern multicast", __FILE__, &take_multicast, true};

// A rank that passes one on does not wait for space: what its source sent later would overtake it
// there. \param paced: this rank began the multicast. \param ranks of the child's subtree, without
// the child.
void post_part(node& here, int child, const route& r, std::span<const std::byte> ranks,
               std::span<const std::byte> arguments, bool paced) {
  const wire_header h{multicast_record.id(), 0, 0};
  byte_buffer m;
  m.reserve(sizeof h + sizeof r + ranks.size() + arguments.size());
  m.append(&h, sizeof h);
  m.append(&r, sizeof r);
  m.append(ranks);
  m.append(arguments);
  here.post(child, std::move(m));
  if (paced) here.throttle(child);
}

// A binomial tree: of those left, the first of the far half gets that half. The largest part goes
// first.
void pass_on(node& here, const route& mine, std::span<const std::byte> ranks, std::span<const std::byte> arguments,
             bool paced) {
  route r = mine;
  for (std::uint32_t left = mine.listed; left > 0;) {
    const std::uint32_t part = (left + 1) / 2;
    const auto theirs = ranks.subspan(sizeof(std::int32_t) * (left -= part), sizeof(std::int32_t) * part);
    std::int32_t child = 0;
    std::memcpy(&child, theirs.data(), sizeof child);
    r.listed = part - 1;
    r.first = r.last = 0;
    post_part(here, child, r, theirs.subspan(sizeof child), arguments, paced);
  }
  r.listed = 0;
  for (std::int32_t end = mine.last; end > mine.first;) {
    const std::int32_t begin = end - (end - mine.first + 1) / 2;
    r.first = begin + 1;
    r.last = end;
    post_part(here, (mine.origin + begin) % here.size(), r, {}, arguments, paced);
    end = begin;
  }
}

void take_multicast(node& here, int source, const wire_header& h, payload& arrived) {
  byte_buffer& message = arrived.bytes;
  const auto bad = [&](const std::string& what) {
    return error(errc::invalid_data, "rank " + std::to_string(source) + " sent a multicast " + what);
  };
  route r;
  if (message.size() < sizeof h + sizeof r) throw bad("of too few bytes");
  std::memcpy(&r, message.data() + sizeof h, sizeof r);
  const std::size_t before = sizeof h + sizeof r, after = message.size() - before;
  if (after / sizeof(std::int32_t) < r.listed) throw bad("whose list of ranks is longer than it");
  if (r.origin < 0 || r.origin >= here.size() || r.first < 0 || r.last > here.size())
    throw bad("for ranks that there are not");
  if (r.handler >= handler_table::size() || handler_table::at(r.handler).internal())
    throw bad("for handler " + std::to_string(r.handler) + ", which is none of the program's");
  const std::size_t list = sizeof(std::int32_t) * r.listed;
  const auto rest = std::span<const std::byte>(message.bytes()).subspan(before);
  pass_on(here, r, rest.first(list), rest.subspan(list), false);
  // What is left is a message as `send` makes it, and counts as this one.
  const wire_header plain{r.handler, h.flags, 0};
  std::memcpy(message.data(), &plain, sizeof plain);
  std::memmove(message.data() + sizeof plain, message.data() + before + list, after - list);
  message.resize(sizeof plain + after - list);
  arrived.sender = r.origin;
  handler_table::at(r.handler).entry()(here, source, plain, arrived);
}

} // namespace

recipients recipients_of(node& here, const rank_group& group) {
  recipients to;
  here.check_rank(here.rank()); // nothing is sent while ranks agree which of them are left
  if (group.what() != rank_group::kind::listed) {
    to.all_others = here.size() > 1;
    to.self = group.what() == rank_group::kind::all;
    return to;
  }
  to.others.reserve(group.ranks().size());
  for (const int r : group.ranks()) {
    here.check_rank(r);
    to.others.push_back(r);
  }
  std::vector<int> sorted = to.others;
  std::sort(sorted.begin(), sorted.end());
  if (const auto twice = std::adjacent_find(sorted.begin(), sorted.end()); twice != sorted.end())
    throw error(errc::invalid_argument, "rank " + std::to_string(*twice) + " is in a group twice",
                "a multicast runs once on each rank: name each once");
  to.self = std::erase(to.others, here.rank()) > 0;
  return to;
}

void multicast(node& here, recipients to, byte_buffer message) {
  if (to.all_others && here.generation().plain() == 0) { // a rank was lost: those that are left
    to.all_others = false;
    to.others = here.generation().living();
    std::erase(to.others, here.rank());
  }
  wire_header h;
  std::memcpy(&h, message.data(), sizeof h);
  route r;
  r.handler = h.handler;
  r.origin = here.rank();
  r.listed = static_cast<std::uint32_t>(to.others.size());
  if (to.all_others) {
    r.first = 1;
    r.last = here.size();
  }
  static_assert(sizeof(int) == sizeof(std::int32_t));
  pass_on(here, r, std::as_bytes(std::span(to.others)), std::span<const std::byte>(message.bytes()).subspan(sizeof h),
          true);
  if (to.self) here.post(here.rank(), std::move(message));
}

} // namespace tern::net::detail
