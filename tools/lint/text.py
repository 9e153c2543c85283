#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Plain-text rules: licence line on top, no file over 600 lines, no open ends without an issue, no machine's own paths, no
comment of prose beyond 100 columns (an example, which is indented, may be longer)."""

import pathlib
import re
import sys

import common

LICENCES = {"apps/mesh/": "GPL-3.0-or-later"}  # links CGAL; everything else is Apache-2.0
MOST_LINES = 600
LICENSED = common.SOURCES + (".py", ".sh", ".cmake", "CMakeLists.txt", ".cmake.in", ".pc.in")
COUNTED = (".cpp", ".hpp", ".h", ".c", ".py", ".sh")
TEXT = LICENSED + (".md", ".txt", ".cff", ".json.in", ".yml")
# Written in pieces so that this file passes its own check.
MOST_COLUMNS = 100
PROSE = re.compile(r"^\s*//[/!]? (?!.*(?:---|NOLINT|clang-format|[^ ]{70}))\S")
OPEN_END = re.compile(r"\b(" + "|".join(("TO" + "DO", "FIX" + "ME", "X" + "XX")) + r")\b(?!\s*\(#\d+\))")
MACHINE_PATH = re.compile(r"(?<![\w.$})/-])/(?:" + "|".join(("wo" + "rk", "ho" + "me", "ro" + "ot", "Us" + "ers")) +
                          r")/[\w.]|/tmp/\w/|\.\./sha" + "red\\b")


def is_script(root: pathlib.Path, name: str) -> bool:
    if "." in pathlib.PurePath(name).name:
        return False
    with open(root / name, "rb") as file:
        return file.read(2) == b"#!"


def check_licence(name: str, content: str) -> list[common.Finding]:
    licence = next((value for prefix, value in LICENCES.items() if name.startswith(prefix)), "Apache-2.0")
    wanted = f"SPDX-License-Identifier: {licence}"
    top = content.splitlines()[:2]
    if any(re.search(re.escape(wanted) + r"(\s|$)", line) for line in top):
        return []
    return [common.Finding(name, 1, "licence", f"no line '{wanted}' on top")]


def check_lines(name: str, content: str) -> list[common.Finding]:
    lines = len(content.splitlines())
    if lines <= MOST_LINES:
        return []
    return [common.Finding(name, lines, "length", f"{lines} lines, and {MOST_LINES} is the most: a longer file is two things")]


def check_words(name: str, content: str) -> list[common.Finding]:
    findings = []
    for number, line in enumerate(content.splitlines(), 1):
        if match := OPEN_END.search(line):
            findings.append(common.Finding(name, number, "open-end", f"{match.group(1)} without an issue: write "
                                           f"{match.group(1)}(#12)"))
        if match := MACHINE_PATH.search(line):
            findings.append(common.Finding(name, number, "machine-path", f"a path of one machine: {match.group(0)}…"))
    return findings


def check_comments(name: str, content: str) -> list[common.Finding]:
    return [common.Finding(name, number, "comment-width", f"a comment of {len(line)} columns: {MOST_COLUMNS} is the most")
            for number, line in enumerate(content.splitlines(), 1) if len(line) > MOST_COLUMNS and PROSE.match(line)]


def check(root: pathlib.Path) -> list[common.Finding]:
    findings = []
    for name in common.files(root):
        script = is_script(root, name)
        if not script and not name.endswith(TEXT):
            continue
        content = common.text(root, name)
        if script or name.endswith(LICENSED):
            findings += check_licence(name, content)
        if script or name.endswith(COUNTED):
            findings += check_lines(name, content)
        if name.endswith(common.SOURCES):
            findings += check_comments(name, content)
        findings += check_words(name, content)
    return findings


if __name__ == "__main__":
    sys.exit(common.main(__doc__, check))
