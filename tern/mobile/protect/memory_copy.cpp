// SPDX-License-Identifier: Apache-2.0
#include <tern/mobile/protect/memory_copy.hpp>

#include <algorithm>
#include <cstring>
#include <utility>

#include <tern/base/archive.hpp>
#include <tern/base/error.hpp>

namespace tern::mobile::detail {

void memory_copy::put(std::uint32_t index, bool is_tables, piece p) {
  if (pieces_.size() <= index) pieces_.resize(index + std::size_t{1});
  size_ += p.size();
  pieces_[index] = std::move(p);
  if (is_tables) tables_ = index;
  begins_.assign(1, 0);
  for (const piece& one : pieces_) begins_.push_back(begins_.back() + one.size());
}

saved_tables memory_copy::tables() const {
  saved_tables t;
  if (pieces_.size() != tables_ + 1 || pieces_.empty())
    throw error(errc::internal, name() + " lacks a piece", "report this, with the program");
  unpack_into(std::span<const std::byte>(pieces_[tables_].data(), pieces_[tables_].size()), t);
  return t;
}

void memory_copy::read(std::uint64_t offset, std::span<std::byte> to) const {
  if (offset > bytes() || to.size() > bytes() - offset)
    throw error(errc::invalid_data,
                name() + " has no " + std::to_string(to.size()) + " bytes at offset " + std::to_string(offset));
  auto at = static_cast<std::size_t>(std::upper_bound(begins_.begin(), begins_.end(), offset) - begins_.begin()) - 1;
  for (; !to.empty(); ++at) {
    const std::uint64_t skip = offset - begins_[at];
    const auto n = static_cast<std::size_t>(std::min<std::uint64_t>(to.size(), pieces_[at].size() - skip));
    if (n > 0) std::memcpy(to.data(), pieces_[at].data() + skip, n);
    offset += n;
    to = to.subspan(n);
  }
}

std::string memory_copy::name() const {
  return "copy " + std::to_string(number_) + " of rank " + std::to_string(rank_);
}

// Objects larger than a piece have one of their own.
std::uint64_t piece_writer::add(std::span<const std::byte> object) {
  if (object.size() > most_together - std::min(most_together, some_.size())) flush();
  const std::uint64_t begin = at_ + some_.size();
  if (object.size() > most_together)
    pass(object, false);
  else
    some_.insert(some_.end(), object.begin(), object.end());
  return begin;
}

void piece_writer::finish(std::span<const std::byte> tables) {
  flush();
  if (next_ == 0) pass({}, false); // the tables are never the first
  pass(tables, true);
}

void piece_writer::flush() {
  if (some_.empty()) return;
  pass(some_, false);
  some_.clear();
}

void piece_writer::pass(std::span<const std::byte> bytes, bool is_tables) {
  at_ += bytes.size();
  each_(next_++, is_tables, memory_copy::piece::copy_of(bytes));
}

} // namespace tern::mobile::detail
