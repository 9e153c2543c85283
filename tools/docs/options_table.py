#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The table of options in docs/reference/options.md is what `tern options --markdown` prints.

Usage: options_table.py TERN PAGE          writes the table into the page
       options_table.py --check TERN PAGE  tells whether it stands there
"""

import difflib
import os
import pathlib
import subprocess
import sys

HEAD = "| option | environment | default | meaning |"


def made_by(tern: str) -> list[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TERN_")}
    done = subprocess.run([tern, "options", "--markdown"], capture_output=True, text=True, check=True, env=environment)
    return done.stdout.splitlines()


def place_of(lines: list[str], page: str) -> slice:
    if lines.count(HEAD) != 1:
        sys.exit(f"{page} has {lines.count(HEAD)} tables of options: lines \"{HEAD}\"")
    begin = lines.index(HEAD)
    end = next((i for i in range(begin, len(lines)) if not lines[i].startswith("|")), len(lines))
    return slice(begin, end)


def main() -> int:
    arguments = sys.argv[1:]
    checks = arguments[:1] == ["--check"]
    tern, page = arguments[1:] if checks else arguments
    lines = pathlib.Path(page).read_text(encoding="utf-8").splitlines()
    place, table = place_of(lines, page), made_by(tern)
    if lines[place] == table:
        return 0
    if checks:
        print(*difflib.unified_diff(lines[place], table, page, "tern options --markdown", lineterm="", n=0), sep="\n")
        print(f"{page} has not the table of the options that there are; write it with\n"
              f"  tools/docs/options_table.py {tern} {page}\nor build the target options_table")
        return 1
    lines[place] = table
    pathlib.Path(page).write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(f"{page}: {len(table) - 2} options")
    return 0


if __name__ == "__main__":
    sys.exit(main())
