// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// How long kernels and copies take, learned from how long they took. Internal.

#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>

#include <tern/hetero/models/estimate/model_set.hpp>
#include <tern/hetero/models/model_file.hpp>

namespace tern::hetero::detail {

/// What is expected of a time.
struct prediction {
  double nanoseconds = 0; ///< the median
  double spread = 0;      ///< as `sample_history::spread`; of a fitted one: half of the time
  std::size_t samples = 0;
  bool fitted = false; ///< from times at other sizes
};

/// The models of a runtime: what earlier runs have stored, and what this one measures.
///
/// Guarantees that a model is used from three samples on; that the first sample of each model in
/// this run does not count (a first launch compiles, loads and warms up); that samples of other
/// processes on this host are kept beside its own when it stores.
///
/// In a simulation no file is read or written, so that a seed gives one simulation. With
/// `hetero-models` off, `on` is false and nothing is gathered.
///
/// Threads: any. A sample takes a lock for less than a microsecond; storing takes it for moments,
/// and reads and writes the file without it.
///
/// Source: StarPU's history-based models (Augonnet, Thibault, Namyst 2009), with medians in the
/// place of means.
class performance_models {
public:
  static constexpr std::int64_t store_every = 60; ///< seconds

  /// As the options say. The file is read by `load`, or when a model is first asked for. \param
  /// date seconds since 1970.
  explicit performance_models(const options& opts, bool simulated, std::int64_t (*date)() noexcept = &date_now);
  /// For tests.
  performance_models(model_file file, std::int64_t (*date)() noexcept);
  performance_models(const performance_models&) = delete;
  performance_models& operator=(const performance_models&) = delete;

  bool on() const noexcept { return on_; }
  bool stores() const noexcept { return on_ && stores_; } ///< what is measured, for later runs
  /// Are links to be looked at before any copy? Where that serves later runs, too; and in
  /// simulations of such a program.
  bool probes_links() const noexcept { return on_ && probes_; }
  /// Reads the file, if that has not been done: for callers that are about to take a spin lock.
  void load() noexcept;

  // Kernels -----------------------------------------------------------------------------------------------------------
  /// The model, made if there is none: one look-up for many samples. It stays where it is. \return
  /// null if models are off, or there are as many as can be stored. \throws std::bad_alloc.
  kernel_model* model_of(const model_key& key, const size_class& size);
  /// \param model from `model_of`. \param nanoseconds above 0, else it is not taken. \return how
  /// many samples the model has.
  std::size_t record(kernel_model& model, double nanoseconds) noexcept;
  /// Of a size that was never measured: from the times at other sizes (size_fit.hpp). \param bytes
  /// of the size class. \return nothing where too little is known.
  std::optional<prediction> predict(const model_key& key, std::uint64_t bytes);
  /// By its own samples alone, in nanoseconds; 0: they are too few.
  double median_of(const kernel_model& model);

  // Copies ------------------------------------------------------------------------------------------------------------
  /// \param from, to models of devices. \param both_ways a copy went the other way meanwhile.
  void record_copy(const std::string& from, const std::string& to, std::uint64_t bytes, double nanoseconds,
                   bool both_ways = false);
  /// In nanoseconds. \return nothing where too little is known.
  std::optional<double> predict_copy(const std::string& from, const std::string& to, std::uint64_t bytes,
                                     bool both_ways = false);

  // Energy ------------------------------------------------------------------------------------------------------------
  /// What a device takes while it is busy and while it is not, in watts, neither below 0.
  void set_power(const std::string& device, double busy, double idle);
  /// What work of so many nanoseconds takes beyond idling, in joules. \return nothing where the
  /// device's power is not known.
  std::optional<double> joules(const std::string& device, double nanoseconds) noexcept;
  /// In watts. \return nothing where the device's power is not known.
  std::optional<double> idle_watts(const std::string& device) noexcept;

  // Storing -----------------------------------------------------------------------------------------------------------
  /// What is fresh goes to the file. Waits for other processes that store, which takes them
  /// milliseconds. Problems are told once.
  void store() noexcept;
  /// The same, if a minute has passed and no other process is storing. Cheap if not.
  void store_if_due() noexcept;

  /// All that is known now.
  model_set all();

private:
  model_set& models() noexcept;
  void store(bool wait) noexcept;

  std::int64_t (*const date_)() noexcept;
  bool on_ = false, stores_ = false, probes_ = false;
  std::mutex storing_; // before `guard_`
  model_file file_;    // under `storing_`; before `loaded_`, under `guard_`
  std::atomic<std::int64_t> stored_at_;
  std::mutex guard_;
  std::atomic<bool> loaded_{false}; // set under `guard_`
  model_set models_;                // under `guard_`
};

} // namespace tern::hetero::detail
