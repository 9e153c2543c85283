#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Did as many tests run as should, and were only those skipped that may be?

    tools/floors.py NAME LOG [--floors FILE]     checks what ctest printed into LOG, as the run NAME (tests, tests-asan, …)
    tools/floors.py NAME LOG --update            writes that run's floors anew, from what ran

An MPI, an OpenCL device or a compiler that is not found makes a check smaller, and still green. Each line of
tests/floors.txt is `NAME LABEL LEAST`: the run NAME has at least LEAST tests with this label; or `skip [NAME] PATTERN # why`:
tests whose name has a match of this regular expression may be skipped, in all runs or in one. Exit code 1 where a floor is
missed.
"""

import argparse
import pathlib
import re
import sys

FLOORS = pathlib.Path(__file__).resolve().parent.parent / "tests" / "floors.txt"
OF_ONE_PROGRAM = ("example_", "tern_")  # labels that only say which program runs
SLACK = 0.97  # of what runs today: a test that is merged or dropped for a reason need not touch the file


def read_log(text: str) -> tuple[dict[str, int], list[str]]:
    """Tests by label, and the names of those that were skipped."""
    labels = {match.group(1): int(match.group(2)) for match in
              re.finditer(r"^(\S+) += +[\d.]+ sec\*proc \((\d+) tests?\)$", text, re.MULTILINE)}
    skipped = re.findall(r"^\s*\d+ - (.*) \((?:Skipped|Not Run|Disabled)\)\s*$", text, re.MULTILINE)
    return labels, skipped


def read_floors(name: str, text: str) -> tuple[dict[str, int], list[str]]:
    """The floors of a run, and the patterns of what it may skip."""
    floors: dict[str, int] = {}
    allowed = []
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split(" # ")[0].split()
        if not words or line.startswith("#"):
            continue
        if words[0] == "skip" and len(words) in (2, 3):
            allowed += [words[-1]] if len(words) == 2 or words[1] == name else []
        elif len(words) == 3 and words[2].isdigit():
            floors.update({words[1]: int(words[2])} if words[0] == name else {})
        else:
            raise SystemExit(f"{FLOORS}:{number}: neither `RUN LABEL LEAST` nor `skip [RUN] PATTERN # why`: {line}")
    return floors, allowed


def missed(name: str, log: str, floors_text: str) -> list[str]:
    """What is wrong with a run, a line each."""
    labels, skipped = read_log(log)
    floors, allowed = read_floors(name, floors_text)
    found = []
    if not labels:
        found.append("no table of labels in the log: did ctest run to its end?")
    for label, least in sorted(floors.items()):
        if labels and labels.get(label, 0) < least:
            found.append(f"{labels.get(label, 0)} tests with the label {label} ran, at least {least} should: "
                         "is something missing that they need (an MPI, PoCL, clang)?")
    found += [f"skipped, and no `skip` line of tests/floors.txt allows it: {test}" for test in skipped
              if not any(re.search(pattern, test) for pattern in allowed)]
    return found


def update(name: str, log: str, floors_text: str) -> str:
    """The file with this run's floors as they are in the log."""
    labels, _ = read_log(log)
    kept = [line for line in floors_text.splitlines() if not line.startswith(name + " ")]
    return "\n".join(kept + [f"{name} {label} {max(1, int(SLACK * count))}" for label, count in sorted(labels.items())
                             if not label.startswith(OF_ONE_PROGRAM)]) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("name")
    parser.add_argument("log", type=pathlib.Path)
    parser.add_argument("--floors", type=pathlib.Path, default=FLOORS)
    parser.add_argument("--update", action="store_true")
    arguments = parser.parse_args()
    log = arguments.log.read_text(errors="replace")
    floors = arguments.floors.read_text()
    if arguments.update:
        arguments.floors.write_text(update(arguments.name, log, floors))
        return 0
    found = missed(arguments.name, log, floors)
    for line in found:
        print(f"floors of {arguments.name}: {line}", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
