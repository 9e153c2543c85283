#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that a trace is well formed: what Perfetto forgives, this does not.

  check_trace.py FILE [--cut] [--complete] [--json]

  --cut        the file may end anywhere, as after a kill: what is open then is counted
  --complete   nothing may be missing: no "INCOMPLETE", every arrow has both ends
  --json       print the counts as JSON

Each B has its E and each b its e; slices of one track nest; times on a track never go back; each process and thread that
has events has a name; an arrow's end has a beginning. One line of counts, or a line for each thing that is wrong (at most
20) and exit code 1."""

import argparse
import collections
import json
import sys


def milli(text) -> int:
    """Microseconds as the file has them, in nanoseconds: exactly, since a float of many days is not."""
    whole, _, rest = str(text).partition(".")
    return int(whole) * 1000 + int((rest + "000")[:3])


def events(file, cut: bool):
    """(line number, event) of each line: the trace is written with one event a line, so that it need not fit in memory."""
    ended = False
    for number, line in enumerate(file, 1):
        text = line.strip()
        if number == 1:
            if text != "[":
                raise ValueError("line 1: no '['")
            continue
        if text == "]":
            ended = True
            continue
        if ended and text:
            raise ValueError(f"line {number}: after the end")
        if text:
            try:
                yield number, json.loads(text.rstrip(",") if text.endswith(",") else text, parse_float=str, parse_int=str)
            except ValueError as problem:
                if cut and not line.endswith("\n"):
                    return  # half a line, the last one
                raise ValueError(f"line {number}: {problem}") from None
    if not ended and not cut:
        raise ValueError("the file has been cut off")


class Checker:
    def __init__(self) -> None:
        self.wrong: list[str] = []
        self.counts: collections.Counter = collections.Counter()
        self.last: dict = {}  # (pid, tid): time
        self.open: dict = collections.defaultdict(list)  # (pid, tid): [(name, end or None)]
        self.regions: dict = collections.defaultdict(list)  # (pid, category, id): [name]
        self.flows: dict = collections.defaultdict(collections.Counter)  # id: {phase: n}
        self.processes: dict = {}
        self.threads: dict = {}
        self.missing: list[str] = []

    def complain(self, number: int, what: str) -> None:
        self.wrong.append(f"line {number}: {what}")

    def slice_over(self, track, now: int) -> None:
        """Complete slices that have ended by `now` are no longer on the stack."""
        stack = self.open[track]
        while stack and stack[-1][1] is not None and stack[-1][1] <= now:
            stack.pop()

    def metadata(self, event) -> None:
        name, arguments = event["name"], event["args"]
        if name == "process_name":
            self.processes[event["pid"]] = arguments["name"]
        elif name == "thread_name":
            self.threads[event["pid"], event["tid"]] = arguments["name"]

    def take(self, number: int, event) -> None:
        phase = event["ph"]
        self.counts[phase] += 1
        if phase == "M":
            self.metadata(event)
            return
        now, pid = milli(event["ts"]), event["pid"]
        if now < 0:
            self.complain(number, f"the time {event['ts']}")
        if pid not in self.processes:
            self.complain(number, f"process {pid} has no name")
            self.processes[pid] = ""
        if phase == "C":
            if not all(isinstance(v, str) or v is None for v in event["args"].values()):
                self.complain(number, "a counter's value is no number")
            return
        track = (pid, event["tid"])
        if track not in self.threads:
            self.complain(number, f"thread {track} has no name")
            self.threads[track] = ""
        if event.get("cat") == "missing":
            self.missing.append(event["name"])
            return
        if now < self.last.get(track, 0):
            self.complain(number, f"{phase} at {event['ts']} on {track} after one at {self.last[track] / 1000}")
        self.last[track] = now
        self.slice_over(track, now)
        stack = self.open[track]
        if phase == "B":
            stack.append((event["name"], None))
        elif phase == "E":
            if not stack or stack[-1][1] is not None:
                self.complain(number, f"an E on {track} " + ("inside a complete slice" if stack else "without a B"))
            else:
                stack.pop()
        elif phase == "X":
            end = now + milli(event["dur"])
            if stack and stack[-1][1] is not None and end > stack[-1][1]:
                self.complain(number, f"{event['name']} on {track} ends after the slice in which it began")
            stack.append((event["name"], end))
        elif phase in "be":
            regions = self.regions[pid, event["cat"], event["id"]]
            if phase == "b":
                regions.append(event["name"])
            elif not regions or regions[-1] != event["name"]:
                self.complain(number, f"region {event['name']} of {event['id']} ends inside {regions}")
            else:
                regions.pop()
        elif phase in "stf":
            self.flows[event["id"]][phase] += 1
            if not stack:
                self.complain(number, f"an arrow at no slice on {track}")
        elif phase != "i":
            self.complain(number, f"an event of kind {phase}")

    def finish(self, cut: bool, complete: bool) -> None:
        unfinished = sum(1 for stack in self.open.values() for slice_ in stack if slice_[1] is None)
        regions = sum(len(r) for r in self.regions.values())
        if not cut and (unfinished or regions):
            self.wrong.append(f"{unfinished} slices and {regions} regions do not end")
        whole = lost_begin = lost_end = 0
        for phases in self.flows.values():
            whole += min(phases["s"], phases["f"])
            lost_end += max(phases["s"] - phases["f"], 0)
            lost_begin += max(phases["f"] - phases["s"], 0)
        self.counts.update({"arrows": whole, "arrows without end": lost_end, "arrows without beginning": lost_begin,
                            "unfinished": unfinished + regions, "missing": len(self.missing),
                            "processes": len(self.processes), "threads": len(self.threads)})
        if complete and (lost_begin or lost_end):
            self.wrong.append(f"{lost_begin} arrows without a beginning, {lost_end} without an end")
        if complete and self.missing:
            self.wrong.append(f"incomplete: {'; '.join(self.missing)}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file")
    parser.add_argument("--cut", action="store_true")
    parser.add_argument("--complete", action="store_true")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    checker = Checker()
    try:
        with open(arguments.file, encoding="utf-8", errors="strict") as file:
            for number, event in events(file, arguments.cut):
                try:
                    checker.take(number, event)
                except (KeyError, TypeError, AttributeError, ValueError) as problem:
                    checker.complain(number, f"not such an event as we write: {problem!r}")
                if len(checker.wrong) >= 20:
                    break
        if len(checker.wrong) < 20:
            checker.finish(arguments.cut, arguments.complete)
    except (OSError, ValueError) as problem:
        checker.wrong.append(str(problem))
    for line in checker.wrong[:20]:
        print(f"{arguments.file}: {line}", file=sys.stderr)
    if checker.wrong:
        return 1
    if arguments.json:
        print(json.dumps(dict(checker.counts)))
    else:
        print(", ".join(f"{n} {what}" for what, n in sorted(checker.counts.items())))
    return 0


if __name__ == "__main__":
    sys.exit(main())
