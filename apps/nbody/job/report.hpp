// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What the user gets to see: the table, the summary, the file of energies.

#include "apps/nbody/job/job.hpp"
#include "apps/nbody/job/settings.hpp"

#include <optional>
#include <string>

namespace nbody {

/// What is found of a run's sums.
struct quality {
  double energy_drift = 0;   ///< largest |E - E0| / |E0|
  double momentum_drift = 0; ///< largest |P - P0| over the sum of mass times speed
  double angular_drift = 0;  ///< |L - L0| / |L0|; 0 if the run began with none
};
quality quality_of(const finished_run& run);

/// \param force_error against direct summation, if that was asked for.
void print_table(const finished_run& run, const settings& wanted, std::optional<double> force_error);
std::string summary_json(const finished_run& run, const settings& wanted, std::optional<double> force_error);
/// A line a step: step, time, kinetic, potential, energy, momentum, angular momentum, interactions,
/// seconds, imbalance.
std::string energies_csv(const finished_run& run);

/// The error of the last forces of 500 bodies, evenly chosen, against direct summation.
double error_of_forces(const bodies& all, const accelerations& pull, const finished_run& run, const settings& wanted);

} // namespace nbody
