// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What a layer above `net` counts, for the table of the option `stats`. Internal.

#include <string>
#include <vector>

namespace tern::net {

/// Numbers of things that have names, such as the classes of objects. Plain data; one thread at a
/// time.
struct stats_table {
  struct column {
    std::string name;
    int decimals = 0;
    template <class A> void serialize(A& ar) { ar(name, decimals); }
  };
  struct row {
    std::string name;
    std::vector<double> values; ///< as many as there are columns
    template <class A> void serialize(A& ar) { ar(name, values); }
  };
  std::string of; ///< what a row's name is the name of: "class"
  std::vector<column> columns;
  std::vector<row> rows;

  template <class A> void serialize(A& ar) { ar(of, columns, rows); }
  /// The row of that name, made of zeros if there is none.
  row& at(const std::string& name);
  /// Adds the rows of `o`, which has the same columns or is empty.
  void add(const stats_table& o);
  /// Lines, each with its end: the header, and the rows in the order of their names. Empty without
  /// rows.
  std::string text() const;
};

/// Adds each of `from` to the one of the same things in `to`, or puts it behind them.
void add_tables(std::vector<stats_table>& to, const std::vector<stats_table>& from);

/// What a job's messages have become. All that are sent before the job closes have been handled or
/// forwarded by then.
struct message_totals {
  double handled = 0;     ///< by handlers of the program and of the runtime
  double forwarded = 0;   ///< sent on, as new messages, to objects that were elsewhere
  double collectives = 0; ///< parts of collective operations, which are counted apart
  /// "messages: 12 sent = 8 handled + 1 forwarded + 3 of collective operations".
  std::string text() const;
};

} // namespace tern::net
