#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Programs quoted in the documentation are the files they quote, to the letter; links between pages lead somewhere; and
each program examples/NN_NAME.cpp is quoted by its step of the tutorial, docs/tutorial/NN-NAME.md, which the index names.

A quotation is a block ```cpp right after a line <!-- examples/NAME.cpp -->. `docs.py --fix` quotes all files anew, and
adds a block that is missing.
"""

import argparse
import os
import pathlib
import re
import sys

import common

QUOTED = re.compile(r"^<!-- (\S+\.(?:cpp|hpp)) -->$")
LINK = re.compile(r"\]\(([^)\s#]+)(?:#[^)\s]*)?\)")
STEP = re.compile(r"examples/(\d\d_\w+)\.cpp")
INDEX = "docs/tutorial/README.md"
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
                                               f"differs from {match.group(1)}, line {at + 1}: mend with tools/lint/docs.py --fix"))
        elif not inside:
            for target in LINK.findall(line):
                if "://" not in target and not target.startswith("mailto:") and not os.path.exists(
                        root / os.path.dirname(name) / target):
                    findings.append(common.Finding(name, number, RULE, f"links to {target}, which is not there"))
    return findings


def check_steps(root: pathlib.Path) -> list[common.Finding]:
    """Each step has its page, its program there, and its line in the index."""
    if not (root / INDEX).is_file():
        return []
    findings, index = [], common.text(root, INDEX)
    for match in filter(None, map(STEP.fullmatch, common.files(root))):
        page = f"{match.group(1).replace('_', '-')}.md"
        path = root / "docs/tutorial" / page
        if not path.is_file() or f"<!-- {match.group()} -->" not in path.read_text(encoding="utf-8"):
            findings.append(common.Finding(match.group(), 1, RULE, f"docs/tutorial/{page} does not quote it"))
        if f"({page})" not in index:
            findings.append(common.Finding(INDEX, 1, RULE, f"no link to {page}"))
    return findings


def check(root: pathlib.Path) -> list[common.Finding]:
    findings = check_steps(root)
    for name in common.files(root):
        if name.endswith(".md"):
            findings += check_page(root, name, common.text(root, name))
    return findings


def requoted(root: pathlib.Path, content: str) -> str:
    """The page with each quotation as its file is now. What quotes a file that is not there stays as it is."""
    lines = content.splitlines()
    out, at, inside = [], 0, False
    while at < len(lines):
        line = lines[at]
        out.append(line)
        at += 1
        if line.startswith("```"):
            inside = not inside
        elif not inside and (match := QUOTED.match(line)) and (root / match.group(1)).is_file():
            if at < len(lines) and lines[at] == "```cpp":
                at = next((i for i in range(at + 1, len(lines)) if lines[i] == "```"), len(lines)) + 1
            out += ["```cpp", *(root / match.group(1)).read_text(encoding="utf-8").splitlines(), "```"]
    return "\n".join(out) + "\n"


def fix(root: pathlib.Path) -> None:
    for name in common.files(root):
        if name.endswith(".md"):
            content = common.text(root, name)
            if "<!-- " in content and (new := requoted(root, content)) != content:
                (root / name).write_text(new, encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parents[2])
    parser.add_argument("--fix", action="store_true", help="quote all files anew instead of complaining")
    arguments = parser.parse_args()
    root = arguments.root.resolve()
    if arguments.fix:
        fix(root)
    return common.report(check(root))


if __name__ == "__main__":
    sys.exit(main())
