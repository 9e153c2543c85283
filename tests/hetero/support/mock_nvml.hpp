// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What tests can say to the mock of NVIDIA's management library. Found with dlsym in the library.
/// Any GPU that is asked for is there; all are the same.

extern "C" {
/// As it is from now on. A text of words between commas, also in the environment variable
/// TERN_MOCK_NVML until this is called:
///   watts=300    the counter of energy goes on by so many joules a second (0)
///   usage=70     what the power is said to be now, in watts (50)
///   limit=700    the power limit, in watts (700)
///   no-energy    there is no counter, as before Volta
///   no-gpu       the GPU is not found
/// Null or "": as usual. Any other word ends the process with a message.
void tern_mock_nvml_configure(const char* text);
/// The counter goes on by so much at once.
void tern_mock_nvml_add(double joules);
}
