// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Gathers what a rank does, for the option `record`. Internal.

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include <tern/balance/recording.hpp>
#include <tern/mobile/directory.hpp>
#include <tern/net/node.hpp>
#include <tern/task/wait/waiting.hpp>

namespace tern::balance::detail {

/// One rank's. Thread-safe.
class recorder {
public:
  recorder(net::node& here, mobile::directory& objects);

  /// An invocation has run. \param type and \param object that it ran on, which is still its.
  void ran(mobile::object_id id, const mobile::type_record& type, const void* object, int worker, double seconds);
  /// One that has run, or what it has submitted, has taken so many seconds of devices. Of objects
  /// that `ran` has named.
  void charged(mobile::object_id id, double device);
  void moved(mobile::object_id id, int to);
  void noted(std::string_view what, double value);
  /// The calls have nothing to do with each other's moment: all that ran until now belongs to the
  /// phase that ends.
  void phase_ends(const std::vector<mobile::object_contact>& talks);
  /// Collective: rank 0 stores what all have gathered. \throws error(io) there.
  void store(const std::string& path, const std::string& policy, const std::string& order);

private:
  double now() const noexcept;
  void close_phase();
  net::node& node_;
  mobile::directory& objects_;
  const double began_;
  tern::detail::spin_lock guard_;
  recording part_;
  std::uint32_t phase_ = 0;
  double next_sample_ = 0;
  std::vector<double> busy_;                                                ///< by worker
  std::unordered_map<std::uint64_t, recording::work> works_;                ///< of this phase, by id's bits
  std::unordered_map<std::uint64_t, std::size_t> known_;                    ///< index into the part's objects
  std::vector<std::pair<const mobile::type_record*, std::uint32_t>> types_; ///< their numbers
};

} // namespace tern::balance::detail
