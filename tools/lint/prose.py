#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prose: lines end at 100 columns, and a sentence with "not yet" names an issue ("issue 28").

A page says what is true today. What is missing has an issue, or is a limit and needs no "yet". Code blocks, tables,
quotation marks of examples (<!-- … -->) and the targets of links may be wider. Decision records are as old as their
date, so they are left out. The list in prose_exempt.txt only shrinks: a line there that nothing needs is a finding.
"""

import pathlib
import re
import sys
from typing import Iterable

import common

WIDTH, NOT_YET = "width", "not-yet"
COLUMNS = 100
PAGES = re.compile(r"README\.md|docs/.+\.md|tern/[^/]+/README\.md")
RECORDS = "docs/decisions/"
EXEMPT = "tools/lint/prose_exempt.txt"
FENCE = re.compile(r"^\s*(```|~~~)")
TARGET = re.compile(r"\]\([^)]*\)|^\s*\[[^\]]+\]:.*|<https?:[^>]*>|https?://\S+")
BEGINS = re.compile(r"^\s*(#|\||[-*+] |\d+\. |>|<!--|$)")
ALONE = re.compile(r"^\s*(#|\||<!--)")
YET = re.compile(r"\bnot\s+((there|do)\s+)?yet\b", re.IGNORECASE)
ISSUE = re.compile(r"\bissues?\s+\d+", re.IGNORECASE)
END = re.compile(r"[.!?][)\"'*_`]*\s+(?=[A-Z`*_\[(\"'<])|\Z")


def outside_code(content: str) -> Iterable[tuple[int, str]]:
    inside = False
    for number, line in enumerate(content.splitlines(), 1):
        if FENCE.match(line):
            inside = not inside
            yield number, ""
        else:
            yield number, "" if inside else line


def units(content: str) -> Iterable[tuple[int, str]]:
    """Paragraphs, list items, headings and rows of tables, each with the number of its first line."""
    first, lines = 0, []
    for number, line in outside_code(content):
        if lines and (BEGINS.match(line) or ALONE.match(lines[-1])):
            yield first, "\n".join(lines)
            lines = []
        if line.strip():
            first = first if lines else number
            lines.append(line)
    if lines:
        yield first, "\n".join(lines)


def check_width(name: str, content: str) -> list[common.Finding]:
    return [common.Finding(name, number, WIDTH, f"{len(line)} columns, and prose ends at {COLUMNS}")
            for number, line in outside_code(content)
            if len(TARGET.sub("", line)) > COLUMNS and not re.match(r"^\s*(\||<!--)", line)]


def check_not_yet(name: str, content: str) -> list[common.Finding]:
    findings = []
    for first, unit in units(content):
        start = 0
        for end in END.finditer(unit):
            sentence = unit[start:end.end()]
            if (match := YET.search(sentence)) and not ISSUE.search(sentence):
                line = first + unit[:start + match.start()].count("\n")
                findings.append(common.Finding(name, line, NOT_YET, f'"{" ".join(match.group().split())}" without an '
                                               'issue: write "issue 28", or say what holds today'))
            start = end.end()
    return findings


def exemptions(root: pathlib.Path) -> dict[tuple[str, str], int]:
    """Rule and file, with the line of the list."""
    if not (root / EXEMPT).is_file():
        return {}
    lines = common.text(root, EXEMPT).splitlines()
    return {tuple(line.split()): number for number, line in enumerate(lines, 1) if line and not line.startswith("#")}


def check(root: pathlib.Path) -> list[common.Finding]:
    exempt, needed, findings = exemptions(root), set(), []
    for name in common.files(root):
        if not PAGES.fullmatch(name) or name.startswith(RECORDS):
            continue
        content = common.text(root, name)
        for finding in check_width(name, content) + check_not_yet(name, content):
            if (finding.rule, name) in exempt:
                needed.add((finding.rule, name))
            else:
                findings.append(finding)
    for entry, line in exempt.items():
        if entry not in needed:
            findings.append(common.Finding(EXEMPT, line, "prose", f"nothing needs '{' '.join(entry)}': take the line out"))
    return findings


if __name__ == "__main__":
    sys.exit(common.main(__doc__, check))
