// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Small text files that an application leaves: summaries and reports. Their options are called
/// `--out` (a folder) and `--json` (a file) in all applications.

#include <string>

namespace apps {

/// Makes the folder if need be and tries to write there. \param what it is, and the option that
/// names it, for the error. \throws tern::error(io) that names it and says why.
void check_writable(const std::string& folder, const std::string& what = "output folder",
                    const std::string& option = "--out");
/// Opens the file for writing, leaving what is in it; a file that was not there is not left.
/// \throws tern::error(io).
void check_file_writable(const std::string& path);
/// \throws tern::error(io) that names the file and says why.
void write_text(const std::string& path, const std::string& text);

} // namespace apps
