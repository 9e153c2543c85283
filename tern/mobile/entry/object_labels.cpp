// SPDX-License-Identifier: Apache-2.0
/// \file
/// Names of objects, for reports.
#include <tern/mobile/entry/object_labels.hpp>

#include <algorithm>
#include <mutex>

#include <tern/net/report/reporter.hpp>

namespace tern::mobile::detail {

object_labels::object_labels() = default;
object_labels::~object_labels() = default;

void object_labels::add(object_id id, const std::string& name) {
  const std::lock_guard hold(lock_);
  auto& all = labels_[id.bits];
  if (std::find(all.begin(), all.end(), name) == all.end()) all.push_back(name);
}

void object_labels::remove(object_id id, const std::string& name) noexcept {
  const std::lock_guard hold(lock_);
  const auto at = labels_.find(id.bits);
  if (at == labels_.end()) return;
  std::erase(at->second, name);
  if (at->second.empty()) labels_.erase(at);
}

void object_labels::clear() noexcept {
  const std::lock_guard hold(lock_);
  labels_.clear();
}

void object_labels::forget(object_id id) noexcept {
  const std::lock_guard hold(lock_);
  labels_.erase(id.bits);
}

std::string object_labels::describe(object_id id) {
  const auto hold = net::try_for_a_while(lock_);
  if (!hold) return {};
  const auto at = labels_.find(id.bits);
  if (at == labels_.end()) return {};
  std::string text;
  for (const std::string& name : at->second) text += (text.empty() ? "'" : ", '") + name + "'";
  return text;
}

} // namespace tern::mobile::detail
