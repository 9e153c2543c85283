// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Makes C++ of preprocessed CUDA.

#include <string>
#include <vector>

namespace mock {

struct kernel_text {
  std::string text;                 ///< for the host's compiler
  std::vector<std::string> kernels; ///< their names
};

/// Words of CUDA's are replaced by C++ for the host, lines staying where they are, and a table of
/// the kernels comes behind (kernel_image.hpp).
kernel_text make_host_text(const std::string& preprocessed);

} // namespace mock
