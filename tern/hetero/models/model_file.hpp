// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Models on disk, for all processes of a host. Internal.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

#include <tern/base/options.hpp>
#include <tern/hetero/models/estimate/model_set.hpp>

namespace tern::hetero::detail {

/// Seconds since 1970.
std::int64_t date_now() noexcept;
/// As the system names this machine; "host" if it has no name.
std::string host_name();

/// The file FOLDER/HOST.models.
///
/// Guarantees that what is read is what some process has stored, line by line, whatever happened to
/// the file; that samples of processes that store at the same time are all kept (but for those that
/// a model has no place for); that a file of another version of Tern, or whose first line is
/// damaged, is renamed and never overwritten; that a process which is killed leaves the file whole.
///
/// The file is read whole. To store, a process holds the lock of FOLDER/HOST.lock (flock), reads
/// the file, adds its fresh samples, writes FOLDER/HOST.draft and renames that.
///
/// Errors are those of the members. Threads: one at a time.
class model_file {
public:
  static constexpr int kept_aside_most = 8;
  static constexpr std::uintmax_t bytes_most = std::uintmax_t{256} << 20;
  enum class access { none, read, write };

  /// No file: nothing is read or stored.
  model_file() = default;
  explicit model_file(std::filesystem::path folder, access how = access::write, const std::string& host = host_name());
  /// As the option `hetero-models` says. Where it names no folder, and the usual one cannot be had,
  /// as on batch nodes and in containers, that goes to the log at level debug.
  explicit model_file(const options& opts);

  /// Does the option's value say so: "read", "read:FOLDER"?
  static bool only_reads(std::string_view option) noexcept { return option == "read" || option.starts_with("read:"); }
  access how() const noexcept { return how_; }
  /// Empty if there is none.
  const std::filesystem::path& path() const noexcept { return path_; }

  /// What is stored, without what has expired by `date`. A damaged line is skipped; one warning
  /// names the file and the first such line. A file that does not exist, or is of another version
  /// or damaged at its first line, holds nothing; the latter is told. \throws error(io) that names
  /// the file if it cannot be read.
  model_set read(std::int64_t date);
  /// As `read`, but what would be thrown is told, once; then it holds nothing.
  model_set load(std::int64_t date) noexcept;
  /// Adds fresh samples to the file. What prevents it is told, once. \param take_fresh is called
  /// when the file is locked, and returns them: they are forgotten if the file cannot be written.
  /// \param wait for other processes that store; else nothing is done while one does. \return
  /// whether they were stored.
  bool store(const std::function<model_set()>& take_fresh, std::int64_t date, bool wait) noexcept;
  /// Changes what is stored. \throws error(io), error(invalid_state) if it must not be written.
  void change(const std::function<void(model_set&)>& how, std::int64_t date);

private:
  bool locked(const std::function<void()>& inside, bool wait);
  model_set read_to_replace(std::int64_t date);
  void put_aside();
  void write(const model_set& models) const;
  void tell_once(bool& told, const std::string& what) const noexcept;

  std::filesystem::path folder_, path_, lock_, draft_;
  access how_ = access::none;
  bool usual_ = false; ///< the folder is not the user's choice
  bool told_read_ = false, told_write_ = false, told_lines_ = false, told_header_ = false;
};

} // namespace tern::hetero::detail
