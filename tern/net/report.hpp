// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Reports of hangs and crashes: one readable file that tells, for each rank, which fibers wait for
/// what and since when, with their stacks, and which messages are queued, were sent and received
/// last.
///
/// A report is written
/// - when the process gets SIGUSR1, or SIGUSR2 where another library has a handler for that (MPICH
///   has), and goes on; --tern-no-report-signal leaves both alone;
/// - when no rank of the process has made progress for --tern-watchdog seconds, once until there is
///   progress again; with --tern-watchdog-abort the job then ends with code 1;
/// - if --tern-report FILE or --tern-watchdog was given: when an error ends the job (`tern: report
///   in FILE` on standard error), and before SIGSEGV, SIGBUS, SIGFPE, SIGILL or SIGABRT do what
///   they do without us;
/// - by `write_report`.
///
/// The processes of a job append to one file, as far as they share their working folder; the last
/// lines tell which ranks have written and which have not. docs/howto/debug.md shows one.

#include <tern/base/language/compiler.hpp>

#include <string>
#include <string_view>
#include <vector>

namespace tern {

/// Writes a report of this process' ranks. \param reason for its first lines. \return the file's
/// path; empty if it could not be written: then standard error has it, and why. Any thread, in or
/// out of a job; not from a signal handler. The caller, and so its worker, waits meanwhile:
/// milliseconds, seconds with thousands of fibers.
std::string write_report(std::string_view reason);

namespace net {

class node;

/// What a report says of one rank, in lines. Waits for no lock longer than a moment: what cannot be
/// had is said to be missing. Any thread, while the node lives. \param stacks with the stacks of
/// its fibers.
std::string describe(node& n, bool stacks = true);
/// The same of many ranks that live in one process; those that differ in numbers only are told of
/// once.
/// \param stacks for so many seconds; 0: without.
std::string describe(const std::vector<node*>& ranks, double stacks = 5);

} // namespace net
} // namespace tern
