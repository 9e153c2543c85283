#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Lists a test program's suites as tests of ctest, one entry a suite.

    tools/build/suites.py --program FILE --prefix PREFIX --run RUN --out FILE [--labels L] [--timeout SECONDS]

A process under a sanitizer takes a tenth of a second to start, longer than most tests take. So the sanitizers' builds run
all tests of a suite in one process (docs/decisions/0093). A test that tests/floors.txt allows the run RUN to skip keeps an
entry of its own: any other that is skipped makes its whole suite `Skipped`, which no line of that file allows.
"""

import argparse
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import floors  # noqa: E402


def suites(listed: str) -> dict[str, list[str]]:
    """Tests by suite, from what `--gtest_list_tests` prints."""
    found: dict[str, list[str]] = {}
    suite = ""
    for line in listed.splitlines():
        name = line.split("#")[0].rstrip()
        if name.startswith("  ") and suite:
            found[suite].append(name.strip())
        elif name.endswith("."):
            suite = name.removesuffix(".")
            found[suite] = []
    return found


def entries(found: dict[str, list[str]], prefix: str, allowed: list[str]) -> list[tuple[str, str]]:
    """Name and gtest's filter of each entry."""
    made = []
    for suite, tests in found.items():
        alone = [test for test in tests if any(re.search(pattern, f"{prefix}{suite}.{test}") for pattern in allowed)]
        if len(alone) < len(tests):
            without = "-" + ":".join(f"{suite}.{test}" for test in alone) if alone else ""
            made.append((prefix + suite, f"{suite}.*{without}"))
        made += [(f"{prefix}{suite}.{test}", f"{suite}.{test}") for test in alone]
    return made


def text(made: list[tuple[str, str]], program: str, folder: str, labels: str, timeout: int) -> str:
    """The file that ctest includes. A test's output says by `[  SKIPPED ]` that it was skipped; one that fails as well has failed."""
    runner = ROOT / "tools" / "build" / "suite.sh"
    lines = []
    for name, which in made:
        lines.append(f'add_test([=[{name}]=] [=[{runner}]=] [=[{program}]=] [=[--gtest_filter={which}]=])')
        lines.append(f'set_tests_properties([=[{name}]=] PROPERTIES WORKING_DIRECTORY [=[{folder}]=] TIMEOUT {timeout} '
                     f'SKIP_RETURN_CODE 77 LABELS [=[{labels}]=])')
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", required=True)
    parser.add_argument("--prefix", required=True)
    parser.add_argument("--run", required=True)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--labels", default="")
    parser.add_argument("--timeout", type=int, default=300)
    arguments = parser.parse_args()
    listed = subprocess.run([arguments.program, "--gtest_list_tests"], capture_output=True, text=True, timeout=60, check=False)
    if listed.returncode != 0:
        print(f"{arguments.program} cannot list its tests:\n{listed.stdout}{listed.stderr}", file=sys.stderr)
        return 1
    found = suites(listed.stdout)
    if not found:
        print(f"{arguments.program} has no tests", file=sys.stderr)
        return 1
    allowed = floors.Rules(arguments.run, floors.FLOORS.read_text()).allowed
    arguments.out.write_text(text(entries(found, arguments.prefix, allowed), arguments.program, str(arguments.out.parent),
                                  arguments.labels, arguments.timeout))
    return 0


if __name__ == "__main__":
    sys.exit(main())
