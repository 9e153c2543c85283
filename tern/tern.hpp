// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Everything a Tern program needs.

#include <tern/balance/balance.hpp>
#include <tern/base/archive.hpp>
#include <tern/base/error.hpp>
#include <tern/base/log.hpp>
#include <tern/base/options.hpp>
#include <tern/hetero/dialect.hpp>
#include <tern/hetero/hetero_object.hpp>
#include <tern/hetero/hetero_task.hpp>
#include <tern/hetero/policy.hpp>
#include <tern/hetero/statistics.hpp>
#include <tern/mobile/counted.hpp>
#include <tern/mobile/hold.hpp>
#include <tern/mobile/load.hpp>
#include <tern/mobile/object.hpp>
#include <tern/net/call_options.hpp>
#include <tern/net/collectives.hpp>
#include <tern/net/epoch.hpp>
#include <tern/net/message.hpp>
#include <tern/net/multicast.hpp>
#include <tern/net/rank_failure.hpp>
#include <tern/net/remote_promise.hpp>
#include <tern/net/report.hpp>
#include <tern/net/runtime.hpp>
#include <tern/task/channel.hpp>
#include <tern/task/coro.hpp>
#include <tern/task/fiber.hpp>
#include <tern/task/future.hpp>
#include <tern/task/parallel.hpp>
#include <tern/task/scheduler.hpp>
#include <tern/task/sim.hpp>
#include <tern/task/sync.hpp>
#include <tern/task/when.hpp>
#include <tern/trace/trace.hpp>
