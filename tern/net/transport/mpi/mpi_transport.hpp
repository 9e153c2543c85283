// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Ranks as processes of an MPI job. Internal.

#include <memory>
#include <string>
#include <vector>

#include <tern/net/transport.hpp>

namespace tern::net {

/// This process' end of an MPI job, through the plug-in named by `implementation` ("openmpi" or
/// "mpich").
/// \param multithreaded the rank will have more than one thread.
/// \param preallocate false: nothing is kept ready for messages to come; to show what that is good
/// for.
/// \throws error(not_found) naming the folders searched, error(transport) with the library's own
/// words.
std::unique_ptr<transport> make_mpi(const std::string& implementation, int* argc, char*** argv, bool multithreaded,
                                    bool preallocate = true);

/// Which MPI this process belongs to: "openmpi", "mpich", or "" for none. Looks, in this order, at
/// an MPI that the application has loaded, at `preferred` (an option; "" for no preference), and at
/// what launchers leave in the environment. \throws error(transport) if the application's MPI and
/// the launcher's differ.
std::string detect_mpi(const std::string& preferred);

/// Where plug-ins are looked for, best first: $TERN_PLUGIN_DIR, beside the library that holds this
/// function (and its `tern/` folder), the installed folder.
std::vector<std::string> plugin_folders();

} // namespace tern::net
