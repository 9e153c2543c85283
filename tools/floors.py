#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Did as many tests run as should, and were only those skipped that may be?

    tools/floors.py NAME LOG [--floors FILE]     checks what ctest printed into LOG, as the run NAME (tests, tests-asan, …)
    tools/floors.py NAME LOG --update            writes that run's floors anew, from what ran

An MPI, an OpenCL device or a compiler that is not found makes a check smaller, and still green. Lines of tests/floors.txt:

    NAME LABEL LEAST [# needs PACKAGE…]   the run NAME has at least LEAST tests with this label
    skip [NAME] PATTERN # why             tests whose name has a match of this regular expression may be skipped, in all
                                          runs or in one
    free NAME # why                       a run without floors; any other must have some

Exit code 1 where a floor is missed.
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


class Rules:
    """What the file says of one run."""

    def __init__(self, name: str, text: str):
        self.floors: dict[str, int] = {}
        self.needs: dict[str, str] = {}  # by label: packages
        self.allowed: list[str] = []
        self.free = False
        for number, line in enumerate(text.splitlines(), 1):
            rule, _, why = line.partition(" # ")
            words = rule.split()
            if not words or line.startswith("#"):
                continue
            if words[0] == "skip" and len(words) in (2, 3):
                self.allowed += [words[-1]] if len(words) == 2 or words[1] == name else []
            elif words[0] == "free" and len(words) == 2:
                self.free = self.free or words[1] == name
            elif len(words) == 3 and words[2].isdigit():
                if words[0] == name:
                    self.floors[words[1]] = int(words[2])
                    if why.startswith("needs "):
                        self.needs[words[1]] = why.removeprefix("needs ").strip()
            else:
                raise SystemExit(f"{FLOORS}:{number}: neither `RUN LABEL LEAST`, `skip [RUN] PATTERN # why` nor "
                                 f"`free RUN # why`: {line}")


def missed(name: str, log: str, floors_text: str) -> list[str]:
    """What is wrong with a run, a line each."""
    labels, skipped = read_log(log)
    rules = Rules(name, floors_text)
    found = []
    if not labels:
        found.append("no table of labels in the log: did ctest run to its end?")
    if not rules.floors and not rules.free:
        found.append(f"tests/floors.txt has no line for this run, which could shrink to nothing: tools/floors.py {name} LOG --update")
    for label, least in sorted(rules.floors.items()):
        if labels and labels.get(label, 0) < least:
            needs = rules.needs.get(label)
            found.append(f"{labels.get(label, 0)} tests with the label {label} ran, at least {least} should: is something missing "
                         "that they need?" + (f" Install {needs}" if needs else " See tools/required.py"))
    found += [f"skipped, and no `skip` line of tests/floors.txt allows it: {test}; `ctest -V` says why, often that a package is "
              "missing" for test in skipped if not any(re.search(pattern, test) for pattern in rules.allowed)]
    return found


def update(name: str, log: str, floors_text: str) -> str:
    """The file with this run's floors as they are in the log."""
    labels, _ = read_log(log)
    needs = Rules(name, floors_text).needs
    kept = [line for line in floors_text.splitlines() if not line.startswith(name + " ")]
    new = [f"{name} {label} {max(1, int(SLACK * count))}" + (f" # needs {needs[label]}" if label in needs else "")
           for label, count in sorted(labels.items()) if not label.startswith(OF_ONE_PROGRAM)]
    return "\n".join(kept + new) + "\n"


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
