#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every C++ file is formatted as .clang-format says, by clang-format 14 (versions differ in detail).

Mend with: python3 tools/lint/format.py --fix
"""

import argparse
import pathlib
import re
import shutil
import subprocess
import sys

import common

VERSION = 14


def find_tool() -> str | None:
    for name in (f"clang-format-{VERSION}", "clang-format"):
        if (path := shutil.which(name)) and re.search(
                rf"version {VERSION}\.", subprocess.run([path, "--version"], capture_output=True, text=True).stdout):
            return path
    return None


def check(root: pathlib.Path) -> list[common.Finding]:
    names = common.sources(root)
    if not names:
        return []
    tool = find_tool()
    if tool is None:
        return [common.Finding(".clang-format", 1, "format", f"no clang-format {VERSION} here: install the package "
                               f"clang-format-{VERSION}")]
    result = subprocess.run([tool, "--dry-run", "-Werror", *names], cwd=root, capture_output=True, text=True)
    findings = {}
    for line in result.stderr.splitlines():
        if match := re.match(r"(.+?):(\d+):\d+: error:", line):
            name, number = match.group(1), int(match.group(2))
            findings.setdefault(name, common.Finding(name, number, "format",
                                                     f"not formatted: {pathlib.PurePath(tool).name} -i {name}"))
    if result.returncode != 0 and not findings:
        findings[""] = common.Finding(".clang-format", 1, "format", result.stderr.strip()[:300])
    return list(findings.values())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parents[2])
    parser.add_argument("--fix", action="store_true", help="format the files in place")
    arguments = parser.parse_args()
    tree = arguments.root.resolve()
    if arguments.fix and (found := find_tool()):
        sys.exit(subprocess.run([found, "-i", *common.sources(tree)], cwd=tree).returncode)
    sys.exit(common.report(check(tree)))
