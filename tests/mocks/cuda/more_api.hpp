// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Functions of CUDA's driver that the mock has beside those of Tern's table.

#include <tern/hetero/device/cuda/cuda_api.hpp>

namespace mock {

namespace cu = tern::hetero::detail::cu;

using graph_plan = cu::graph;
using graph_exec = cu::graph_exec;

/// CUgraphExecUpdateResultInfo
struct update_info {
  int result = 0;
  void* error_node = nullptr;
  void* error_from_node = nullptr;
};
constexpr int update_topology_changed = 2, update_kind_changed = 3, update_parameters_changed = 5;

/// By their names without `cu`.
struct more_api {
  cu::result (*EventSynchronize)(cu::event) = nullptr;
  cu::result (*StreamBeginCapture)(cu::stream, int mode) = nullptr;
  cu::result (*StreamEndCapture)(cu::stream, graph_plan*) = nullptr;
  cu::result (*GraphExecUpdate)(graph_exec, graph_plan, update_info*) = nullptr;
};

} // namespace mock
