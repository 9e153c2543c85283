// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// All parallel algorithms of this layer.

#include <tern/task/parallel_for.hpp>
#include <tern/task/parallel_reduce.hpp>
#include <tern/task/parallel_scan.hpp>
#include <tern/task/parallel_sort.hpp>
#include <tern/task/task_graph.hpp>
#include <tern/task/task_group.hpp>
