# SPDX-License-Identifier: Apache-2.0
"""What the lints share: the list of files, findings, the command line."""

import argparse
import os
import pathlib
import re
import subprocess
import sys
from typing import Callable, Iterable, NamedTuple

SOURCES = (".cpp", ".hpp", ".h", ".c")
SKIPPED_FOLDERS = {".git", "build", "out", ".cache", "__pycache__"}
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')


class Finding(NamedTuple):
    path: str
    line: int
    rule: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.message} [{self.rule}]"


class Include(NamedTuple):
    line: int
    name: str
    quoted: bool


def files(root: pathlib.Path) -> list[str]:
    """Every file git tracks or would track, relative to root, sorted; without git, every file outside build folders."""
    try:
        listed = subprocess.run(
            ["git", "-C", str(root), "ls-files", "-z", "--cached", "--others", "--exclude-standard", "."],
            capture_output=True, check=True).stdout.decode().split("\0")
        inside = subprocess.run(["git", "-C", str(root), "rev-parse", "--show-prefix"], capture_output=True, check=True)
        # A fixture or an unpacked archive that lies in another repository and is ignored by it is walked instead.
        if inside.stdout.decode().strip() == "":
            return sorted(name for name in set(listed) if name and (root / name).is_file())
    except (OSError, subprocess.CalledProcessError):
        pass
    found = []
    for folder, folders, names in os.walk(root):
        folders[:] = [name for name in folders if name not in SKIPPED_FOLDERS]
        found += [os.path.relpath(os.path.join(folder, name), root) for name in names]
    return sorted(found)


def sources(root: pathlib.Path, under: str = "") -> list[str]:
    return [name for name in files(root) if name.endswith(SOURCES) and name.startswith(under)]


def text(root: pathlib.Path, name: str) -> str:
    return (root / name).read_text(encoding="utf-8", errors="replace")


def includes(content: str) -> Iterable[Include]:
    for number, line in enumerate(content.splitlines(), 1):
        if match := INCLUDE.match(line):
            yield Include(number, match.group(2), match.group(1) == '"')


def resolve(root: pathlib.Path, includer: str, include: Include) -> str:
    """The path an include means, relative to root, for files of this tree; the name itself for anything else."""
    if include.quoted:
        beside = os.path.normpath(os.path.join(os.path.dirname(includer), include.name))
        if (root / beside).is_file() or include.name.startswith("."):
            return beside
    return os.path.normpath(include.name)


def main(description: str, check: Callable[[pathlib.Path], list[Finding]]) -> int:
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parents[2],
                        help="the tree to check (default: this one)")
    return report(check(parser.parse_args().root.resolve()))


def report(findings: list[Finding]) -> int:
    for finding in findings:
        print(finding)
    if findings:
        print(f"{len(findings)} finding{'s' if len(findings) > 1 else ''}", file=sys.stderr)
    return 1 if findings else 0
