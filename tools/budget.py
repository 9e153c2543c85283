#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What each layer costs the check, beside what it may cost.

    tools/budget.py PRESET [--logs build/check] [--strict]   a table; exit code 1 with --strict where a part is over
    tools/budget.py PRESET --update                          writes the budgets anew: what was taken, and a tenth

Building counts seconds of CPU (build/PRESET/cpu.log, written by tools/build/timed.sh), tests the seconds that each test
took, four or five at a time. A build from a compiler cache takes less; nothing is wrong with that. Each line of
tests/budgets.txt is `PRESET PART BUILD TESTS`. A part that takes a fifth more than its budget is marked OVER.
"""

import argparse
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUDGETS = ROOT / "tests" / "budgets.txt"
LAYERS = ("base", "trace", "task", "net", "mobile", "balance", "hetero", "global", "random", "pipeline", "directive",
          "offload", "learn")
FOLDERS = ("apps", "bench", "examples", "tools", "tests")
PARTS = LAYERS + FOLDERS
OVER = 1.2
LOGS = {"release": ("tests", "tests-exclusive", "tests-install"), "asan": ("tests-asan",), "tsan": ("tests-tsan",)}


def part_of_output(output: str) -> str | None:
    """The layer or folder to which something that was compiled or linked belongs."""
    match = re.match(r"(?:tern|tests)/(\w+)/", output)
    if match and match.group(1) in LAYERS:
        return match.group(1)
    if match := re.match(r"(?:lib/(?:tern/)?lib|bin/)?tern_?(\w*)", output):
        for layer in LAYERS:
            if match.group(1).startswith(layer):
                return layer
    folder = output.split("/")[0]
    return folder if folder in FOLDERS else "tests" if output.startswith(("lib/", "bin/")) else None


def part_of_test(name: str) -> str:
    if match := re.match(r"tern_([a-z]+)_", name):
        return match.group(1) if match.group(1) in LAYERS else {"calls": "net", "messages": "net", "arguments": "net",
                                                                "communicator": "net", "epoch": "net"}.get(
                                                                    match.group(1), "tests")
    first = re.split(r"[._]", name)[0]
    return first if first in LAYERS else {"jacobi3d": "apps", "mesh": "apps", "nbody": "apps", "example": "examples", "tool": "tools",
                                          "bench": "bench"}.get(first, "tests")


def build_seconds(text: str) -> dict[str, float]:
    taken: dict[str, float] = {}
    for match in re.finditer(r"^([\d.]+) (\S+)$", text, re.MULTILINE):
        part = part_of_output(match.group(2)) or "tests"
        taken[part] = taken.get(part, 0) + float(match.group(1))
    return taken


def test_seconds(text: str) -> dict[str, float]:
    taken: dict[str, float] = {}
    for match in re.finditer(r"^ *\d+/\d+ Test +#\d+: (\S+) .*? ([\d.]+) sec", text, re.MULTILINE):
        part = part_of_test(match.group(1))
        taken[part] = taken.get(part, 0) + float(match.group(2))
    return taken


def read_budgets(preset: str, text: str) -> dict[str, tuple[float, float]]:
    found = {}
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split(" # ")[0].split()
        if not words or line.startswith("#"):
            continue
        if len(words) != 4 or words[1] not in PARTS or not all(re.fullmatch(r"\d+", word) for word in words[2:]):
            raise SystemExit(f"{BUDGETS}:{number}: not `PRESET PART BUILD TESTS` with a part out of {' '.join(PARTS)}: {line}")
        if words[0] == preset:
            found[words[1]] = (float(words[2]), float(words[3]))
    return found


def over(taken: float, budget: float) -> bool:
    return taken > max(OVER * budget, budget + 3)  # a few seconds are noise


def table(preset: str, build: dict[str, float], tests: dict[str, float],
          budgets: dict[str, tuple[float, float]]) -> tuple[list[str], int]:
    """The lines to print, and how many parts are over their budget."""
    lines = [f"{preset:10} {'build, s CPU':>14} {'budget':>8} {'tests, s':>10} {'budget':>8}"]
    failed = 0
    for part in PARTS:
        if part not in build and part not in tests and part not in budgets:
            continue
        may_build, may_test = budgets.get(part, (0, 0))
        took_build, took_test = build.get(part, 0), tests.get(part, 0)
        marked = over(took_build, may_build) or over(took_test, may_test)
        failed += marked
        lines.append(f"{part:10} {took_build:14.0f} {may_build:8.0f} {took_test:10.0f} {may_test:8.0f}"
                     f"{'  OVER' if marked else ''}")
    lines.append(f"{'all':10} {sum(build.values()):14.0f} {sum(b for b, _ in budgets.values()):8.0f} "
                 f"{sum(tests.values()):10.0f} {sum(t for _, t in budgets.values()):8.0f}")
    return lines, failed


def update(preset: str, build: dict[str, float], tests: dict[str, float], text: str) -> str:
    kept = [line for line in text.splitlines() if not line.startswith(preset + " ")]
    return "\n".join(kept + [f"{preset} {part} {int(1.1 * build.get(part, 0) + 1)} {int(1.1 * tests.get(part, 0) + 1)}"
                             for part in PARTS if part in build or part in tests]) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("preset", choices=LOGS)
    parser.add_argument("--logs", type=pathlib.Path, default=ROOT / "build" / "check")
    parser.add_argument("--budgets", type=pathlib.Path, default=BUDGETS)
    parser.add_argument("--strict", action="store_true", help="exit code 1 where a part is over its budget")
    parser.add_argument("--update", action="store_true")
    arguments = parser.parse_args()
    cpu = ROOT / "build" / arguments.preset / "cpu.log"
    build = build_seconds(cpu.read_text()) if cpu.is_file() else {}
    logs = [arguments.logs / f"{name}.log" for name in LOGS[arguments.preset]]
    tests = test_seconds("\n".join(log.read_text(errors="replace") for log in logs if log.is_file()))
    text = arguments.budgets.read_text()
    if arguments.update:
        arguments.budgets.write_text(update(arguments.preset, build, tests, text))
        return 0
    lines, failed = table(arguments.preset, build, tests, read_budgets(arguments.preset, text))
    print("\n".join(lines))
    if failed:
        print(f"{failed} parts take a fifth more than tests/budgets.txt gives them. On a quiet machine: make them cheaper, or "
              "say in a decision record why they may cost more, and run tools/budget.py --update", file=sys.stderr)
    return 1 if failed and arguments.strict else 0


if __name__ == "__main__":
    sys.exit(main())
