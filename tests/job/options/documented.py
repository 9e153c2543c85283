#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every option that README.md and the pages of docs/ name exists in a program that uses no layer but messages.

Decision records and results are left out: they tell of the tree as it was at their date.

Usage: documented.py PROGRAM ROOT
"""

import os
import pathlib
import re
import subprocess
import sys

# Stand for any option.
PLACEHOLDERS = {"x", "no-x"}


def options_of(program: str) -> dict[str, bool]:
    """Each option, and whether it is a switch."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TERN_")}
    done = subprocess.run([program, "--tern-help"], capture_output=True, text=True, check=True, env=environment)
    return {name: not value for name, value in re.findall(r"^  --tern-([a-z0-9-]+)(=?)", done.stdout, re.MULTILINE)}


def named_in(page: pathlib.Path) -> list[tuple[int, str]]:
    """The lines and names of all options in a page. A name in capitals stands for any."""
    return [(number, name) for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1)
            for name in re.findall(r"--tern-([a-z0-9]+(?:-[a-z0-9]+)*)", line) if name not in PLACEHOLDERS]


def main() -> int:
    program, root = sys.argv[1], pathlib.Path(sys.argv[2])
    there = options_of(program)
    names, missing = set(), 0
    dated = [root / "docs" / folder for folder in ("decisions", "results")]
    pages = [page for page in sorted((root / "docs").rglob("*.md")) if not set(dated) & set(page.parents)]
    for page in [root / "README.md", *pages]:
        for number, name in named_in(page):
            names.add(name)
            if name not in there and not (name.startswith("no-") and there.get(name.removeprefix("no-"))):
                print(f"{page.relative_to(root)}:{number}: there is no option --tern-{name}")
                missing += 1
    print(f"{len(names)} names, {missing} of them in vain; the program has {len(there)} options")
    return 1 if missing or len(names) < 20 else 0


if __name__ == "__main__":
    sys.exit(main())
