#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Programs quoted in the documentation are the files they quote, to the letter; and links between pages lead somewhere.

A quotation is a block ```cpp right after a line <!-- examples/NAME.cpp -->.
"""

import os
import pathlib
import re
import sys

import common

QUOTED = re.compile(r"^<!-- (\S+\.(?:cpp|hpp)) -->$")
LINK = re.compile(r"\]\(([^)\s#]+)(?:#[^)\s]*)?\)")
RULE = "docs"


def check_page(root: pathlib.Path, name: str, content: str) -> list[common.Finding]:
    findings = []
    lines = content.splitlines()
    inside = False
    for number, line in enumerate(lines, 1):
        if line.startswith("```"):
            inside = not inside
        elif not inside and (match := QUOTED.match(line)):
            source = root / match.group(1)
            if not source.is_file():
                findings.append(common.Finding(name, number, RULE, f"quotes {match.group(1)}, which is not there"))
                continue
            if number >= len(lines) or lines[number] != "```cpp":
                findings.append(common.Finding(name, number, RULE, "no block ```cpp follows"))
                continue
            end = next((i for i in range(number + 1, len(lines)) if lines[i] == "```"), len(lines))
            block, wanted = lines[number + 1:end], source.read_text(encoding="utf-8").splitlines()
            if block != wanted:
                at = next((i for i, (a, b) in enumerate(zip(block, wanted)) if a != b), min(len(block), len(wanted)))
                findings.append(common.Finding(name, number + 2 + at, RULE,
                                               f"differs from {match.group(1)}, line {at + 1}: quote it anew"))
        elif not inside:
            for target in LINK.findall(line):
                if "://" not in target and not target.startswith("mailto:") and not os.path.exists(
                        root / os.path.dirname(name) / target):
                    findings.append(common.Finding(name, number, RULE, f"links to {target}, which is not there"))
    return findings


def check(root: pathlib.Path) -> list[common.Finding]:
    findings = []
    for name in common.files(root):
        if name.endswith(".md"):
            findings += check_page(root, name, common.text(root, name))
    return findings


if __name__ == "__main__":
    sys.exit(common.main(__doc__, check))
