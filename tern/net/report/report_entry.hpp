// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The list of the ranks that live in this process, for reports alone: nothing else may know more
/// than one. Internal.

namespace tern::net {

class node;

/// A rank of this process that reports tell of, as long as this lives.
class report_entry {
public:
  explicit report_entry(node& n) noexcept;
  ~report_entry();
  report_entry(const report_entry&) = delete;
  report_entry& operator=(const report_entry&) = delete;

private:
  friend struct entries;
  node& who_;
  report_entry *next_, *previous_ = nullptr;
};

} // namespace tern::net
